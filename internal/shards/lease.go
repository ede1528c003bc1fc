package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"assay/internal/process"
)

// errLost: another worker has taken over the shard because this one did not renew its lease in time.
var errLost = errors.New("the lease was not renewed in time, and another worker has taken over")

// holder identifies the holder of a lease.
type holder struct {
	process.ID
	Worker string `json:"id"` // the process; unlike its PID, never reused

	Claim string `json:"claim,omitempty"` // unique to this lease
}

// worker is this process.
var worker = sync.OnceValue(func() holder {
	me := process.Self()
	return holder{ID: me, Worker: fmt.Sprintf("%d-%08x", me.PID, rand.Uint32())}
})

// gone reports whether the holder is known to have ended, which is only possible for a process in this PID namespace.
// For others only the age of the lease counts.
func (h holder) gone() bool {
	me := worker()
	if h.Worker == me.Worker {
		return false
	}
	return h.Near() && h.PID == me.PID || h.Gone()
}

// lease is a claim on a shard. Leases are numbered, and the highest number counts. A worker takes over by creating
// the file of the next number, which only one worker can.
type lease struct {
	shard, number int
	name          string
	text          []byte // content of the file
}

func leaseName(shard, number int) string { return fmt.Sprintf("%06d.lease-%04d", shard, number) }

func progressName(shard, number int) string { return fmt.Sprintf("%06d.progress-%04d", shard, number) }

// last returns the number of the newest lease of a shard, 0 if there is none.
func (w *Work[T]) last(shard int) (n int, err error) {
	for {
		if there, err := w.place.has(leaseName(shard, n+1)); err != nil || !there {
			return n, err
		}
		n++
	}
}

// claim takes a shard. If another worker holds it, busy names that worker.
func (w *Work[T]) claim(shard int) (l *lease, busy string, err error) {
	n, err := w.last(shard)
	if err != nil {
		return nil, "", err
	}
	if n > 0 {
		who, age, err := w.held(shard, n)
		if err != nil {
			return nil, "", err
		}
		if !who.gone() && age < w.lease() {
			return nil, fmt.Sprintf("process %d on %s", who.PID, who.Host), nil
		}
		if w.Told != nil {
			w.Told(fmt.Sprintf("shard %d is taken over from process %d on %s, which was lost", shard, who.PID, who.Host))
		}
	}
	l = &lease{shard, n + 1, leaseName(shard, n+1), holding()}
	err = w.place.claim(l.name, l.text)
	if errors.Is(err, fs.ErrExist) {
		return nil, "another worker, which was faster", nil
	} else if err != nil {
		return nil, "", err
	}
	return l, "", nil
}

// holding returns the content of a new lease of this worker.
func holding() []byte {
	me := worker()
	me.Claim = fmt.Sprintf("%016x", rand.Uint64())
	text, _ := json.Marshal(me) // cannot fail: strings and numbers
	return append(text, '\n')
}

// held returns the holder of a lease, and the time since it was renewed.
func (w *Work[T]) held(shard, number int) (who holder, age time.Duration, err error) {
	name := leaseName(shard, number)
	age, err = w.place.age(name)
	if errors.Is(err, fs.ErrNotExist) { // the shard was finished meanwhile
		return who, 0, nil
	} else if err != nil {
		return who, 0, err
	}
	if raw, err := w.place.read(name); err == nil {
		_ = json.Unmarshal(raw, &who) // if it is still being written, no holder is known to be gone
	}
	return who, age, nil
}

func (w *Work[T]) lease() time.Duration {
	if w.Lease > 0 {
		return w.Lease
	}
	return defaultLease
}

// keep renews a lease until stop is called. The returned context ends with errLost if that fails for too long.
func (w *Work[T]) keep(ctx context.Context, l *lease) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		renewed := time.Now()
		for {
			select {
			case <-kept.Done():
				return
			case <-time.After(w.lease() / 4):
			}
			mine, err := w.mine(l)
			if mine && err == nil {
				err = w.place.renew(l.name, l.text)
			}
			switch {
			case err == nil && mine:
				renewed = time.Now()
			case err == nil, time.Since(renewed) > w.lease():
				cancel(errLost)
				return
			}
		}
	}()
	return kept, func() { cancel(nil); <-done }
}

// mine reports whether a lease is still the newest of its shard.
func (w *Work[T]) mine(l *lease) (bool, error) {
	there, err := w.place.has(l.name)
	if err != nil || !there {
		return false, err
	}
	newer, err := w.place.has(leaseName(l.shard, l.number+1))
	return !newer, err
}

// sweep removes the leases of a worker that ended between writing its manifest and releasing. Failure is harmless.
func (w *Work[T]) sweep(shard int) {
	n, err := w.last(shard)
	if err != nil || n == 0 {
		return
	}
	if who, age, err := w.held(shard, n); err == nil && (who.gone() || age >= w.lease()) {
		_ = w.release(&lease{shard: shard, number: n})
	}
}

// release removes the leases of a shard and its partial results.
func (w *Work[T]) release(l *lease) error {
	var errs []error
	for n := l.number; n > 0; n-- { // the existing ones are always 1 to n
		progress, err := w.place.progress(progressName(l.shard, n))
		if err == nil {
			err = os.Remove(progress)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		errs = append(errs, w.place.remove(leaseName(l.shard, n)))
	}
	return errors.Join(errs...)
}

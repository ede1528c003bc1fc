package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrLost says that another worker has taken over a shard, because this one did not renew its lease in time.
var ErrLost = errors.New("the lease was not renewed in time, and another worker has taken over")

// holder is who holds a lease.
type holder struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	ID   string `json:"id"` // of the process, whose number others may get again

	Boot  string `json:"boot,omitempty"`  // of the machine
	Space string `json:"space,omitempty"` // in which the number counts: containers have their own
}

// worker is this process.
var worker = sync.OnceValue(func() holder {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	h := holder{Host: host, PID: os.Getpid(), ID: fmt.Sprintf("%d-%08x", os.Getpid(), rand.Uint32())}
	boot, noBoot := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, noSpace := os.Readlink("/proc/self/ns/pid")
	if noBoot == nil && noSpace == nil {
		h.Boot, h.Space = strings.TrimSpace(string(boot)), space
	}
	return h
})

// gone tells whether the holder is known to have ended: it was a process of this machine and of this PID namespace.
// Names of hosts prove nothing, since containers may share one; of others the age of the lease decides alone.
func (h holder) gone() bool {
	me := worker()
	if me.Boot == "" || h.Boot != me.Boot || h.Space != me.Space || h.ID == me.ID || h.PID <= 0 {
		return false
	}
	return h.PID == me.PID || errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH)
}

// lease is a claim on a shard. Each has a number; the highest one counts. To take over is to make the next number's
// file, which only one can.
type lease struct {
	shard, number int
	path          string
}

func (w *Work[T]) leasePath(shard, number int) string {
	return filepath.Join(w.dir, fmt.Sprintf("%06d.lease-%04d", shard, number))
}

func (w *Work[T]) progressPath(shard, number int) string {
	return filepath.Join(w.dir, fmt.Sprintf("%06d.progress-%04d", shard, number))
}

// last gives the number of the newest lease of a shard, 0 if there is none.
func (w *Work[T]) last(shard int) (n int) {
	for {
		if _, err := os.Lstat(w.leasePath(shard, n+1)); err != nil {
			return n
		}
		n++
	}
}

// claim takes a shard. Where another worker has it, busy is who.
func (w *Work[T]) claim(shard int) (l *lease, busy string, err error) {
	n := w.last(shard)
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
	l = &lease{shard, n + 1, w.leasePath(shard, n+1)}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, "another worker that was faster", nil
	} else if err != nil {
		return nil, "", err
	}
	if err := errors.Join(f.Close(), l.renew()); err != nil {
		return nil, "", err
	}
	return l, "", nil
}

// renew writes the lease anew, which changes its time by the clock of the file system.
func (l *lease) renew() error {
	text, err := json.Marshal(worker())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// held tells who holds a lease, and how long ago it was renewed.
func (w *Work[T]) held(shard, number int) (who holder, age time.Duration, err error) {
	path := w.leasePath(shard, number)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) { // the shard was finished meanwhile
		return who, 0, nil
	} else if err != nil {
		return who, 0, err
	}
	if raw, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(raw, &who) // just being written: nobody is known to be gone
	}
	now, err := w.now()
	return who, now.Sub(info.ModTime()), err
}

// now is the time by the clock of the file system, whatever this machine's says.
func (w *Work[T]) now() (time.Time, error) {
	path := filepath.Join(w.dir, ".clock-"+worker().ID)
	if err := os.WriteFile(path, []byte("now\n"), 0o666); err != nil {
		return time.Time{}, err
	}
	info, err := os.Stat(path)
	if err = errors.Join(err, os.Remove(path)); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func (w *Work[T]) lease() time.Duration {
	if w.Lease > 0 {
		return w.Lease
	}
	return DefaultLease
}

// keep renews a lease until stop; the context that it gives ends with ErrLost if that cannot be done in time.
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
			if w.mine(l) && l.renew() == nil {
				renewed = time.Now()
			} else if !w.mine(l) || time.Since(renewed) > w.lease() {
				cancel(ErrLost)
				return
			}
		}
	}()
	return kept, func() { cancel(nil); <-done }
}

// mine tells whether a lease still counts: it is there, and none that is newer.
func (w *Work[T]) mine(l *lease) bool {
	_, gone := os.Lstat(l.path)
	_, err := os.Lstat(w.leasePath(l.shard, l.number+1))
	return gone == nil && errors.Is(err, fs.ErrNotExist)
}

// release removes the leases of a shard, and what its workers kept.
func (w *Work[T]) release(l *lease) error {
	var errs []error
	for n := l.number; n > 0; n-- { // those that are left are always 1 to n
		for _, path := range []string{w.progressPath(l.shard, n), w.leasePath(l.shard, n)} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var errFault = errors.New("the storage failed")

// faulty is a place of which some calls fail.
type faulty struct {
	place
	fails func(call string, n int) bool // n is the number of the call, from 1
	after bool                          // a call has its effect nevertheless, but the response is lost

	mu    sync.Mutex
	calls []string
}

// try makes a call unless it fails.
func (f *faulty) try(name string, call func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, name)
	fails := f.fails(name, len(f.calls))
	f.mu.Unlock()
	if !fails {
		return call()
	}
	if f.after {
		_ = call()
	}
	return errFault
}

func (f *faulty) has(name string) (there bool, err error) {
	err = f.try("has "+name, func() (err error) { there, err = f.place.has(name); return err })
	return there && err == nil, err
}

func (f *faulty) read(name string) (raw []byte, err error) {
	err = f.try("read "+name, func() (err error) { raw, err = f.place.read(name); return err })
	return raw, err
}

func (f *faulty) once(name string, raw []byte) error {
	return f.try("once "+name, func() error { return f.place.once(name, raw) })
}

func (f *faulty) write(name string, raw []byte) error {
	return f.try("write "+name, func() error { return f.place.write(name, raw) })
}

func (f *faulty) claim(name string, raw []byte) error {
	return f.try("claim "+name, func() error { return f.place.claim(name, raw) })
}

func (f *faulty) renew(name string, raw []byte) error {
	return f.try("renew "+name, func() error { return f.place.renew(name, raw) })
}

func (f *faulty) age(name string) (age time.Duration, err error) {
	err = f.try("age "+name, func() (err error) { age, err = f.place.age(name); return err })
	return age, err
}

func (f *faulty) expire(name string) error {
	return f.try("expire "+name, func() error { return f.place.expire(name) })
}

func (f *faulty) remove(name string) error {
	return f.try("remove "+name, func() error { return f.place.remove(name) })
}

func (f *faulty) progress(name string) (path string, err error) {
	err = f.try("progress "+name, func() (err error) { path, err = f.place.progress(name); return err })
	return path, err
}

// TestStorageFails: whichever call to the storage fails, the error is returned, nothing wrong is committed, and the
// same command completes the work later.
func TestStorageFails(t *testing.T) {
	scenes := map[string]func(t *testing.T, w *Work[result]) error{
		"a worker": func(t *testing.T, w *Work[result]) error {
			_, err := w.Do(t.Context(), Ref{0, 2}, plain)
			return err
		},
		"after a lost worker": func(t *testing.T, w *Work[result]) error {
			elsewhere(t, w, leaseName(1, 1), time.Hour)
			_, err := w.Do(t.Context(), Ref{0, 2}, plain)
			return err
		},
		"a merge": func(t *testing.T, w *Work[result]) error {
			f := w.place
			w.place = f.(*faulty).place
			if _, err := w.Do(t.Context(), Ref{0, 2}, plain); err != nil {
				t.Fatal(err)
			}
			elsewhere(t, w, leaseName(1, 1), time.Hour) // of a worker that was lost after its manifest
			w.place = f
			_, err := w.merge()
			return err
		},
	}
	// Without these calls the work goes on: who holds a lease, and the sweeping of leases.
	harmless := func(scene, call string) bool {
		return strings.HasPrefix(call, "read ") && strings.Contains(call, ".lease-") ||
			scene == "a merge" && (strings.Contains(call, ".lease-") || strings.Contains(call, ".progress-"))
	}
	for scene, run := range scenes {
		for _, after := range []bool{false, true} {
			for at, last := 1, false; !last; at++ {
				call := fmt.Sprintf("%s, call %d, effect %t", scene, at, after)
				t.Run(call, func(t *testing.T) {
					w := few(t, 2)
					w.Lease = time.Minute // no renewal, which may fail without an effect, however slow the machine is
					f := &faulty{place: w.place, after: after, fails: func(_ string, n int) bool { return n == at }}
					w.place = f
					err := run(t, w)
					if len(f.calls) < at {
						if last = true; err != nil {
							t.Errorf("no call failed: got error %v, want none", err)
						}
						return
					}
					failed := f.calls[at-1]
					if !errors.Is(err, errFault) && (err != nil || !harmless(scene, failed)) {
						t.Errorf("%s failed: got error %v, want %v", failed, err, errFault)
					}
					w.place, w.Lease = f.place, 20*time.Millisecond // the lease that the failure left behind expires soon
					if _, err := w.Do(t.Context(), Ref{0, 2}, plain); err != nil {
						t.Fatalf("%s failed: then got error %v, want none", failed, err)
					}
					got, err := w.merge()
					want, _ := plain(t.Context(), Shard{From: 0, To: 6})
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%s failed: then got results %v, %v, want %v", failed, got, err, want)
					}
				})
			}
		}
	}
}

// TestRenewalFails: a worker that cannot renew its lease continues until the lease has expired.
func TestRenewalFails(t *testing.T) {
	for _, verb := range []string{"renew ", "has "} {
		t.Run(verb, func(t *testing.T) {
			w := few(t, 1)
			w.Lease = 200 * time.Millisecond
			l, busy, err := w.claim(1)
			if err != nil || busy != "" {
				t.Fatalf("claim: got %q, %v, want the lease", busy, err)
			}
			w.place = &faulty{place: w.place, fails: func(call string, _ int) bool { return strings.HasPrefix(call, verb) }}
			start := time.Now()
			kept, stop := w.keep(t.Context(), l)
			<-kept.Done()
			stop()
			if cause, took := context.Cause(kept), time.Since(start); !errors.Is(cause, errLost) || took < w.Lease {
				t.Errorf("got cause %v after %v, want %v after more than %v", cause, took, errLost, w.Lease)
			}
		})
	}
}

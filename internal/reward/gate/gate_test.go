package gate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestGate: nobody is within while the scorers sleep, whoever comes and goes meanwhile.
func TestGate(t *testing.T) {
	for name, perCall := range map[string]bool{"resident": false, "per call": true} {
		t.Run(name, func(t *testing.T) {
			var awake atomic.Bool
			awake.Store(true)
			g := &Gate{Wait: time.Minute, PerCall: perCall, Sleep: func() { awake.Store(false) },
				Wake: func() error { awake.Store(true); return nil }}
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for range 50 {
						leave, err := g.Enter(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						if !awake.Load() {
							t.Error("within while the scorers sleep")
						}
						leave()
					}
				})
			}
			for range 20 {
				if err := g.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if err := g.Open(); err != nil {
					t.Error(err)
				}
			}
			callers.Wait()
		})
	}
}

// TestGateRefuses: who has waited too long is refused, and what cannot be woken stays asleep.
func TestGateRefuses(t *testing.T) {
	lost := errors.New("the device is lost")
	g := &Gate{Wait: time.Millisecond, Sleep: func() {}, Wake: func() error { return lost }}
	if err := g.Close(t.Context()); err != nil || !g.Asleep() {
		t.Fatalf("got %v, asleep %v", err, g.Asleep())
	}
	if _, err := g.Enter(t.Context()); !errors.Is(err, ErrAsleep) {
		t.Errorf("got %v, want %v", err, ErrAsleep)
	}
	if err := g.Open(); !errors.Is(err, lost) || !g.Asleep() {
		t.Errorf("got %v, asleep %v, want %v", err, g.Asleep(), lost)
	}
	g.Wake = func() error { return nil }
	if err := g.Open(); err != nil || g.Asleep() {
		t.Fatalf("got %v, asleep %v", err, g.Asleep())
	}

	// Whoever would put them to sleep may give up, while somebody is within.
	leave, err := g.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || g.Asleep() {
		t.Errorf("got %v, asleep %v", err, g.Asleep())
	}
	leave()
}

package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestGate: no request is inside while the scorers are asleep, whatever enters and leaves meanwhile.
func TestGate(t *testing.T) {
	for name, perCall := range map[string]bool{"resident": false, "per call": true} {
		t.Run(name, func(t *testing.T) {
			const scorers = 3
			var asleep [scorers]atomic.Bool
			g := New(scorers)
			g.Wait, g.PerCall = time.Minute, perCall
			set := func(numbers []int, to bool) {
				for _, i := range numbers {
					if asleep[i].Swap(to) == to {
						t.Errorf("scorer %d: got asleep %v, want a change to it", i, to)
					}
				}
			}
			g.Sleep = func(numbers []int) { set(numbers, true) }
			g.Wake = func(numbers []int) error { set(numbers, false); return nil }
			var callers sync.WaitGroup
			for k := range 8 {
				needs := []int{k % scorers}
				if k == 7 {
					needs = []int{0, 2}
				}
				callers.Go(func() {
					for range 50 {
						leave, err := g.Enter(t.Context(), needs)
						if err != nil {
							t.Error(err)
							return
						}
						for _, i := range needs {
							if asleep[i].Load() {
								t.Errorf("got a request inside while scorer %d is asleep", i)
							}
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

// TestGateRefuses: a request that has waited too long is refused, and a scorer that cannot be woken stays asleep.
func TestGateRefuses(t *testing.T) {
	lost := errors.New("the device is lost")
	g := New(1)
	g.Wait, g.Sleep, g.Wake = time.Millisecond, func([]int) {}, func([]int) error { return lost }
	if err := g.Close(t.Context()); err != nil || !g.Asleep() {
		t.Fatalf("got %v, asleep %v", err, g.Asleep())
	}
	if _, err := g.Enter(t.Context(), nil); !errors.Is(err, ErrAsleep) {
		t.Errorf("got %v, want %v", err, ErrAsleep)
	}
	if err := g.Open(); !errors.Is(err, lost) || !g.Asleep() {
		t.Errorf("got %v, asleep %v, want %v", err, g.Asleep(), lost)
	}
	g.Wake = func([]int) error { return nil }
	if err := g.Open(); err != nil || g.Asleep() {
		t.Fatalf("got %v, asleep %v", err, g.Asleep())
	}

	// Close may give up while a request is inside.
	leave, err := g.Enter(t.Context(), nil)
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

// TestPerCallWakesTheNeeded: a request wakes only the scorers that it needs.
func TestPerCallWakesTheNeeded(t *testing.T) {
	var woken, slept [][]int
	g := New(3)
	g.PerCall = true
	g.Sleep = func(numbers []int) { slept = append(slept, numbers) }
	g.Wake = func(numbers []int) error { woken = append(woken, numbers); return nil }
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	enter := func(needs ...int) func() {
		leave, err := g.Enter(t.Context(), needs)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first := enter(1)
	second := enter(0, 1)
	first()
	second()
	enter()()
	if got, want := fmt.Sprint(woken, slept), "[[1] [0]] [[0 1 2] [0 1]]"; got != want {
		t.Errorf("got woken and asleep again %s, want %s", got, want)
	}
}

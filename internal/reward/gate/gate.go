// Package gate lets requests through to scorers while these are awake: while their weights are on the device.
//
// A request enters, works, and leaves. Close finishes the work within, and puts the scorers to sleep; those who come
// then wait outside until Open, or for a while. With PerCall they wake the scorers themselves.
package gate

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrAsleep is the error of a request that has waited too long.
var ErrAsleep = errors.New("the scorers sleep: POST /v1/wake loads their weights again")

// Gate holds requests back while the scorers sleep.
type Gate struct {
	Wait    time.Duration // longest wait of a request
	PerCall bool          // the last request to leave puts the scorers to sleep, and the next one wakes them
	Sleep   func()        // called when no request is within
	Wake    func() error  // if it fails, the gate stays closed

	transition sync.Mutex // one at a time falls asleep or wakes

	mu      sync.Mutex
	active  int           // requests that have passed
	closed  bool          // the scorers sleep, or are about to
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// change wakes those that wait for one. g.mu is held.
func (g *Gate) change() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// next is closed at the next change. g.mu is held.
func (g *Gate) next() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// Asleep reports whether the scorers sleep, or are about to.
func (g *Gate) Asleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Enter waits until the scorers are awake. The caller leaves when its work is done.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	late := time.NewTimer(g.Wait)
	defer late.Stop()
	for {
		g.mu.Lock()
		if !g.closed {
			g.active++
			g.mu.Unlock()
			return g.leave, nil
		}
		changed := g.next()
		g.mu.Unlock()
		if g.PerCall {
			if err := g.Open(); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, ErrAsleep
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (g *Gate) leave() {
	g.mu.Lock()
	g.active--
	last := g.active == 0
	g.change()
	g.mu.Unlock()
	if last && g.PerCall { // before the answer is sent: the trainer then has the memory
		g.transition.Lock()
		defer g.transition.Unlock()
		g.mu.Lock()
		idle := g.active == 0 && !g.closed
		g.closed = g.closed || idle
		g.mu.Unlock()
		if idle {
			g.Sleep()
		}
	}
}

// Close puts the scorers to sleep once no request is in work.
func (g *Gate) Close(ctx context.Context) error {
	g.transition.Lock()
	defer g.transition.Unlock()
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	for g.active > 0 {
		changed := g.next()
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			g.closed = false
			g.change()
			g.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	g.mu.Unlock()
	g.Sleep()
	return nil
}

// Open wakes the scorers, and lets requests pass.
func (g *Gate) Open() error {
	g.transition.Lock()
	defer g.transition.Unlock()
	if !g.Asleep() {
		return nil
	}
	if err := g.Wake(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.change()
	return nil
}

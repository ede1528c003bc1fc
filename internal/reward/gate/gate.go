// Package gate lets requests through to scorers while these are awake: while their weights are on the device.
//
// A request enters, works, and leaves. Close finishes the work within, and puts all scorers to sleep; those who come
// then wait outside until Open, or for a while. With PerCall they wake the scorers that they need themselves.
package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrAsleep is the error of a request that has waited too long.
var ErrAsleep = errors.New("the scorers sleep: POST /v1/wake loads their weights again")

// Gate holds requests back while scorers sleep. Scorers are numbered from 0.
type Gate struct {
	Wait    time.Duration             // longest wait of a request
	PerCall bool                      // the last request to leave a scorer puts it to sleep, and the next one wakes it
	Sleep   func(scorers []int)       // called when no request is within that needs them
	Wake    func(scorers []int) error // if it fails, they stay asleep

	transition sync.Mutex // one at a time falls asleep or wakes

	mu      sync.Mutex
	active  int           // requests that have passed
	uses    []int         // by scorer: those that need it
	asleep  []bool        // by scorer: it sleeps, or is about to
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// New makes the gate of so many scorers, which are awake.
func New(scorers int) *Gate {
	return &Gate{uses: make([]int, scorers), asleep: make([]bool, scorers)}
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

// Asleep reports whether a scorer sleeps, or is about to.
func (g *Gate) Asleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.asleep, true)
}

// all are the numbers of all scorers.
func (g *Gate) all() (scorers []int) {
	for i := range g.asleep {
		scorers = append(scorers, i)
	}
	return scorers
}

// Enter waits until the scorers are awake: all of them or, with PerCall, the ones that the caller needs. The caller
// leaves when its work is done.
func (g *Gate) Enter(ctx context.Context, scorers []int) (leave func(), err error) {
	late := time.NewTimer(g.Wait)
	defer late.Stop()
	if !g.PerCall {
		scorers = g.all()
	}
	for {
		g.mu.Lock()
		if !slices.ContainsFunc(scorers, func(i int) bool { return g.asleep[i] }) {
			g.use(scorers, 1)
			g.mu.Unlock()
			return func() { g.leave(scorers) }, nil
		}
		changed := g.next()
		g.mu.Unlock()
		if g.PerCall {
			if err := g.open(scorers); err != nil {
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

// use counts a request that comes (1) or leaves (-1). g.mu is held.
func (g *Gate) use(scorers []int, n int) {
	for _, i := range scorers {
		g.uses[i] += n
	}
	if len(scorers) > 0 {
		g.active += n
	}
}

func (g *Gate) leave(scorers []int) {
	g.mu.Lock()
	g.use(scorers, -1)
	g.change()
	last := slices.ContainsFunc(scorers, func(i int) bool { return g.uses[i] == 0 })
	g.mu.Unlock()
	if !g.PerCall || !last {
		return
	}
	g.transition.Lock() // before the answer is sent: the trainer then has the memory
	defer g.transition.Unlock()
	var idle []int
	g.mu.Lock()
	for _, i := range scorers {
		if g.uses[i] == 0 && !g.asleep[i] {
			g.asleep[i] = true
			idle = append(idle, i)
		}
	}
	g.mu.Unlock()
	if len(idle) > 0 {
		g.Sleep(idle)
	}
}

// Close puts the scorers to sleep once no request is in work.
func (g *Gate) Close(ctx context.Context) error {
	g.transition.Lock()
	defer g.transition.Unlock()
	g.mu.Lock()
	var awake []int
	for i := range g.asleep {
		if !g.asleep[i] {
			g.asleep[i] = true
			awake = append(awake, i)
		}
	}
	for len(awake) > 0 && g.active > 0 {
		changed := g.next()
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			g.awake(awake)
			g.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	g.mu.Unlock()
	if len(awake) > 0 {
		g.Sleep(awake)
	}
	return nil
}

// awake marks scorers as awake. g.mu is held.
func (g *Gate) awake(scorers []int) {
	for _, i := range scorers {
		g.asleep[i] = false
	}
	g.change()
}

// Open wakes the scorers, and lets requests pass.
func (g *Gate) Open() error { return g.open(g.all()) }

// open wakes some scorers, unless they are awake.
func (g *Gate) open(scorers []int) error {
	g.transition.Lock()
	defer g.transition.Unlock()
	g.mu.Lock()
	var asleep []int
	for _, i := range scorers {
		if g.asleep[i] {
			asleep = append(asleep, i)
		}
	}
	g.mu.Unlock()
	if len(asleep) == 0 {
		return nil
	}
	if err := g.Wake(asleep); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.awake(asleep)
	return nil
}

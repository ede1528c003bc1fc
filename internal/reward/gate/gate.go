// Package gate lets requests through to scorers while these are awake, that is, while their weights are on the
// device.
//
// A request enters, works, and leaves. Close waits for requests inside, and puts all scorers to sleep; new requests
// then wait until Open, at most for Gate.Wait. With PerCall, requests wake the scorers that they need themselves.
package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrAsleep is the error of a request that has waited too long.
var ErrAsleep = errors.New("the scorers are asleep: POST /v1/wake reloads their weights")

// Gate holds requests back while scorers are asleep. Scorers are numbered from 0.
type Gate struct {
	Wait    time.Duration             // longest wait of a request
	PerCall bool                      // the last request to leave a scorer puts it to sleep, and the next one wakes it
	Sleep   func(scorers []int)       // called when no request that needs them is inside
	Wake    func(scorers []int) error // if it fails, the scorers stay asleep

	transition sync.Mutex // held while scorers fall asleep or wake

	mu      sync.Mutex
	active  int           // requests inside
	uses    []int         // by scorer: requests inside that need it
	asleep  []bool        // by scorer: it is asleep, or about to be
	changed chan struct{} // closed at the next change; nil: there are no waiters
}

// New returns the gate of this number of scorers, all awake.
func New(scorers int) *Gate {
	return &Gate{uses: make([]int, scorers), asleep: make([]bool, scorers)}
}

// change notifies all waiters. g.mu is held.
func (g *Gate) change() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// next returns a channel that is closed at the next change. g.mu is held.
func (g *Gate) next() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// Asleep reports whether any scorer is asleep, or about to be.
func (g *Gate) Asleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.asleep, true)
}

// all returns the numbers of all scorers.
func (g *Gate) all() (scorers []int) {
	for i := range g.asleep {
		scorers = append(scorers, i)
	}
	return scorers
}

// Enter waits until the scorers are awake: all of them or, with PerCall, the scorers that the caller needs. The
// caller calls leave when its work is done.
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

// use counts a request that enters (1) or leaves (-1). g.mu is held.
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

// Close puts the scorers to sleep once no request is inside.
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

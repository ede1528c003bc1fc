package reward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"assay/ort"
)

// gate holds requests back while the scorers sleep: their weights are off the device. Before they go to sleep, the work
// of all requests that have passed is finished.
type gate struct {
	wait       time.Duration // longest wait of a request
	perCall    bool          // the last request to leave puts the scorers to sleep, and the next one wakes them
	sleep      func()
	wake       func() error
	transition sync.Mutex // one at a time falls asleep or wakes

	mu      sync.Mutex
	active  int           // requests that have passed
	closed  bool          // the scorers sleep, or are about to
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// errAsleep rejects a request that has waited too long.
var errAsleep = &apiError{http.StatusServiceUnavailable, "asleep",
	"the scorers sleep: POST /v1/wake loads their weights again", 10 * time.Second}

// change wakes those that wait for one. g.mu is held.
func (g *gate) change() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// next is closed at the next change. g.mu is held.
func (g *gate) next() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

func (g *gate) asleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// enter waits until the scorers are awake. The caller leaves when its work is done.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	late := time.NewTimer(g.wait)
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
		if g.perCall {
			if err := g.open(); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, errAsleep
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	g.active--
	last := g.active == 0
	g.change()
	g.mu.Unlock()
	if last && g.perCall { // before the answer is sent: the trainer then has the memory
		g.transition.Lock()
		defer g.transition.Unlock()
		g.mu.Lock()
		idle := g.active == 0 && !g.closed
		g.closed = g.closed || idle
		g.mu.Unlock()
		if idle {
			g.sleep()
		}
	}
}

// close puts the scorers to sleep once no request is in work.
func (g *gate) close(ctx context.Context) error {
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
	g.sleep()
	return nil
}

// open wakes the scorers, and lets requests pass.
func (g *gate) open() error {
	g.transition.Lock()
	defer g.transition.Unlock()
	if !g.asleep() {
		return nil
	}
	if err := g.wake(); err != nil {
		return &apiError{http.StatusServiceUnavailable, "unavailable", err.Error(), 10 * time.Second}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.change()
	return nil
}

// longestRun is the longest wait for a run whose request has ended.
const longestRun = time.Minute

// sleep closes all replicas. Their devices have the memory of the weights again.
func (v *Replicated) sleep() {
	if _, err := v.Fingerprint(); err != nil { // answers name it, and wake compares with it
		v.warn(fmt.Sprintf("scorer %s: fingerprint: %v", v.name, err))
	}
	v.mu.Lock()
	v.asleep = true
	up := slices.Clone(v.at)
	clear(v.at)
	v.mu.Unlock()
	for _, c := range up {
		if c != nil {
			c.release()
			c.gone() // a run whose request has ended may go on
		}
	}
}

// gone waits until a replica that was released is closed, unless its run hangs.
func (c *replica) gone() {
	for late := time.Now().Add(longestRun); time.Now().Before(late); {
		c.set.mu.Lock()
		users := c.users
		c.set.mu.Unlock()
		if users == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// wake opens all replicas again. They must be what they were before.
func (v *Replicated) wake() error {
	var opened []*replica
	v.mu.Lock()
	todo := make([]bool, len(v.at)) // those that failed before are opened by reopen
	for i := range v.at {
		todo[i] = v.at[i] == nil && !v.states[i].reopening
	}
	v.mu.Unlock()
	for i := range todo {
		if !todo[i] {
			continue
		}
		c, err := v.openOne(i)
		if err != nil {
			for _, c := range opened {
				c.release()
			}
			return fmt.Errorf("scorer %s, copy %d: %w", v.name, i, err)
		}
		opened = append(opened, c)
	}
	v.mu.Lock()
	v.asleep = false
	for _, c := range opened {
		v.at[c.i] = c
	}
	v.mu.Unlock()
	v.changed()
	return nil
}

// openOne opens a replica, and checks that it is what it was when the server started.
func (v *Replicated) openOne(i int) (*replica, error) {
	c := &replica{set: v, i: i, users: 1}
	err := attempt(func() (err error) {
		c.Judge, err = v.open(i)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = v.same(c.Judge); err == nil {
		err = c.check(context.Background())
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// sleepers are the scorers that sleep. Others have no weights here, or are of a Go program that opened them itself.
func (s *scorerSet) sleepers() (sleep []*Replicated, stay []string) {
	for _, v := range s.all() {
		if v.open != nil {
			sleep = append(sleep, v)
		} else {
			stay = append(stay, v.name)
		}
	}
	return sleep, stay
}

// newGate makes the gate of an engine's scorers.
func newGate(o Options, scorers *scorerSet, m *metrics) *gate {
	sleep, _ := scorers.sleepers()
	g := &gate{wait: o.SleepWait, perCall: o.PerCall && len(sleep) > 0}
	g.sleep = func() {
		before := memoryNow(o.Devices)
		for _, v := range sleep {
			v.sleep()
		}
		ort.TrimMemory()
		m.slept(before, memoryNow(o.Devices))
	}
	g.wake = func() error {
		for i, v := range sleep {
			if err := v.wake(); err != nil {
				for _, v := range sleep[:i] {
					v.sleep()
				}
				return err
			}
		}
		return nil
	}
	return g
}

// memoryUse is memory in bytes.
type memoryUse struct{ resident, device int64 }

// memoryNow is the resident memory of this process, and the memory in use on CUDA devices, by all processes.
func memoryNow(devices []string) (now memoryUse) {
	if raw, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, pages int64
		fmt.Sscan(string(raw), &size, &pages)
		now.resident = pages * int64(os.Getpagesize())
	}
	for _, name := range devices {
		if free, total, err := ort.FreeMemory(name); err == nil {
			now.device += total - free
		}
	}
	return now
}

// postSleep answers POST /v1/sleep.
func (s *Server) postSleep(w http.ResponseWriter, r *http.Request) error {
	return s.switched(w, func() error { return s.engine.gate.close(r.Context()) })
}

// postWake answers POST /v1/wake.
func (s *Server) postWake(w http.ResponseWriter, _ *http.Request) error {
	return s.switched(w, s.engine.gate.open)
}

// switched answers with the state after a switch, and the memory before and after.
func (s *Server) switched(w http.ResponseWriter, do func() error) error {
	sleep, stay := s.engine.scorers.sleepers()
	if len(sleep) == 0 {
		return apiErrorf(http.StatusUnprocessableEntity, "asleep", "no judge here has weights that could be unloaded")
	}
	before := memoryNow(s.o.Devices)
	if err := do(); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return prefixError("asleep", err)
	}
	after := memoryNow(s.o.Devices)
	memory := map[string]int64{"resident_before": before.resident, "resident_after": after.resident}
	if len(s.o.Devices) > 0 {
		memory["device_before"], memory["device_after"] = before.device, after.device
	}
	for _, m := range s.o.Chat {
		stay = append(stay, m.Name)
	}
	v := map[string]any{"state": "awake", "memory": memory}
	if s.engine.gate.asleep() {
		v["state"] = "asleep"
	}
	if len(stay) > 0 {
		v["stay"] = stay
	}
	return writeJSON(w, http.StatusOK, v)
}

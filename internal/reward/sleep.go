package reward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"assay/internal/reward/gate"
	"assay/ort"
)

// longestRun is the longest wait for a run whose request has already ended.
const longestRun = time.Minute

// sleep closes all replicas. This frees the memory of the weights on their devices.
func (v *Replicated) sleep() {
	if _, err := v.Fingerprint(); err != nil { // it is in answers, and wake compares with it
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
			c.gone() // a run whose request has ended may continue
		}
	}
}

// gone waits until a released replica is closed, unless its run hangs.
func (c *replica) gone() {
	select {
	case <-c.closed:
	case <-time.After(longestRun):
	}
}

// wake reopens all replicas. They must be the same as before.
func (v *Replicated) wake() error {
	var opened []*replica
	v.mu.Lock()
	todo := make([]bool, len(v.at)) // replicas that failed before are opened by reopen
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
			return fmt.Errorf("copy %d: %w", i, err)
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

// openOne opens a replica, and checks that it is the same as when the server started.
func (v *Replicated) openOne(i int) (*replica, error) {
	c := &replica{set: v, i: i, users: 1, closed: make(chan struct{})}
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

// sleeper is a scorer or a chat model that can sleep, with its name.
type sleeper struct {
	name   string
	scorer *Replicated // nil: a chat model
	sleep  func()
	wake   func() error
}

// sleepers returns the scorers and chat models that can sleep, and the names of those that cannot, because a Go
// program opened them itself. Text judges have no weights besides their model's.
func (s *scorerSet) sleepers(o *Options) (sleep []sleeper, stay []string) {
	for _, v := range s.all() {
		if v.open != nil {
			sleep = append(sleep, sleeper{v.name, v, v.sleep, v.wake})
		} else if !v.info.Words {
			stay = append(stay, v.name)
		}
	}
	for _, m := range o.Chat {
		model, ok := m.ChatModel.(Sleeper)
		if !ok {
			stay = append(stay, m.Name)
			continue
		}
		sleep = append(sleep, sleeper{m.Name, nil, func() {
			if err := model.Sleep(); err != nil && o.Warn != nil {
				o.Warn(fmt.Sprintf("model %s: closing it: %v", m.Name, err))
			}
		}, model.Wake})
	}
	return sleep, stay
}

// newGate returns the gate for all sleepers. If there is none, one number represents all scorers.
func newGate(o Options, sleep []sleeper, m *metrics) *gate.Gate {
	g := gate.New(max(1, len(sleep)))
	g.Wait, g.PerCall = o.SleepWait, o.PerCall && len(sleep) > 0
	if len(sleep) == 0 {
		sleep = []sleeper{{sleep: func() {}, wake: func() error { return nil }}}
	}
	g.Sleep = func(numbers []int) {
		before := memoryNow(o.Devices)
		for _, i := range numbers {
			sleep[i].sleep()
		}
		ort.TrimMemory()
		m.slept(before, memoryNow(o.Devices))
	}
	g.Wake = func(numbers []int) error {
		for at, i := range numbers {
			v := sleep[i]
			if err := v.wake(); err != nil {
				for _, i := range numbers[:at] {
					sleep[i].sleep()
				}
				return &apiError{http.StatusServiceUnavailable, "unavailable", fmt.Sprintf("%s: %v", v.name, err),
					10 * time.Second}
			}
		}
		return nil
	}
	return g
}

// enter waits until the scorers of items are awake, and the chat models if one of these scorers is a text judge.
func (n *engine) enter(ctx context.Context, items []*item) (leave func(), err error) {
	used, words := map[*Replicated]bool{}, false
	for _, it := range items {
		used[it.scorer] = true
		words = words || it.scorer.info.Words
	}
	return n.enterFor(ctx, func(v sleeper) bool { return used[v.scorer] || words && v.scorer == nil })
}

// enterFor waits until the needed sleepers are awake.
func (n *engine) enterFor(ctx context.Context, needs func(sleeper) bool) (leave func(), err error) {
	var numbers []int
	for i, v := range n.sleepers {
		if needs(v) {
			numbers = append(numbers, i)
		}
	}
	return n.gate.Enter(ctx, numbers)
}

// wake wakes all scorers. It returns an error while a copy of a scorer is still being reopened after a failure.
func (n *engine) wake() error {
	if err := n.gate.Open(); err != nil {
		return err
	}
	for _, v := range n.sleepers {
		if v.scorer == nil {
			continue
		}
		if err := v.scorer.whole(); err != nil {
			return err
		}
	}
	return nil
}

// whole returns an error while not all copies are up.
func (v *Replicated) whole() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, c := range v.at {
		if c == nil && !v.asleep {
			return v.errDown(fmt.Errorf("copy %d: %w", i, v.states[i].err))
		}
	}
	return nil
}

// memoryUse is memory use in bytes.
type memoryUse struct{ resident, device int64 }

// memoryNow returns the resident memory of this process, and the memory in use on CUDA devices by all processes.
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
	return s.switched(w, func() error { return s.engine.gate.Close(r.Context()) })
}

// postWake answers POST /v1/wake.
func (s *Server) postWake(w http.ResponseWriter, _ *http.Request) error {
	return s.switched(w, s.engine.wake)
}

// switched calls do, and sends the new state and the memory use before and after.
func (s *Server) switched(w http.ResponseWriter, do func() error) error {
	sleep, stay := s.engine.scorers.sleepers(&s.o)
	if len(sleep) == 0 {
		return apiErrorf(http.StatusUnprocessableEntity, "asleep", "no judge of this server has weights to unload")
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
	v := map[string]any{"state": "awake", "memory": memory}
	if s.engine.gate.Asleep() {
		v["state"] = "asleep"
	}
	if len(stay) > 0 {
		v["stay"] = stay
	}
	return writeJSON(w, http.StatusOK, v)
}

package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"assay/edit"
)

// replica is an opened copy of a scorer.
type replica struct {
	edit.Judge
	set   *Replicated
	i     int
	users int // guarded by set.mu; the last one closes the replica

	closed chan struct{} // closed once it is closed, if it is guarded
}

// guarded reports whether the replica is replaced when it fails.
func (c *replica) guarded() bool { return c.set.open != nil }

// release drops a use of the replica. The last release closes it; being up counts as a use.
func (c *replica) release() {
	c.set.mu.Lock()
	c.users--
	last := c.users == 0
	c.set.mu.Unlock()
	if !last || !c.guarded() {
		return
	}
	if err := attempt(c.Judge.Close); err != nil {
		c.set.warn(fmt.Sprintf("scorer %s, copy %d: closing it: %v", c.set.name, c.i, err))
	}
	close(c.closed)
}

// others reports whether another replica is up.
func (c *replica) others() bool {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	for _, o := range c.set.at {
		if o != nil && o != c {
			return true
		}
	}
	return false
}

// alone reports whether the replica is the only one that is up, and no other could be reopened.
func (c *replica) alone() bool {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	for i, o := range c.set.at {
		if i != c.i && (o != nil || c.set.states[i].failures == 0) {
			return false
		}
	}
	return c.set.at[c.i] == c
}

// panicError is a panic, as an error.
type panicError struct{ value any }

func (e *panicError) Error() string {
	return fmt.Sprintf("internal error, please report it: %v", e.value)
}

// attempt calls f and turns a panic into an error: it must not end the process.
func attempt(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return f()
}

// verdict returns an error if err is the replica's fault: a panic always is; another error is if the replica no
// longer scores a known edit as before.
func (c *replica) verdict(ctx context.Context, err error) error {
	var p *panicError
	if errors.As(err, &p) {
		return err
	}
	if broken := c.check(ctx); broken != nil {
		return errors.Join(err, broken)
	}
	return nil
}

// check scores a known edit and compares the score.
func (c *replica) check(ctx context.Context) error {
	c.set.mu.Lock()
	probe, want := c.set.probe, c.set.want
	c.set.mu.Unlock()
	if want == nil {
		return nil
	}
	got, err := c.scoreOne(ctx, probe)
	switch {
	case err != nil:
		return fmt.Errorf("a known edit fails: %w", err)
	case !c.set.near(got, *want):
		return fmt.Errorf("a known edit has score01 %v instead of %v", got, *want)
	}
	return nil
}

// near reports whether scores agree within the tolerance. NaN equals NaN, for judges without an overall score.
func (v *Replicated) near(a, b float64) bool {
	return math.Abs(a-b) <= v.tolerance || math.IsNaN(a) && math.IsNaN(b)
}

// scoreOne scores one edit.
func (c *replica) scoreOne(ctx context.Context, e *edit.Edit) (score01 float64, err error) {
	err = attempt(func() error {
		scores, errs, err := edit.ScoreAll(ctx, c.Judge, e)
		if err == nil {
			score01, err = scores[0].Score01, errs[0]
		}
		return err
	})
	return score01, err
}

// fail takes a replica out of service and opens another in its place. Only the first call has an effect.
func (c *replica) fail(why error) {
	v := c.set
	v.mu.Lock()
	if v.at[c.i] != c {
		v.mu.Unlock()
		return
	}
	v.at[c.i] = nil
	v.states[c.i].err, v.states[c.i].reopening = why, true
	v.opening.Add(1)
	v.mu.Unlock()
	v.warn(fmt.Sprintf("scorer %s, copy %d failed and is being reopened: %v", v.name, c.i, why))
	go func() {
		defer v.opening.Done()
		v.changed()
		closed := make(chan struct{})
		go func() {
			c.release()
			close(closed)
		}()
		select { // free its memory before the next one is opened, unless it hangs
		case <-closed:
		case <-time.After(longestClose):
		}
		v.reopen(c.i)
	}()
}

// Pauses between attempts to reopen a replica, and the longest wait for closing one that may hang.
const (
	firstPause   = 100 * time.Millisecond
	maxPause     = time.Minute
	longestClose = 5 * time.Second
)

// reopen tries to open a replica until that succeeds or the set is closed.
func (v *Replicated) reopen(i int) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		for v.sleeping() {
			if !v.pause(firstPause) {
				return
			}
		}
		c, err := v.openOne(i)
		v.mu.Lock()
		select {
		case <-v.closed:
			v.mu.Unlock()
			if err == nil {
				c.release()
			}
			return
		default:
		}
		s := &v.states[i]
		switch {
		case err == nil && v.asleep: // it fell asleep meanwhile
			v.mu.Unlock()
			c.release()
			continue
		case err == nil:
			s.restarts, s.failures, s.reopening, v.at[i] = s.restarts+1, 0, false, c
		default:
			s.failures, s.err = s.failures+1, err
		}
		v.mu.Unlock()
		v.changed()
		if err == nil {
			return
		}
		v.warn(fmt.Sprintf("scorer %s, copy %d cannot be reopened: %v", v.name, i, err))
		if !v.pause(pause) {
			return
		}
	}
}

func (v *Replicated) sleeping() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asleep
}

// pause waits, and returns false if the set is closed meanwhile.
func (v *Replicated) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-v.closed:
		return false
	}
}

package reward

import (
	"context"
	"errors"
	"fmt"
	"math"

	"assay/edit"
)

// replica is an opened copy of a scorer.
type replica struct {
	edit.Judge
	set   *Replicated
	i     int
	users int // set.mu is held; the last one closes it
}

// guarded reports whether the replica is replaced when it fails.
func (c *replica) guarded() bool { return c.set.open != nil }

func (c *replica) hold() {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	c.users++
}

// release drops a use of the replica. The last one closes it: being up is a use, too.
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

// verdict returns an error if err is the replica's fault: a panic always is; any other error is if the replica no
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

// check scores a known edit and compares.
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
	case !(math.Abs(got-*want) <= c.set.tolerance):
		return fmt.Errorf("a known edit has score01 %v instead of %v", got, *want)
	}
	return nil
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

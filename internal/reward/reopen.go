package reward

import (
	"context"
	"fmt"
	"time"
)

// fail takes a replica out of service and opens another in its place. Only the first call has an effect.
func (c *replica) fail(why error) {
	v := c.set
	v.mu.Lock()
	if v.at[c.i] != c {
		v.mu.Unlock()
		return
	}
	v.at[c.i] = nil
	v.states[c.i].err = why
	v.opening.Add(1)
	v.mu.Unlock()
	v.warn(fmt.Sprintf("scorer %s, copy %d failed and is opened again: %v", v.name, c.i, why))
	go func() {
		defer v.opening.Done()
		v.changed()
		closed := make(chan struct{})
		go func() {
			c.release()
			close(closed)
		}()
		select { // its memory is wanted for the next one, unless it hangs
		case <-closed:
		case <-time.After(longestClose):
		}
		v.reopen(c.i)
	}()
}

// Pauses between attempts to reopen a replica, and the longest wait for closing one that may hang.
const (
	firstPause   = 100 * time.Millisecond
	mostPause    = time.Minute
	longestClose = 5 * time.Second
)

// reopen tries to open a replica until it succeeds or all are closed.
func (v *Replicated) reopen(i int) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		c := &replica{set: v, i: i, users: 1}
		err := attempt(func() (err error) {
			c.Judge, err = v.open(i)
			return err
		})
		if err == nil {
			if err = c.check(context.Background()); err != nil {
				c.release()
			}
		}
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
		if err == nil {
			s.restarts, s.failures, v.at[i] = s.restarts+1, 0, c
		} else {
			s.failures, s.err = s.failures+1, err
		}
		v.mu.Unlock()
		v.changed()
		if err == nil {
			return
		}
		v.warn(fmt.Sprintf("scorer %s, copy %d cannot be opened again: %v", v.name, i, err))
		select {
		case <-time.After(pause):
		case <-v.closed:
			return
		}
	}
}

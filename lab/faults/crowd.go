package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// crowdAll starts many workers of every command that shares out its work.
func (c *campaign) crowdAll(list []command) (*table, []piece) {
	t := &table{head: "| workers, half of them killed | one alone | all together | workers | killed | result |",
		line: func(t *tally) string {
			return fmt.Sprintf(
				"%.0f s | %.0f s | %d | %d | %s",
				t.whole.Seconds(),
				t.crowd.Seconds(),
				t.runs,
				t.kills,
				verdict(t),
			)
		}}
	var pieces []piece
	for _, one := range list {
		if one.worker == nil {
			continue
		}
		l := c.ledger.line(ofCrowds, one.name)
		t.lines = append(t.lines, l)
		part := fmt.Sprintf("%d workers, %d rows", c.workers, c.rows)
		if c.workers == 0 || c.ledger.tried(ofCrowds, one.name, part) {
			continue
		}
		pieces = append(pieces, piece{line: l, try: func(ctx context.Context, rng *rand.Rand) (*tally, error) {
			t, err := one.crowd(ctx, c.workers, rng)
			return t, c.ledger.add(c.seed, [3]string{ofCrowds, one.name, part}, t, err)
		}})
	}
	return t, pieces
}

// crowd starts so many workers at a time and kills half of them at random instants. Those that had a share of their own
// are started again; the shares of the others are for whoever is left. Then all is merged: nothing may lack, and
// nothing be there twice, or the bytes are others than those of one worker alone.
func (c *command) crowd(ctx context.Context, workers int, rng *rand.Rand) (*tally, error) {
	one := *c
	if !c.own { // by the same plan: captions that are encoded together depend on it
		one.args = func(out string) []string { return c.worker(out, 1, workers) }
	}
	began := time.Now()
	var worked time.Duration // until all was merged, which no worker does
	if c.finish != nil {
		one.finish = func(out string) []string {
			worked = cmp.Or(worked, time.Since(began))
			return c.finish(out)
		}
	}
	out, want, closing, err := one.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	r := &tally{whole: time.Since(began)}
	worked = cmp.Or(worked, r.whole)
	if c.own { // one run makes the table as well
		if worked, err = c.shares(ctx, out, workers); err != nil {
			return nil, err
		}
	}
	if err := c.anew(out); err != nil {
		return nil, err
	}
	began = time.Now()
	if err = c.together(ctx, out, workers, worked, rng, r); err == nil {
		err = c.end(ctx, out)
	}
	r.crowd = time.Since(began)
	if err != nil {
		return r, err
	}
	got, err := digests(out, c.results)
	if names := unlike(want, got); len(names) > 0 {
		r.flaws = append(r.flaws, fmt.Sprintf("%d workers make other bytes: %s", workers, strings.Join(names, ", ")))
	}
	return r, err
}

// shares is about how long so many workers take on this machine's cores, by the first one's share.
func (c *command) shares(ctx context.Context, out string, workers int) (time.Duration, error) {
	if err := c.anew(out); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err := c.work(ctx, out, 1, workers, time.Hour)
	return time.Since(began) * time.Duration(workers) / time.Duration(runtime.NumCPU()), err
}

// anew empties the folder of a command, and writes its configuration if it has one.
func (c *command) anew(out string) error {
	err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o777))
	if err == nil {
		c.args(out)
	}
	return err
}

// together runs the workers, and kills each second one within the time that one takes alone.
func (c *command) together(
	ctx context.Context, out string, workers int, alone time.Duration, rng *rand.Rand, r *tally,
) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for i := range workers {
		life := time.Hour
		if i%2 == 0 {
			life = time.Duration(rng.Float64() * float64(alone))
		}
		all.Go(func() {
			killed, err := c.work(ctx, out, i+1, workers, life)
			if killed && ctx.Err() == nil && c.own {
				_, err = c.work(ctx, out, i+1, workers, time.Hour)
			}
			mu.Lock()
			defer mu.Unlock()
			if r.runs++; killed {
				r.kills++
			}
			failed = append(failed, err)
		})
	}
	all.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// work runs worker i of n and kills it after life, unless it ends before.
func (c *command) work(ctx context.Context, out string, i, n int, life time.Duration) (killed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	args := c.worker(out, i, n)
	err = check(exec.CommandContext(ctx, args[0], args[1:]...), out)
	if ctx.Err() != nil && err != nil {
		return true, nil
	}
	return false, err
}

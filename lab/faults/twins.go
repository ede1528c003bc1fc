package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// tryTwins starts a command twice at a time in one folder, with its store, journal or run directory. Both must end with
// what one alone makes, or one of them with an error that names the folder. It counts how many ended with one.
func (o *campaign) tryTwins(c *command, ctx context.Context, _ *rand.Rand) (*tally, error) {
	out, want, closing, err := c.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	r := &tally{}
	for range o.twins {
		if err := os.RemoveAll(out); err != nil {
			return r, err
		}
		refused, err := together(ctx, [2]*command{c, c}, [2]string{out, out})
		if err == nil {
			err = c.end(ctx, out)
		}
		if err != nil {
			return r, err
		}
		r.runs, r.failed = r.runs+1, r.failed+len(refused)
		got, err := digests(out, c.Results)
		if err != nil {
			return r, err
		}
		if names := unlike(want, got); len(names) > 0 {
			r.flaws = append(r.flaws, "two at a time make other bytes in "+strings.Join(names, ", "))
		}
	}
	return r, nil
}

// together runs two commands at a time. One of them may be refused, by an error that names its folder: which ones were
// is returned.
func together(ctx context.Context, both [2]*command, outs [2]string) (refused []int, err error) {
	var all sync.WaitGroup
	var failed [2]error
	var said [2][]byte
	var args [2][]string
	for i, c := range both {
		if err := os.MkdirAll(outs[i], 0o777); err != nil {
			return nil, err
		}
		if args[i], err = c.args(c.Run, outs[i]); err != nil {
			return nil, err
		}
	}
	for i := range both {
		all.Go(func() {
			p := exec.CommandContext(ctx, args[i][0], args[i][1:]...)
			p.Env = environ(outs[i])
			said[i], failed[i] = ownThread(p)
		})
	}
	all.Wait()
	for i, err := range failed {
		if err == nil {
			continue
		}
		refused = append(refused, i)
		if text := string(said[i]); !strings.Contains(text, filepath.Dir(outs[i])) || strings.Contains(text, "goroutine ") {
			return refused, fmt.Errorf("%s, one of two at a time: %w: %s", both[i].Name, err, text)
		}
	}
	if len(refused) == 2 {
		return refused, errors.New("of two at a time neither made it: " + string(said[0]) + string(said[1]))
	}
	return refused, nil
}

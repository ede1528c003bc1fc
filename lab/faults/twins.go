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

// tryTwins runs a command twice concurrently in one folder, with its store, journal or run directory. Both must end
// with the result of a single run, or one of them with an error that names the folder. It counts the runs that ended
// with such an error.
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
			r.flaws = append(r.flaws, "two concurrent runs write different bytes in "+strings.Join(names, ", "))
		}
	}
	return r, nil
}

// together runs two commands concurrently. One of them may be refused with an error that names its folder; it returns
// the refused ones.
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
			return refused, fmt.Errorf("%s, one of two concurrent runs: %w: %s", both[i].Name, err, text)
		}
	}
	if len(refused) == 2 {
		return refused, errors.New("neither of two concurrent runs succeeded: " + string(said[0]) + string(said[1]))
	}
	return refused, nil
}

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// longest is the time limit of a command with a fault.
const longest = 5 * time.Minute

// faults makes up to most calls of a command fail, one in each run. The command must end with an error that names a
// file, and write the same bytes when it is run again; or write them despite the fault.
func (c *command) faults(ctx context.Context, kind string, most int, late func() bool) (*tally, error) {
	out, want, closing, err := c.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	count := &tracer{root: out, kind: kind}
	if _, _, err := c.trace(ctx, count, out); err != nil {
		return nil, err
	}
	r := &tally{calls: count.calls}
	calls := inOrder(count.calls, c.Name+kind)
	for _, at := range calls[:min(most, len(calls))] {
		if late() {
			break
		}
		t := &tracer{}
		var flaw string
		var failed bool
		for n := 0; n < 3 && t.hit == "" && flaw == "" && err == nil; n++ { // a run may make fewer calls than the first one
			t = &tracer{root: out, kind: kind, at: at}
			flaw, failed, err = c.fault(ctx, t, out, want)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return r, err
		}
		if t.hit != "" {
			r.runs++
		}
		if failed {
			r.failed++
		}
		if flaw != "" {
			r.flaws = append(r.flaws, fmt.Sprintf("%s at call %d (%s): %s", kind, at, t.hit, flaw))
		}
	}
	return r, nil
}

// inOrder returns the numbers from 1 to n in a fixed order, which is nearly the same for n+1.
func inOrder(n int, name string) []int {
	place := func(i int) uint64 {
		sum := sha256.Sum256(fmt.Append(nil, name, i))
		return binary.LittleEndian.Uint64(sum[:])
	}
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(place(a), place(b)) })
	return out
}

// trace runs the command in a new folder.
func (c *command) trace(ctx context.Context, t *tracer, out string) (code int, said string, err error) {
	if err := os.RemoveAll(out); err != nil {
		return 0, "", err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return 0, "", err
	}
	args, err := c.args(c.Run, out)
	if err != nil {
		return 0, "", err
	}
	return t.run(ctx, args, environ(out), longest)
}

// fault runs the command with one fault, and then again without.
func (c *command) fault(ctx context.Context, t *tracer, out string, want map[string]string) (flaw string, failed bool,
	err error) {
	code, said, err := c.trace(ctx, t, out)
	if err != nil {
		return "", false, err
	}
	short := said[max(0, len(said)-600):]
	switch {
	case t.hit == "": // fewer calls than the first time
	case code == -1:
		return "it was killed by a signal, or hung: " + short, true, nil
	case strings.Contains(said, "goroutine ") || strings.Contains(said, "panic:"):
		return "it panicked: " + short, true, nil
	case code != 0 && !strings.Contains(said, filepath.Dir(out)):
		flaw = "the error names no file: " + short
	case code > 1:
		flaw = fmt.Sprintf("exit code %d: %s", code, short)
	}
	if failed = code != 0; failed && !c.made(out) {
		if err := c.run(ctx, out); err != nil {
			return fmt.Sprintf("after %q the next run fails: %v", short, err), true, nil
		}
	} else if synced := strings.HasPrefix(t.hit, "f") || strings.HasPrefix(t.hit, "rename"); synced && t.kind == "EIO" {
		return "the fault went unnoticed", false, nil // a sync, truncation or rename
	} else if err := c.end(ctx, out); err != nil {
		return "its result is unusable: " + err.Error(), false, nil
	}
	got, err := digests(out, c.Results)
	if err != nil {
		return "the result is missing: " + err.Error(), failed, nil
	}
	if names := unlike(want, got); len(names) > 0 {
		flaw = fmt.Sprintf("different bytes in %s; output: %s", strings.Join(names, ", "), short)
	}
	return flaw, failed, nil
}

// jumps runs the command once while the machine's clock jumps by hours, days and years, forward and back: it must
// succeed and write the same bytes.
func (c *command) jumps(ctx context.Context, rng *rand.Rand) (*tally, error) {
	out, want, closing, err := c.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	t := &tracer{root: out, jumps: rng.Uint64() | 1}
	code, said, err := c.trace(ctx, t, out)
	if err != nil {
		return nil, err
	}
	r := &tally{runs: 1, calls: t.calls}
	if code != 0 {
		r.flaws = append(r.flaws, fmt.Sprintf("exit code %d: %s", code, said[max(0, len(said)-600):]))
		return r, nil
	}
	if t.calls == 0 {
		r.flaws = append(r.flaws, "it never read the jumping clock: nothing was tested")
	}
	if err := c.end(ctx, out); err != nil {
		return r, err
	}
	got, err := digests(out, c.Results)
	if names := unlike(want, got); err == nil && len(names) > 0 {
		r.flaws = append(r.flaws, "different bytes in "+strings.Join(names, ", "))
	}
	return r, err
}

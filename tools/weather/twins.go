package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// twins starts a command twice at a time in one folder, with its store, journal or run directory: both must end with
// what one alone makes, or one of them with an error that names the folder. It returns how many ended with one.
func (c *command) twins(ctx context.Context, rounds int) (refused int, err error) {
	root, err := os.MkdirTemp(os.TempDir(), "weather")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(root)
	out := filepath.Join(root, "out")
	if err := c.run(ctx, out); err != nil {
		return 0, err
	}
	want, err := digests(out, c.results)
	if err != nil {
		return 0, err
	}
	for range rounds {
		if err := os.RemoveAll(out); err != nil {
			return 0, err
		}
		n, err := c.pair(ctx, out)
		if err != nil {
			return 0, err
		}
		refused += n
		got, err := digests(out, c.results)
		if err != nil {
			return 0, err
		}
		if names := unlike(want, got); len(names) > 0 {
			return 0, fmt.Errorf("two at a time make other bytes in %s", strings.Join(names, ", "))
		}
	}
	return refused, nil
}

// pair runs the command twice at a time, and once more where it is not done then.
func (c *command) pair(ctx context.Context, out string) (refused int, err error) {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return 0, err
	}
	args := c.args(out)
	var both sync.WaitGroup
	var failed [2]error
	var said [2][]byte
	for i := range failed {
		both.Go(func() {
			p := exec.CommandContext(ctx, args[0], args[1:]...)
			said[i], failed[i] = p.CombinedOutput()
		})
	}
	both.Wait()
	for i, err := range failed {
		if err == nil {
			continue
		}
		refused++
		if text := string(said[i]); !strings.Contains(text, filepath.Dir(out)) || strings.Contains(text, "goroutine ") {
			return 0, fmt.Errorf("one of two at a time: %w: %s", err, text)
		}
	}
	if refused == 2 {
		return 0, errors.New("of two at a time neither made it: " + string(said[0]))
	}
	return refused, c.end(ctx, out)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally is the current result of a line of a table.
type tally struct {
	whole         time.Duration // shortest undisturbed run
	kills, runs   int
	calls, failed int // file system calls or clock reads; runs that ended with an error
	flaws         []string
	broken        bool // some check could not be completed
}

func (t *tally) add(o *tally) {
	if t.whole == 0 || o.whole > 0 && o.whole < t.whole {
		t.whole = o.whole
	}
	t.kills, t.runs, t.calls, t.failed = t.kills+o.kills, t.runs+o.runs, max(t.calls, o.calls), t.failed+o.failed
	t.flaws = append(t.flaws, o.flaws...)
	t.broken = t.broken || o.broken
}

// table is one kind of test of the commands. It is printed when all of its pieces are done.
type table struct {
	head   string
	line   func(t *tally) string // the columns between name and verdict
	pieces func(t *table, list []command) []piece
	lines  []*line
}

type line struct {
	name  string
	tally tally
	tried bool
	errs  []error
}

// piece is a part of a line that can run concurrently with other pieces.
type piece struct {
	line *line
	try  func(ctx context.Context, rng *rand.Rand) (*tally, error)
}

// add adds a line.
func (t *table) add(name string) *line {
	l := &line{name: name}
	t.lines = append(t.lines, l)
	return l
}

func (c *campaign) run(ctx context.Context) error {
	for _, path := range []*string{&c.bin, &c.mpi, &c.dir} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return err
	}
	list, err := c.cases()
	if err != nil {
		return err
	}
	names := []string{"server", "day"}
	for _, one := range list {
		names = append(names, one.Name)
	}
	if c.chosen, err = choose(c.only, names); err != nil {
		return err
	}
	fmt.Printf("seed %d\n\n", c.seed)
	tables, pieces := c.plan(slices.DeleteFunc(list, func(one command) bool { return !c.wants(one.Name) }))
	failed := []error{c.tryAll(ctx, pieces)}
	for _, t := range tables {
		failed = append(failed, t.print())
	}
	if c.server > 0 && c.wants("server") {
		rng := rand.New(rand.NewPCG(c.seed, 1))
		failed = append(failed, serverWeather(ctx, filepath.Join(c.bin, "score"), c.server, rng))
	}
	if c.day > 0 && c.wants("day") && ctx.Err() == nil {
		failed = append(failed, dayWeather(ctx, filepath.Join(c.bin, "score"), c.day, c.seed))
	}
	return errors.Join(failed...)
}

// plan returns the pieces to run on the commands, and the tables for their results.
func (c *campaign) plan(list []command) (tables []*table, pieces []piece) {
	begin := func(wanted bool, t *table) {
		if wanted {
			tables, pieces = append(tables, t), append(pieces, t.pieces(t, list)...)
		}
	}
	begin(c.kills > 0, &table{
		head:   "| command | one run | kills | runs | result |",
		line:   func(t *tally) string { return fmt.Sprintf("%.1f s | %d | %d", t.whole.Seconds(), t.kills, t.runs) },
		pieces: each(1, c.killOften),
	})
	if c.brief {
		list = slices.DeleteFunc(slices.Clone(list), func(one command) bool { return !one.Quick })
	}
	runsAndFailed := func(t *tally) string { return fmt.Sprintf("%d | %d", t.runs, t.failed) }
	begin(c.twins > 0, &table{
		head:   "| two concurrent runs in one folder | rounds | with one refused | result |",
		line:   runsAndFailed,
		pieces: each(1, c.tryTwins),
	})
	begin(c.pairs != 0, &table{
		head:   "| two concurrent commands on one store, in all pairings | pairs | result |",
		line:   func(t *tally) string { return fmt.Sprint(t.runs) },
		pieces: c.onStores,
	})
	begin(c.pairs != 0, &table{
		head:   "| two different commands in one folder | pairs | with one refused | result |",
		line:   runsAndFailed,
		pieces: c.rivals,
	})
	jumps := c.jumps
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		jumps = 0
	}
	begin(c.jumps > 0, &table{
		head:   "| command | runs while the clock jumps | clock reads per run | result |",
		line:   func(t *tally) string { return fmt.Sprintf("%d | %d", t.runs, t.calls) },
		pieces: each(jumps, (*command).jumps),
	})
	begin(c.calls > 0, &table{
		head:   "| command, fault | calls | tested | failed, and the next run resumed | result |",
		line:   func(t *tally) string { return fmt.Sprintf("%d | %d | %d", t.calls, t.runs, t.failed) },
		pieces: c.failCalls,
	})
	return tables, pieces
}

// each adds a line for each command, with n pieces.
func each(
	n int, try func(c *command, ctx context.Context, rng *rand.Rand) (*tally, error),
) func(t *table, list []command) []piece {
	return func(t *table, list []command) (pieces []piece) {
		for i := range list {
			if n == 0 {
				break
			}
			l := t.add(list[i].Name)
			for range n {
				pieces = append(pieces, piece{l, func(ctx context.Context, rng *rand.Rand) (*tally, error) {
					return try(&list[i], ctx, rng)
				}})
			}
		}
		return pieces
	}
}

// failCalls makes calls of every command fail.
func (c *campaign) failCalls(t *table, list []command) (pieces []piece) {
	for i := range list {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			l := t.add(list[i].Name + ", " + kind)
			pieces = append(pieces, piece{l, func(ctx context.Context, _ *rand.Rand) (*tally, error) {
				return list[i].faults(ctx, kind, c.calls, c.late)
			}})
		}
	}
	return pieces
}

// tryAll runs the pieces, c.jobs at a time.
func (c *campaign) tryAll(ctx context.Context, pieces []piece) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	next := 0
	for range max(1, c.jobs) {
		all.Go(func() {
			for {
				mu.Lock()
				k, n := next, len(pieces)
				next++
				mu.Unlock()
				if k >= n || c.late() || ctx.Err() != nil {
					return
				}
				mu.Lock()
				p := pieces[k]
				mu.Unlock()
				t, err := p.try(ctx, rand.New(rand.NewPCG(c.seed, uint64(k))))
				mu.Lock()
				p.line.tried = true
				if t != nil {
					p.line.tally.add(t)
				}
				if err != nil {
					p.line.tally.broken = true
					p.line.errs = append(p.line.errs, fmt.Errorf("%s: %w", p.line.name, err))
				}
				fmt.Fprintf(os.Stderr, "%4.0f s: %s, %d of %d\n", time.Since(c.begin).Seconds(), p.line.name, k+1, len(pieces))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// print writes the table, and returns its flaws and errors.
func (t *table) print() error {
	var errs []error
	if len(t.lines) == 0 {
		return nil
	}
	fmt.Println(t.head)
	fmt.Println("|" + strings.Repeat("---|", strings.Count(t.head, "|")-1))
	for _, l := range t.lines {
		if l.tried {
			fmt.Printf("| %s | %s | %s |\n", l.name, t.line(&l.tally), verdict(&l.tally))
		} else {
			fmt.Printf("| %s |%s\n", l.name, strings.Repeat(" not tested |", strings.Count(t.head, "|")-2))
		}
		errs = append(errs, l.errs...)
		for _, flaw := range l.tally.flaws {
			errs = append(errs, fmt.Errorf("%s: %s", l.name, flaw))
		}
	}
	fmt.Println()
	return errors.Join(errs...)
}

// verdict is the last column.
func verdict(t *tally) string {
	switch {
	case len(t.flaws) > 0:
		return fmt.Sprintf("**%d FLAWS**", len(t.flaws))
	case t.broken:
		return "**not completed**"
	}
	return "the same bytes"
}

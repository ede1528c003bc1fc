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

// tally is what came of a line of a table so far.
type tally struct {
	whole         time.Duration // of one run that was left alone, the shortest
	kills, runs   int
	calls, failed int // calls on files, or looks at the clock; runs that ended with an error
	flaws         []string
	broken        bool // something could not be tried to its end
}

func (t *tally) add(o *tally) {
	if t.whole == 0 || o.whole > 0 && o.whole < t.whole {
		t.whole = o.whole
	}
	t.kills, t.runs, t.calls, t.failed = t.kills+o.kills, t.runs+o.runs, max(t.calls, o.calls), t.failed+o.failed
	t.flaws = append(t.flaws, o.flaws...)
	t.broken = t.broken || o.broken
}

// table is printed when all of its pieces are done.
type table struct {
	head  string
	line  func(t *tally) string // behind the name
	lines []*line
}

type line struct {
	name  string
	tally tally
	tried bool
	errs  []error
}

// piece is a part of a line that can be tried beside other pieces.
type piece struct {
	line *line
	try  func(ctx context.Context, rng *rand.Rand) (*tally, error)
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

// plan lists what is to be tried of the commands, in pieces, and the tables that it goes into.
func (c *campaign) plan(list []command) (tables []*table, pieces []piece) {
	begin := func(wanted bool, all func([]command) (*table, []piece)) {
		if wanted {
			t, more := all(list)
			tables, pieces = append(tables, t), append(pieces, more...)
		}
	}
	begin(c.kills > 0, c.killAll)
	if c.brief {
		list = slices.DeleteFunc(list, func(one command) bool { return !one.Quick })
	}
	begin(c.twins > 0, c.twinAll)
	begin(c.pairs != 0, c.storeAll)
	begin(c.pairs != 0, c.rivalAll)
	begin(c.jumps > 0, c.jumpAll)
	begin(c.calls > 0, c.failAll)
	return tables, pieces
}

// tryAll tries pieces, some of them at a time.
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

// print writes the table, and returns what was wrong.
func (t *table) print() error {
	var errs []error
	if len(t.lines) == 0 {
		return nil
	}
	fmt.Println(t.head)
	fmt.Println("|" + strings.Repeat("---|", strings.Count(t.head, "|")-1))
	for _, l := range t.lines {
		if l.tried {
			fmt.Printf("| %s | %s |\n", l.name, t.line(&l.tally))
		} else {
			fmt.Printf("| %s |%s\n", l.name, strings.Repeat(" not tried |", strings.Count(t.head, "|")-2))
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
		return "**not tried to the end**"
	}
	return "the same bytes"
}

// each makes a table with a line for each command, and n pieces of each.
func each(t *table, list []command, n int, try func(c *command, ctx context.Context, rng *rand.Rand) (*tally, error),
) (*table, []piece) {
	var pieces []piece
	for _, one := range list { // a copy: --brief takes commands out of the list
		l := &line{name: one.Name}
		t.lines = append(t.lines, l)
		for range n {
			pieces = append(pieces, piece{l, func(ctx context.Context, rng *rand.Rand) (*tally, error) {
				return try(&one, ctx, rng)
			}})
		}
	}
	return t, pieces
}

// killAll kills every command.
func (c *campaign) killAll(list []command) (*table, []piece) {
	t := &table{head: "| command | one run | kills | runs | result |", line: func(t *tally) string {
		return fmt.Sprintf("%.1f s | %d | %d | %s", t.whole.Seconds(), t.kills, t.runs, verdict(t))
	}}
	return each(t, list, 1, func(one *command, ctx context.Context, rng *rand.Rand) (*tally, error) {
		return one.killOften(ctx, c.kills, c.late, rng)
	})
}

// twinAll starts every command twice at a time.
func (c *campaign) twinAll(list []command) (*table, []piece) {
	t := &table{head: "| two at a time in one folder | rounds | of which one was refused | result |",
		line: func(t *tally) string { return fmt.Sprintf("%d | %d | %s", t.runs, t.failed, verdict(t)) }}
	return each(t, list, 1, func(one *command, ctx context.Context, _ *rand.Rand) (*tally, error) {
		return one.twins(ctx, c.twins)
	})
}

// jumpAll runs every command while the clock jumps.
func (c *campaign) jumpAll(list []command) (*table, []piece) {
	t := &table{head: "| command | runs while the clock jumps | looks at it in one run | result |",
		line: func(t *tally) string { return fmt.Sprintf("%d | %d | %s", t.runs, t.calls, verdict(t)) }}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return t, nil
	}
	return each(t, list, c.jumps, (*command).jumps)
}

// failAll makes calls of every command fail.
func (c *campaign) failAll(list []command) (*table, []piece) {
	t := &table{head: "| command, fault | calls | tried | ended with an error, and the next run went on | result |",
		line: func(t *tally) string {
			return fmt.Sprintf("%d | %d | %d | %s", t.calls, t.runs, t.failed, verdict(t))
		}}
	var pieces []piece
	for i := range list {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			l := &line{name: list[i].Name + ", " + kind}
			t.lines = append(t.lines, l)
			pieces = append(pieces, piece{l, func(ctx context.Context, _ *rand.Rand) (*tally, error) {
				return list[i].faults(ctx, kind, c.calls, c.late)
			}})
		}
	}
	return t, pieces
}

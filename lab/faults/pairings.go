package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// onStores runs pairs of commands concurrently, each in its own folder, on one store: both must have the same results
// as alone.
func (c *campaign) onStores(t *table, list []command) (pieces []piece) {
	for i := range list {
		l := t.add(list[i].Name)
		for k := range list[:i+1] {
			pieces = append(pieces, piece{line: l, try: func(ctx context.Context, _ *rand.Rand) (*tally, error) {
				return onOneStore(ctx, [2]*command{&list[i], &list[k]})
			}})
		}
	}
	rng := rand.New(rand.NewPCG(c.seed, 4))
	rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	return c.somePairs(pieces)
}

// somePairs returns the requested number of pairs.
func (c *campaign) somePairs(pieces []piece) []piece {
	if c.pairs < 0 {
		return pieces
	}
	return pieces[:min(c.pairs, len(pieces))]
}

// onOneStore runs two commands, first one after the other, each with its own store, and then concurrently on one
// store.
func onOneStore(ctx context.Context, both [2]*command) (*tally, error) {
	var outs [2]string
	var want [2]map[string]string
	for i, c := range both {
		out, sums, closing, err := c.alone(ctx)
		if err != nil {
			return nil, err
		}
		defer closing()
		outs[i], want[i] = out, sums
	}
	shared := filepath.Join(filepath.Dir(outs[0]), "shared")
	for _, out := range append([]string{shared}, outs[:]...) {
		if err := os.RemoveAll(out); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(out, 0o777); err != nil {
			return nil, err
		}
		if out == shared {
			continue
		}
		if err := os.Symlink(shared, storeOf(out)); err != nil {
			return nil, err
		}
	}
	refused, err := together(ctx, both, outs)
	if err != nil {
		return nil, err
	}
	t := &tally{runs: 1, failed: len(refused)}
	for i, c := range both {
		if slices.Contains(refused, i) {
			t.flaws = append(t.flaws, fmt.Sprintf("with %s on one store, %s fails", both[1-i].Name, c.Name))
			continue
		}
		if err := c.end(ctx, outs[i]); err != nil {
			return t, err
		}
		got, err := digests(outs[i], c.Results)
		if err != nil {
			return t, err
		}
		if names := unlike(want[i], got); len(names) > 0 {
			t.flaws = append(t.flaws, fmt.Sprintf("with %s on one store, %s has different bytes in %s", both[1-i].Name, c.Name,
				strings.Join(names, ", ")))
		}
	}
	return t, nil
}

// rivals runs pairs of different commands concurrently that write the same file or folder: a run directory, a
// journal, a job folder.
func (c *campaign) rivals(t *table, list []command) (pieces []piece) {
	for i := range list {
		for k := range list[:i] {
			one, other := &list[i], &list[k]
			if !slices.ContainsFunc(one.Results, func(name string) bool { return slices.Contains(other.Results, name) }) {
				continue
			}
			l := t.add(one.Name + " and " + other.Name)
			pieces = append(pieces, piece{line: l, try: func(ctx context.Context, _ *rand.Rand) (*tally, error) {
				return inOneFolder(ctx, [2]*command{one, other})
			}})
		}
	}
	return c.somePairs(pieces)
}

// inOneFolder runs two commands alone, and then concurrently in one folder. The final result must be that of one of
// them, not a mixture.
func inOneFolder(ctx context.Context, both [2]*command) (*tally, error) {
	root, err := os.MkdirTemp(os.TempDir(), "faults")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	out := filepath.Join(root, "out")
	var want [2]map[string]string
	for i, c := range both {
		if err := c.run(ctx, out); err != nil {
			return nil, err
		}
		if want[i], err = digests(out, c.Results); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(out); err != nil {
			return nil, err
		}
	}
	refused, err := together(ctx, both, [2]string{out, out})
	if err != nil {
		return nil, err
	}
	t := &tally{runs: 1, failed: len(refused)}
	found := false
	for i, c := range both {
		if slices.Contains(refused, i) || c.end(ctx, out) != nil { // merging one's shards is refused if the other's are there
			continue
		}
		got, err := digests(out, c.Results)
		found = found || err == nil && len(unlike(want[i], got)) == 0
	}
	if !found {
		t.flaws = append(t.flaws, "the final result matches neither command alone")
	}
	return t, nil
}

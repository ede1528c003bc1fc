package benchmarks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"assay/internal/atomicfile"
)

// Picture is a picture of a benchmark: a file, or bytes inside a bigger file that are read when they are needed.
type Picture struct {
	Path string
	Read func() ([]byte, error) // nil: the bytes of Path
}

// None reports whether there is no picture.
func (p Picture) None() bool { return p.Path == "" && p.Read == nil }

// Bytes returns the encoded picture.
func (p Picture) Bytes() ([]byte, error) {
	if p.Read != nil {
		return p.Read()
	}
	return os.ReadFile(p.Path)
}

// Item is one edit to be scored.
type Item struct {
	Key
	Group       string // source and instruction: the candidates of one group are scored together
	Source      Picture
	Edit        Picture
	Instruction string
}

// Prediction is one line of predictions.jsonl.
type Prediction struct {
	Key
	Score float64 `json:"score"`
}

// Scorer scores edits of one source and one instruction, in the order given.
type Scorer interface {
	Score(ctx context.Context, group []Item) ([]Prediction, error)
}

// Run identifies a run in its folder (run.json), so that it is only ever resumed by the same scorer on the same items.
type Run struct {
	Benchmark string `json:"benchmark"`
	Scorer    string `json:"scorer"`
	Items     int    `json:"items"`
	Settings  string `json:"settings,omitempty"` // question template, preprocessing
}

// Score runs a scorer over items, group by group, appending to dir/predictions.jsonl, whose path it returns. Items that
// the file holds already are not scored again. progress (may be nil) is called with the number of items done so far.
// When ctx ends, what was scored is on disk and the error is ctx's.
func Score(ctx context.Context, s Scorer, items []Item, run Run, dir string, progress func(done int)) (string, error) {
	if progress == nil {
		progress = func(int) {}
	}
	run.Items = len(items)
	path := filepath.Join(dir, "predictions.jsonl")
	if err := identify(dir, run); err != nil {
		return path, err
	}
	f, done, err := reopen(path, items)
	if err != nil {
		return path, err
	}
	defer f.Close()
	progress(len(done))
	for _, group := range groups(items) {
		todo := 0
		for _, it := range group {
			if !done[it.Key] {
				todo++
			}
		}
		if todo == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return path, err
		}
		predictions, err := scoreGroup(ctx, s, group)
		if err != nil {
			return path, err
		}
		var lines bytes.Buffer
		for _, p := range predictions {
			if !done[p.Key] {
				done[p.Key] = true
				if err := json.NewEncoder(&lines).Encode(p); err != nil {
					return path, err
				}
			}
		}
		if _, err := f.Write(lines.Bytes()); err != nil {
			return path, err
		}
		progress(len(done))
	}
	return path, errors.Join(f.Sync(), f.Close())
}

// groups cuts items into runs of one group.
func groups(items []Item) [][]Item {
	var out [][]Item
	index := map[string]int{}
	for _, it := range items {
		i, ok := index[it.Group]
		if !ok {
			i = len(out)
			index[it.Group] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], it)
	}
	return out
}

func scoreGroup(ctx context.Context, s Scorer, group []Item) ([]Prediction, error) {
	predictions, err := s.Score(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("scoring %v (and the %d edits of its source): %w", group[0].Key, len(group), err)
	}
	if len(predictions) != len(group) {
		return nil, fmt.Errorf("scoring %v: %d scores for %d edits", group[0].Key, len(predictions), len(group))
	}
	for i, p := range predictions {
		if p.Key != group[i].Key {
			return nil, fmt.Errorf("scoring %v: the scorer answered for %v", group[i].Key, p.Key)
		}
		if math.IsNaN(p.Score) || math.IsInf(p.Score, 0) {
			return nil, fmt.Errorf("scoring %v: the score is %v", p.Key, p.Score)
		}
	}
	return predictions, nil
}

// identify writes run.json, or checks that the run in dir is this one.
func identify(dir string, run Run) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	path := filepath.Join(dir, "run.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return atomicfile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(run) })
	}
	if err != nil {
		return err
	}
	var old Run
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old != run {
		return fmt.Errorf("%s holds predictions of another run (%+v, not %+v): give another --out, or remove it", dir, old, run)
	}
	return nil
}

// reopen opens predictions.jsonl for appending, cutting off a line that an interrupted write left unfinished, and
// returns the items it holds.
func reopen(path string, items []Item) (*os.File, map[Key]bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, err
	}
	known := make(map[Key]bool, len(items))
	for _, it := range items {
		known[it.Key] = true
	}
	done := map[Key]bool{}
	whole := int64(0)
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, readErr := lines.ReadBytes('\n')
		if readErr != nil {
			break
		}
		var p Prediction
		if err = json.Unmarshal(line, &p); err != nil || !known[p.Key] {
			f.Close()
			return nil, nil, fmt.Errorf("%s:%d: no prediction of this run: remove the file or give another --out", path, n)
		}
		done[p.Key] = true
		whole += int64(len(line))
	}
	if err = f.Truncate(whole); err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, done, nil
}

// Order is the outcome of scoring pairs in both orders.
type Order struct {
	Pairs   int     `json:"pairs"`   // compared
	Flips   int     `json:"flips"`   // pairs whose winner changes with the order, ties counted as an outcome
	Rate    Value   `json:"rate"`    // Flips / Pairs
	Largest float64 `json:"largest"` // largest difference of one edit's score between the orders
}

// CheckOrder scores the first two candidates of every group in both orders and counts how often the winner flips.
func CheckOrder(ctx context.Context, s Scorer, items []Item, progress func(done int)) (*Order, error) {
	o := &Order{}
	for _, g := range groups(items) {
		if len(g) < 2 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ab, err := scoreGroup(ctx, s, []Item{g[0], g[1]})
		if err != nil {
			return nil, err
		}
		ba, err := scoreGroup(ctx, s, []Item{g[1], g[0]})
		if err != nil {
			return nil, err
		}
		if sign(ab[0].Score-ab[1].Score) != sign(ba[1].Score-ba[0].Score) {
			o.Flips++
		}
		o.Largest = max(o.Largest, math.Abs(ab[0].Score-ba[1].Score), math.Abs(ab[1].Score-ba[0].Score))
		o.Pairs++
		if progress != nil {
			progress(o.Pairs)
		}
	}
	o.Rate = Value(float64(o.Flips) / float64(o.Pairs))
	return o, nil
}

// sign is -1, 0 or 1.
func sign(v float64) int {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}

// Package runner runs judges on the items of a benchmark. A [Judge] (a scorer directory, a text judge, or an embedding
// similarity) writes a score for each item to predictions.jsonl ([Run]); a metric writes a value to
// component-NAME.jsonl ([Component]). Both are a [table.Job] over the items: they resume, and detect items that
// changed; a run can be split among workers.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"

	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/benchmarks/protocol"
	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/shards"
	"assay/internal/store"
	"assay/internal/table"
)

// Prediction is one line of predictions.jsonl.
type Prediction struct {
	protocol.Key
	Score   float64 `json:"score"`
	Content string  `json:"of,omitempty"` // digest of what the score depends on besides the judge

	// Orders are a pair judge's verdicts on the left edit when it was shown first, and second; 1: it is better.
	Orders []float64 `json:"orders,omitempty"`

	Dimensions map[string]float64 `json:"dimensions,omitempty"` // of a text judge

	Answer *string `json:"answer,omitempty"` // instead of the score, for benchmarks of answers
	said   string  // the answer of the judge
}

// MarshalJSON leaves out the score of an answer.
func (p Prediction) MarshalJSON() ([]byte, error) {
	type plain Prediction
	if p.Answer == nil {
		return json.Marshal(plain(p))
	}
	return json.Marshal(struct {
		protocol.Key
		Answer  string `json:"answer"`
		Content string `json:"of,omitempty"`
	}{p.Key, *p.Answer, p.Content})
}

// Run is a benchmark that a judge is run on.
type Run struct {
	Benchmark string
	Items     []*edit.Edit
	Dir       string                // of predictions.jsonl and run.json
	Progress  func(done, total int) // called with the items done so far; nil: not called

	AnswerOf func(above float64) string // of Questions: answers are saved
	Asked    *Asked                     // of a text judge: set by Score and Merge
	Told     func(text string)          // called with what a shard waits for; nil: not called

	Unchanged bool // Merge does not check whether items changed since they were scored
}

// runFile is run.json: a folder is only ever resumed by the same judge on the same items.
type runFile struct {
	Benchmark string `json:"benchmark"`
	Scorer    string `json:"scorer"` // fingerprint
	Items     int    `json:"items"`
	Settings  string `json:"settings,omitempty"` // question template, preprocessing
	Prompts   string `json:"prompts,omitempty"`  // digest, of a text judge

	Range edit.Range `json:"range,omitzero"` // of the scores, if it has bounds other than 0 and 10
}

// result is what a shard saves for an item: a prediction, if it has one.
type result struct {
	Prediction *Prediction `json:"prediction,omitempty"`
}

// job is the table job of a run over its items, each once, with groups together.
type job struct {
	table.Job[*edit.Edit, result]
	run    *Run
	judge  *Judge
	items  []*edit.Edit
	groups [][]*edit.Edit
	group  []int // of each item
}

// PredictionsFile returns the path of the predictions in a run's folder.
func PredictionsFile(dir string) string { return filepath.Join(dir, "predictions.jsonl") }

// job returns the table job of a run.
func (r *Run) job(j *Judge) (*job, error) {
	if r.AnswerOf != nil && !j.words && math.IsNaN(j.middle()) {
		return nil, fmt.Errorf("the scores of %s have no bounds, so there is no middle to derive an answer from", j.Name)
	}
	w := &job{run: r, judge: j, groups: groups(r.Items)}
	var begins []bool
	said := []string{}
	for g, group := range w.groups {
		for k, it := range group {
			w.items, w.group, begins = append(w.items, it), append(w.group, g), append(begins, k == 0)
			said = append(said, it.ID, it.Editor, it.Group, it.Instruction)
		}
	}
	pairs := map[string][]*edit.Edit{} // of a judge of pairs, by group
	if j.comparer != nil {
		if err := j.checkPairs(w.groups); err != nil {
			return nil, err
		}
		for _, group := range w.groups {
			pairs[group[0].Group] = group
		}
	}
	key := func(i int) protocol.Key { return protocol.ItemKey(w.items[i]) }
	w.Job = table.Job[*edit.Edit, result]{
		Options: table.Options{Out: PredictionsFile(r.Dir), Progress: r.Progress, Told: r.Told, Unchanged: r.Unchanged},
		Rows:    len(w.items),
		Head: struct {
			runFile
			Asked string `json:"asked"` // digest of what identifies the items besides their pictures
		}{r.head(j), store.KeyOf(said...).String()},
		Read: func(i int) (*edit.Edit, error) { return w.items[i], nil },
		Content: func(e *edit.Edit, _ error) (content string, unknown error) {
			if content, unknown = protocol.Content(e); unknown != nil {
				unknown = named(e, unknown)
			}
			return content, unknown
		},
		Prepare: func(e *edit.Edit) (inputs edit.Inputs, err error) {
			if j.comparer != nil {
				inputs, err = preparePair(edit.Pair(pairs[e.Group]))
			} else {
				inputs, err = j.judge.Prepare(e)
			}
			if err != nil {
				return nil, named(e, err)
			}
			return inputs, nil
		},
		Work:    w.work,
		Batches: w.batches,
		Ends: func(err error) bool { // an item without a score, except for text judges
			return !j.info.Words && errors.As(err, new(*itemError))
		},
		Weigh: func(i int) (int64, bool) { return sizeOf(w.items[i], "source") + sizeOf(w.items[i], "edit"), begins[i] },
		Name:  func(i int) string { return key(i).String() },
	}
	return w, nil
}

// itemError is an error of an item, with the item's name.
type itemError struct {
	protocol.Key
	err error
}

func (e *itemError) Error() string { return fmt.Sprintf("%v: %v", e.Key, e.err) }
func (e *itemError) Unwrap() error { return e.err }

func named(it *edit.Edit, err error) error { return &itemError{protocol.ItemKey(it), err} }

// head returns the run.json of the run.
func (r *Run) head(j *Judge) runFile {
	f := runFile{Benchmark: r.Benchmark, Scorer: j.Fingerprint, Items: len(r.Items), Settings: j.Settings,
		Prompts: j.Prompts}
	if on := j.info.Range; j.comparer == nil && on.Bounded() && on != (edit.Range{0, 10}) {
		f.Range = on
	}
	return f
}

// groups returns the items of each group, each item once.
func groups(items []*edit.Edit) (out [][]*edit.Edit) {
	index, seen := map[string]int{}, map[protocol.Key]bool{}
	for _, it := range items {
		if seen[protocol.ItemKey(it)] {
			continue
		}
		seen[protocol.ItemKey(it)] = true
		i, ok := index[it.Group]
		if !ok {
			i = len(out)
			index[it.Group], out = i, append(out, nil)
		}
		out[i] = append(out[i], it)
	}
	return out
}

// sizeOf returns the size of a picture's file in bytes; 0 for pictures inside larger files.
func sizeOf(it *edit.Edit, role string) int64 {
	p := protocol.PictureOf(it, role)
	if p.Read != nil || p.Path == "" {
		return 0
	}
	info, err := os.Stat(p.Path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// batches splits the pending items into batches. A group is scored together: all its items, if any of them is pending.
func (w *job) batches(todo iter.Seq[int]) iter.Seq[[]int] {
	if w.judge.together > 0 && w.judge.comparer == nil {
		return table.Chunks(w.judge.together)(todo)
	}
	return func(yield func([]int) bool) {
		var batch []int
		for i := range todo {
			if len(batch) > 0 {
				if w.group[i] == w.group[batch[len(batch)-1]] {
					continue
				}
				if len(batch) >= 2*w.judge.together { // pairs count as one
					if !yield(batch) {
						return
					}
					batch = nil
				}
			}
			for i > 0 && w.group[i-1] == w.group[i] {
				i--
			}
			for k := range w.groups[w.group[i]] {
				batch = append(batch, i+k)
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// work scores some items.
func (w *job) work(ctx context.Context, tasks []table.Task[*edit.Edit]) ([]result, []error, error) {
	predictions, errs, err := w.judge.score(ctx, tasks)
	if err != nil {
		return nil, nil, err
	}
	results := make([]result, len(tasks))
	for i, t := range tasks {
		p := &predictions[i]
		p.Key, p.Content = protocol.ItemKey(t.Row), t.Content
		if w.run.AnswerOf != nil && w.judge.words && (errs[i] == nil || edit.Unreadable(errs[i])) {
			p.Answer, errs[i] = &p.said, nil // the benchmark parses the text itself
		}
		switch {
		case errs[i] != nil && !w.judge.info.Words:
			errs[i] = named(t.Row, errs[i])
		case errs[i] == nil && w.run.AnswerOf != nil && p.Answer == nil:
			answer := w.run.AnswerOf(p.Score - w.judge.middle())
			p.Answer = &answer
		}
		if errs[i] == nil {
			results[i].Prediction = p
		}
	}
	return results, errs, nil
}

// failed adds the item that ended a run to its error.
func (w *job) failed(ctx context.Context, err error) error {
	var batch *table.BatchError
	var item *itemError
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &batch):
		group := w.groups[w.group[batch.Row]]
		return fmt.Errorf("scoring %v (and the %d edits of its source): %w", protocol.ItemKey(group[0]), len(group),
			batch.Err)
	case errors.As(err, &item):
		return fmt.Errorf("scoring %w", item)
	}
	return err
}

// Score runs a judge over items, group by group, appending to predictions.jsonl, whose path it returns. Items that are
// already in the file are not scored again, unless one of their pictures or texts changed since. When ctx ends,
// finished scores are on disk and the error wraps ctx's.
func (r *Run) Score(ctx context.Context, j *Judge) (path string, err error) {
	path = PredictionsFile(r.Dir)
	w, err := r.job(j)
	if err != nil {
		return path, err
	}
	if err := identify(r.Dir, r.head(j)); err != nil {
		return path, err
	}
	file, old, err := reopen(path, w.items)
	if err != nil {
		return path, err
	}
	f := newItemFile(w.items, func(lines []table.Line[result]) error {
		var rows []Prediction
		for _, l := range lines {
			rows = append(rows, *l.Value.Prediction)
		}
		return file.Write(rows...)
	})
	for _, p := range old {
		f.hold(p.Key, result{&p})
	}
	err = w.failed(ctx, w.Run(ctx, f, 0, w.Rows))
	if err := errors.Join(err, file.Close()); err != nil {
		return path, err
	}
	if j.info.Words {
		r.Asked, err = r.asked(path, f.failed)
	}
	return path, err
}

// Shard scores the items of the shards that ref names, into a folder next to predictions.jsonl. When all are done,
// Merge writes predictions.jsonl as Score would have written it. A shard with items on which a server failed is not
// done ([shards.TemporaryError]): the same call retries them.
func (r *Run) Shard(ctx context.Context, j *Judge, ref shards.Ref) (*shards.Report, error) {
	w, err := r.job(j)
	if err != nil {
		return nil, err
	}
	w.Options.Shard = ref
	report, err := w.Job.Shard(ctx)
	return report, w.failed(ctx, err)
}

// Merge writes predictions.jsonl from the results of all shards, and counts as Score does. It is an error if a shard is
// not done ([shards.IncompleteError]), or if a picture or a text changed since it was scored.
func (r *Run) Merge(j *Judge) (path string, err error) {
	path = PredictionsFile(r.Dir)
	w, err := r.job(j)
	if err != nil {
		return path, err
	}
	var failures []Failure
	w.Options.Merge = true
	err = w.Do(context.Background(), func(get table.Get[result]) error {
		if err := identify(r.Dir, r.head(j)); err != nil {
			return err
		}
		return atomicfile.Write(path, func(out io.Writer) error {
			e := json.NewEncoder(out)
			for i, it := range w.items {
				l, err := get(i)
				if err != nil {
					return err
				}
				if l.Value.Prediction == nil {
					failures = append(failures, Failure{protocol.ItemKey(it), l.Error, l.Unreadable})
				} else if err := e.Encode(l.Value.Prediction); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil && j.info.Words {
		r.Asked, err = r.asked(path, failures)
	}
	return path, err
}

// identify writes run.json, or checks that the run in dir is this one.
func identify(dir string, run runFile) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	path := filepath.Join(dir, "run.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return jsonfile.Write(path, run)
	}
	if err != nil {
		return err
	}
	var old runFile
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old.Range == (edit.Range{}) && run.Range != old.Range { // from before runs had a range
		if old.Range = run.Range; old == run {
			return jsonfile.Write(path, run)
		}
	}
	if old != run {
		return exit.Usagef("%s holds predictions of another run (%+v, not %+v): use another --out, or remove it", dir,
			old, run)
	}
	return nil
}

// Order is the outcome of scoring pairs in both orders.
type Order struct {
	Pairs   int            `json:"pairs"`   // compared
	Flips   int            `json:"flips"`   // pairs whose winner changes with the order, ties counted as an outcome
	Rate    protocol.Value `json:"rate"`    // Flips / Pairs
	Largest float64        `json:"largest"` // largest difference of one edit's score between the orders
}

// CheckOrder scores the first two candidates of every group in both orders and counts how often the winner flips.
// progress (may be nil) is called after every pair.
func CheckOrder(ctx context.Context, j *Judge, items []*edit.Edit, progress func(done int)) (*Order, error) {
	o := &Order{}
	for _, g := range groups(items) {
		if len(g) < 2 {
			continue
		}
		ab, err := j.scores(ctx, g[0], g[1])
		if err != nil {
			return nil, err
		}
		ba, err := j.scores(ctx, g[1], g[0])
		if err != nil {
			return nil, err
		}
		if slices.Reverse(ba); protocol.Sign(ab[0]-ab[1]) != protocol.Sign(ba[0]-ba[1]) {
			o.Flips++
		}
		o.Largest = max(o.Largest, math.Abs(ab[0]-ba[0]), math.Abs(ab[1]-ba[1]))
		if o.Pairs++; progress != nil {
			progress(o.Pairs)
		}
	}
	o.Rate = protocol.Value(float64(o.Flips) / float64(o.Pairs))
	return o, nil
}

// scores returns the scores of edits that are scored together.
func (j *Judge) scores(ctx context.Context, edits ...*edit.Edit) (values []float64, err error) {
	scores, errs, err := edit.ScoreAll(ctx, j.judge, edits...)
	for i, s := range scores {
		if errs[i] != nil {
			return nil, fmt.Errorf("scoring %w", named(edits[i], errs[i]))
		}
		values = append(values, s.Value)
	}
	return values, err
}

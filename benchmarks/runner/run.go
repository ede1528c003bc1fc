// Package runner runs models on the items of a benchmark. A [Scorer] (a scorer directory, a judge that answers in
// words, a similarity of embeddings) gives each item a score in predictions.jsonl; a [Component] gives it a metric's
// value in component-NAME.jsonl. Both resume, and notice items that changed; a [Run] can be shared out among workers.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"assay/benchmarks/protocol"
	"assay/internal/journal"
	"assay/internal/jsonfile"
	"assay/scoring"
)

// Prediction is one line of predictions.jsonl.
type Prediction struct {
	protocol.Key
	Score   float64 `json:"score"`
	Content string  `json:"of,omitempty"` // digest of what the score depends on besides the scorer

	// Orders are, of a judge of pairs, what it said of the left edit when that was shown first, and second: 1: it is
	// better.
	Orders []float64 `json:"orders,omitempty"`

	Dimensions map[string]float64 `json:"dimensions,omitempty"` // of a judge that answers in words

	Answer *string `json:"answer,omitempty"` // of benchmarks of answers, in place of the score
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

// Run is a benchmark that a scorer is run on.
type Run struct {
	Benchmark string
	Items     []protocol.Item
	Dir       string                // of predictions.jsonl and run.json
	Progress  func(done, total int) // called with the items done so far; nil: not called

	AnswerOf func(above float64) string // of Questions: answers are kept
	Asked    *Asked                     // of a judge that answers in words: what Score or Merge found
	Told     func(text string)          // of what a shard waits for; nil: not called

	Unchanged bool // Merge takes items as they were scored, without a look at whether they are others now
}

// runFile is run.json: a folder is only ever resumed by the same scorer on the same items.
type runFile struct {
	Benchmark string `json:"benchmark"`
	Scorer    string `json:"scorer"` // fingerprint
	Items     int    `json:"items"`
	Settings  string `json:"settings,omitempty"` // question template, preprocessing
	Prompts   string `json:"prompts,omitempty"`  // digest, of a judge that answers in words
}

// Score runs a scorer over items, group by group, appending to predictions.jsonl, whose path it returns. Items that
// the file holds already are not scored again, unless a picture or a text of them changed since. When ctx ends, what
// was scored is on disk and the error wraps ctx's.
func (r *Run) Score(ctx context.Context, s *Scorer) (path string, err error) {
	path = PredictionsFile(r.Dir)
	if err := r.check(s); err != nil {
		return path, err
	}
	if err := identify(r.Dir, r.head(s)); err != nil {
		return path, err
	}
	file, done, err := reopen(path, r.Items)
	if err != nil {
		return path, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var failures []Failure
	told := func() {
		if r.Progress != nil {
			r.Progress(len(done), len(r.Items))
		}
	}
	told()
	todo := undone(r.Items, func(k protocol.Key) bool { return done[k] })
	err = r.scoring(s)(ctx, todo, func(group []protocol.Item, content []string, outcomes []outcome) error {
		var lines []Prediction
		for i, it := range group {
			o := outcomes[i]
			switch {
			case done[it.Key]:
			case o.err != nil:
				failures = append(failures, Failure{it.Key, o.err.Error(), scoring.Unreadable(o.err)})
			default:
				done[it.Key] = true
				lines = append(lines, *r.prediction(it, content[i], o))
			}
		}
		if err := file.Write(lines...); err != nil {
			return err
		}
		told()
		return nil
	})
	if err == nil && s.each {
		r.Asked, err = r.asked(path, failures)
	}
	return path, err
}

// answer is what is kept of an outcome in place of its score; nil: the score.
func (r *Run) answer(o outcome) *string {
	if r.AnswerOf == nil {
		return nil
	}
	if o.said == nil {
		text := r.AnswerOf(o.score - o.middle)
		return &text
	}
	return o.said
}

// groups cuts items into runs of one group.
func groups(items []protocol.Item) [][]protocol.Item {
	var out [][]protocol.Item
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

// undone are the groups of items that have one that is not done, each whole: its items are scored together.
func undone(items []protocol.Item, done func(protocol.Key) bool) [][]protocol.Item {
	return slices.DeleteFunc(groups(items), func(group []protocol.Item) bool {
		return !slices.ContainsFunc(group, func(it protocol.Item) bool { return !done(it.Key) })
	})
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
	if old != run {
		return fmt.Errorf("%s holds predictions of another run (%+v, not %+v): give another --out, or remove it", dir,
			old,
			run)
	}
	return nil
}

// reopen opens predictions.jsonl for appending and returns the items that it holds. Predictions of what was changed
// since are dropped from it.
func reopen(path string, items []protocol.Item) (*journal.Lines[Prediction], map[protocol.Key]bool, error) {
	known := make(map[protocol.Key]*protocol.Item, len(items))
	for i := range items {
		known[items[i].Key] = &items[i]
	}
	file, old, err := journal.OpenLines(path, func(p Prediction) error {
		if known[p.Key] == nil {
			return fmt.Errorf("%v is no item of it", p.Key)
		}
		return nil
	})
	var line *journal.LineError
	if errors.As(err, &line) {
		err = fmt.Errorf("%s:%d: no prediction of this run: remove the file or give another --out", path, line.Line)
	}
	if err != nil {
		return nil, nil, err
	}
	done := make(map[protocol.Key]bool, len(old))
	valid := slices.DeleteFunc(slices.Clone(old), func(
		p Prediction) bool {
		return known[p.Key].Content() != p.Content
	})
	for _, p := range valid {
		done[p.Key] = true
	}
	if len(valid) == len(old) {
		return file, done, nil
	}
	if err := file.Close(); err != nil {
		return nil, nil, err
	}
	if err := jsonfile.WriteLines(path, valid); err != nil {
		return nil, nil, err
	}
	file, _, err = journal.OpenLines[Prediction](path, nil)
	return file, done, err
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
func CheckOrder(ctx context.Context, s *Scorer, items []protocol.Item, progress func(done int)) (*Order, error) {
	var both [][]protocol.Item
	for _, g := range groups(items) {
		if len(g) >= 2 {
			both = append(both, []protocol.Item{g[0], g[1]}, []protocol.Item{g[1], g[0]})
		}
	}
	o := &Order{}
	var ab []float64 // of the pair in its own order
	err := s.score(ctx, both, func(_ []protocol.Item, _ []string, outcomes []outcome) error {
		scores := []float64{outcomes[0].score, outcomes[1].score}
		if ab == nil {
			ab = scores
			return nil
		}
		if protocol.Sign(ab[0]-ab[1]) != protocol.Sign(scores[1]-scores[0]) {
			o.Flips++
		}
		o.Largest = max(o.Largest, math.Abs(ab[0]-scores[1]), math.Abs(ab[1]-scores[0]))
		o.Pairs++
		ab = nil
		if progress != nil {
			progress(o.Pairs)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.Rate = protocol.Value(float64(o.Flips) / float64(o.Pairs))
	return o, nil
}

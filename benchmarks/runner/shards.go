package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"assay/benchmarks/protocol"
	"assay/internal/atomicfile"
	"assay/internal/journal"
	"assay/scoring"
	"assay/shards"
	"assay/store"
)

// sharedItem is what became of an item that a shard has: a prediction, or why there is none.
type sharedItem struct {
	Row        int         `json:"row"` // of the items, groups together
	Content    string      `json:"of"`
	Prediction *Prediction `json:"prediction,omitempty"`
	Error      string      `json:"error,omitempty"`
	Unreadable bool        `json:"unreadable,omitempty"`

	passing bool // the error may not come again: a server failed
}

// PredictionsFile is the file of predictions in a folder of a run.
func PredictionsFile(dir string) string { return filepath.Join(dir, "predictions.jsonl") }

// sharing is a run whose items are shared out.
type sharing struct {
	run   *Run
	items []protocol.Item // groups together, each item once
	row   map[protocol.Key]int
	head  any
	work  *shards.Work[sharedItem]
}

// share opens the shards of a run; 0: those that were begun before.
func (r *Run) share(s *Scorer, count int) (*sharing, error) {
	h := &sharing{run: r, row: map[protocol.Key]int{}}
	var first []bool
	said := []string{}
	for _, group := range groups(r.Items) {
		begins := true
		for _, it := range group {
			if _, twice := h.row[it.Key]; twice {
				continue
			}
			h.row[it.Key] = len(h.items)
			h.items, first, begins = append(h.items, it), append(first, begins), false
			said = append(said, it.ID, it.Model, it.Group, it.Instruction)
		}
	}
	h.head = struct {
		runFile
		Asked string `json:"asked"` // digest of what identifies the items beside their pictures
	}{r.head(s), store.KeyOf(said...).String()}
	weigh := func(i int) (int64, bool) { return sizeOf(h.items[i].Source) + sizeOf(h.items[i].Edit), first[i] }
	var err error
	if dir := shards.Folder(PredictionsFile(r.Dir)); count == 0 {
		h.work, err = shards.Reopen[sharedItem](dir, h.head, len(h.items))
	} else {
		h.work, err = shards.Open[sharedItem](dir, count, h.head, len(h.items), weigh)
	}
	if err != nil {
		return nil, err
	}
	h.work.Place = func(v sharedItem) int { return v.Row }
	h.work.Failed = func(v sharedItem) bool { return v.Error != "" }
	h.work.Passing = func(v sharedItem) bool { return v.passing }
	h.work.Why = func(v sharedItem) string { return v.Error }
	h.work.Told = r.Told
	h.work.Name = func(v sharedItem) string { return fmt.Sprint(h.items[v.Row].Key) }
	if !r.Unchanged {
		h.work.Changed = func(v sharedItem) (bool, error) {
			content, unknown := h.items[v.Row].Known()
			if content == v.Content {
				return false, nil
			}
			return true, unknown
		}
	}
	return h, nil
}

// sizeOf is that of the file of a picture; pictures inside larger files count as equal.
func sizeOf(p protocol.Picture) int64 {
	if p.Read != nil || p.Path == "" {
		return 0
	}
	info, err := os.Stat(p.Path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Shard scores the items of the shards that ref names, into a folder beside predictions.jsonl. When all are there,
// Merge writes predictions.jsonl as Score would have written it. A shard with items at which a server failed is not
// done ([shards.PassingError]): the same call asks again for them.
func (r *Run) Shard(ctx context.Context, s *Scorer, ref shards.Ref) (*shards.Report, error) {
	if err := r.check(s); err != nil {
		return nil, err
	}
	h, err := r.share(s, ref.Count)
	if err != nil {
		return nil, err
	}
	return h.work.Do(ctx, ref, func(ctx context.Context, part shards.Shard) ([]sharedItem, error) {
		done, err := journal.OpenIndex(part.Progress, h.head, len(h.items), h.work.Place, func(v sharedItem) bool {
			return h.items[v.Row].Content() == v.Content
		})
		if err != nil {
			return nil, err
		}
		var rows []sharedItem
		if err = h.score(ctx, s, part, done); err == nil {
			rows, err = shards.Collect(part, done.Get)
		}
		return rows, errors.Join(err, done.Close())
	})
}

// score scores the items of a shard that are not done, each with its group.
func (h *sharing) score(ctx context.Context, s *Scorer, part shards.Shard, done *journal.Index[sharedItem]) error {
	told := func() {
		if h.run.Progress != nil {
			h.run.Progress(done.Len(), part.To-part.From)
		}
	}
	told()
	todo := undone(h.items[part.From:part.To], func(k protocol.Key) bool { return done.Has(h.row[k]) })
	err := h.run.scoring(s)(ctx, todo, func(group []protocol.Item, content []string, outcomes []outcome) error {
		var rows []sharedItem
		for i, it := range group {
			v := sharedItem{Row: h.row[it.Key], Content: content[i]}
			o := outcomes[i]
			switch {
			case done.Has(v.Row):
				continue
			case o.err != nil:
				v.Error, v.Unreadable, v.passing = o.err.Error(), scoring.Unreadable(o.err), scoring.Passing(o.err)
			default:
				v.Prediction = h.run.prediction(it, content[i], o)
			}
			if v.passing {
				done.Hold(v)
			} else {
				rows = append(rows, v)
			}
		}
		defer told()
		return done.Write(rows...)
	})
	return errors.Join(err, done.Sync())
}

// Merge writes predictions.jsonl from what all shards hold, and counts as Score does. It is an error if a shard is not
// done ([shards.MissingError]), or if a picture or a text changed since it was scored.
func (r *Run) Merge(s *Scorer) (path string, err error) {
	path = PredictionsFile(r.Dir)
	if err := r.check(s); err != nil {
		return path, err
	}
	h, err := r.share(s, 0)
	if err != nil {
		return path, err
	}
	if err := identify(r.Dir, r.head(s)); err != nil {
		return path, err
	}
	var failures []Failure
	err = atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		for v, err := range h.work.Results() {
			if err != nil {
				return err
			}
			if v.Prediction == nil {
				failures = append(failures, Failure{h.items[v.Row].Key, v.Error, v.Unreadable})
			} else if err := e.Encode(v.Prediction); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && s.each {
		r.Asked, err = r.asked(path, failures)
	}
	return path, err
}

// head is run.json of the run.
func (r *Run) head(s *Scorer) runFile {
	return runFile{Benchmark: r.Benchmark, Scorer: s.Fingerprint, Items: len(r.Items), Settings: s.Settings,
		Prompts: s.Prompts}
}

// check refuses a scorer whose scores are no answers where answers are wanted.
func (r *Run) check(s *Scorer) error {
	if r.AnswerOf != nil && s.said == nil && math.IsNaN(s.middle) {
		return fmt.Errorf("the scores of %s have no bounds: the side of their middle is no answer", s.Name)
	}
	return nil
}

// scoring is what scores the run's items.
func (r *Run) scoring(s *Scorer) scoreItems {
	if r.AnswerOf != nil && s.said != nil {
		return s.said
	}
	return s.score
}

// prediction is the line of an item that was scored.
func (r *Run) prediction(it protocol.Item, content string, o outcome) *Prediction {
	return &Prediction{it.Key, o.score, content, o.orders, o.dimensions, r.answer(o)}
}

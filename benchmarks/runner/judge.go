package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"assay/benchmarks/protocol"
	"assay/data"
	"assay/internal/jsonfile"
	"assay/model"
	"assay/scoring"
	"assay/textjudge"
)

// Failure is an item that a judge could not judge: a line of failed.jsonl beside predictions.jsonl.
type Failure struct {
	protocol.Key
	Error      string `json:"error"`
	Unreadable bool   `json:"unreadable"` // the answer in words cannot be read
}

// Asked is what became of the items that a judge was asked about in words.
type Asked struct {
	Judged int `json:"judged"`
	Failed int `json:"failed"`
	// of the failed ones, those whose answers cannot be read
	Unreadable      int                 `json:"unreadable"`
	UnreadableShare float64             `json:"unreadable_share"` // of all items that were answered
	Orders          *textjudge.Pairs    `json:"orders,omitempty"` // of a judge of pairs
	File            string              `json:"file,omitempty"`   // of the failed ones
	orders          map[string]struct{} // pairs that were counted
}

// String says it in words.
func (a *Asked) String() string {
	text := fmt.Sprintf("answers that could not be read: %d items (%.2f %%)", a.Unreadable, 100*a.UnreadableShare)
	if a.Failed > 0 {
		text += fmt.Sprintf("; %d items have no score, %s says why", a.Failed, a.File)
	}
	if o := a.Orders; o != nil {
		text += fmt.Sprintf("; the two orders disagree in %d of %d pairs (%.2f %%): the first shown wins twice in %d, the "+
			"second in %d", o.Disagree, o.Agree+o.Disagree, 100*o.DisagreeShare, o.FirstShown, o.SecondShown)
	}
	return text
}

// asked counts what the file of predictions holds and what failed, and writes failed.jsonl, or removes an old one.
func (r *Run) asked(predictions string, failures []Failure) (*Asked, error) {
	a := &Asked{Failed: len(failures), orders: map[string]struct{}{}}
	rows, err := readPredictions(predictions)
	if err != nil {
		return nil, err
	}
	for _, p := range rows {
		a.Judged++
		if _, twice := a.orders[p.ID]; len(p.Orders) != 2 || twice {
			continue
		}
		a.orders[p.ID] = struct{}{}
		if a.Orders == nil {
			a.Orders = &textjudge.Pairs{}
		}
		a.Orders.Count(p.Orders[0], p.Orders[1])
	}
	for _, f := range failures {
		if f.Unreadable {
			a.Unreadable++
		}
	}
	if n := a.Judged + a.Unreadable; n > 0 {
		a.UnreadableShare = float64(a.Unreadable) / float64(n)
	}
	path := filepath.Join(r.Dir, "failed.jsonl")
	if len(failures) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return a, nil
	}
	a.File = path
	return a, jsonfile.WriteLines(path, failures)
}

func readPredictions(path string) (out []Prediction, err error) {
	for p, err := range jsonfile.Lines[Prediction](path) {
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// The dimensions of a judge of pairs by which its two orders reach a prediction.
const (
	shownFirst  = "shown_first"
	shownSecond = "shown_second"
)

// orders are those of a judgement of a pair; nil of others.
func orders(j model.Judgement) []float64 {
	if len(j.Dimensions) == 2 && j.Dimensions[0].Name == shownFirst && j.Dimensions[1].Name == shownSecond {
		return []float64{j.Dimensions[0].Score01, j.Dimensions[1].Score01}
	}
	return nil
}

// dimensions are those of a judge of single edits.
func dimensions(j model.Judgement) map[string]float64 {
	if len(j.Dimensions) == 0 || orders(j) != nil {
		return nil
	}
	out := map[string]float64{}
	for _, d := range j.Dimensions {
		out[d.Name] = d.Score01
	}
	return out
}

// OpenJudge makes a scorer of a judge that answers in words, of so many questions at a time. Items whose answers cannot
// be read fail each by itself. A judge of pairs is asked about left and right in both orders; what it prefers has 10,
// the other one 0, and 5 both if it does not say. closer is called by Close.
func OpenJudge(j *textjudge.Judge, workers int, closer func() error) (*Scorer, error) {
	var s *Scorer
	if j.Config.Pair {
		for _, role := range j.Roles() {
			if role != "source" && role != "edit" && role != "edit2" {
				return nil, fmt.Errorf("the judge %s shows %q: only source, edit and edit2 are there", j.Config.Name,
					role)
			}
		}
		s = &Scorer{run: pairRun{j, max(workers, 1)}.run, close: closer}
	} else {
		one, err := j.ItemScorer(workers)
		if err != nil {
			return nil, err
		}
		s = newScorer(wordsScorer{one}, AskedItem, closer)
		s.batch = 4 * max(workers, 1)
	}
	s.each, s.middle, s.several = true, math.NaN(), slices.Contains(j.Roles(), "source2")
	if !j.Config.Pair {
		s.middle = (j.Config.ScoreRange[0] + j.Config.ScoreRange[1]) / 2
		if len(j.Config.Questions) == 1 && j.Config.Passes == 1 {
			s.said = sayer{j, max(workers, 1)}.say
		}
	}
	s.Name = fmt.Sprintf("%s (%s)", j.Config.Name, j.Config.Rule) // judges of one name differ in their rules
	s.Fingerprint, s.Settings, s.Prompts = j.Fingerprint(), j.Words(), j.Prompts()
	return s, nil
}

// AskedItem is an item with everything that a judge may show of it.
func AskedItem(it protocol.Item) (textjudge.Item, error) {
	e, err := Decode(it)
	out := textjudge.Item{Instruction: it.Instruction, Kind: it.Kind, Fields: it.Fields,
		Pictures: map[string]*data.Picture{"edit": e.Edit}}
	if e.Source != nil {
		out.Pictures["source"] = e.Source
	}
	for _, role := range slices.Sorted(maps.Keys(it.Shown)) {
		if err != nil {
			break
		}
		out.Pictures[role], err = decodePicture(it, role, it.Shown[role])
	}
	return out, err
}

// wordsScorer gives a judge's scores on its own range.
type wordsScorer struct{ *textjudge.Scorer }

// Prepare implements scoring.Scorer.
func (s wordsScorer) Prepare(i textjudge.Item) (textjudge.Item, error) { return i, nil }

// Score implements scoring.Scorer, and is not called: JudgeEach is.
func (s wordsScorer) Score(context.Context, []textjudge.Item) ([]float64, error) {
	return nil, errors.New("edits are judged each by itself")
}

// JudgeEach implements scoring.EachJudge.
func (s wordsScorer) JudgeEach(ctx context.Context, items []textjudge.Item) ([]model.Judgement, []error, error) {
	judgements, errs, err := s.JudgeItems(ctx, items)
	cfg := s.Config()
	for i := range judgements {
		if errs[i] == nil {
			one := model.Judgement{Score01: cfg.Range(judgements[i].Score01)}
			for _, d := range judgements[i].Dimensions {
				one.Dimensions = append(one.Dimensions, model.Dimension{Name: d.Name, Score01: cfg.Range(d.Score01)})
			}
			judgements[i] = one
		}
	}
	return judgements, errs, err
}

// sayer asks a judge of one question, and keeps its words.
type sayer struct {
	judge   *textjudge.Judge
	workers int
}

// say is a scoreItems. What the judge's grammar cannot read is kept, too: the benchmark has a reading of its own.
func (s sayer) say(
	ctx context.Context, groups [][]protocol.Item, report func(group []protocol.Item, content []string,
		outcomes []outcome) error,
) error {
	for part := range slices.Chunk(slices.Concat(groups...), 4*s.workers) {
		content, outcomes := make([]string, len(part)), make([]outcome, len(part))
		var asked []textjudge.Item
		var at []int
		for i, it := range part {
			var unknown error
			content[i], unknown = it.Known()
			item, err := AskedItem(it)
			if err = cmp.Or(err, unknown); err != nil {
				outcomes[i].err = err
				continue
			}
			asked = append(asked, item)
			at = append(at, i)
		}
		results, errs, err := s.judge.Each(ctx, asked, s.workers)
		if err != nil {
			return err
		}
		for k, i := range at {
			if errs[k] != nil && !scoring.Unreadable(errs[k]) {
				outcomes[i].err = errs[k]
				continue
			}
			outcomes[i].said = &results[k].Answers[len(results[k].Answers)-1].Text
		}
		if err := report(part, content, outcomes); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pairRun asks a judge of pairs.
type pairRun struct {
	judge   *textjudge.Judge
	workers int
}

// run judges batches of two items, left and right, and reports each.
func (r pairRun) run(ctx context.Context, w work, report func([]scoring.Result) error) error {
	for _, b := range w.batches {
		if len(b) != 2 || w.items[b[0]].Model != protocol.Left || w.items[b[1]].Model != protocol.Right {
			return fmt.Errorf("the judge %s says which of two edits is better, and %v is no pair of left and right: this "+
				"benchmark wants a judge of single edits", r.judge.Config.Name, w.items[b[0]].Key)
		}
	}
	var pairs []int
	for i := range w.batches {
		pairs = append(pairs, i)
	}
	j := scoring.Job[textjudge.Item, textjudge.Item]{
		Scorer:  r,
		Batches: slices.Chunk(pairs, 4*r.workers),
		Read: func(i int) (textjudge.Item, error) {
			a, b := w.batches[i][0], w.batches[i][1]
			unknown := cmp.Or(w.before(a), w.before(b))
			pair, err := readPair(w.items[a], w.items[b])
			return pair, cmp.Or(err, unknown)
		},
		Report: func(results []scoring.Result) error {
			for _, v := range results {
				one, two := v, v
				one.Index, two.Index = w.batches[v.Index][0], w.batches[v.Index][1]
				one.Score, two.Score = 10*v.Score, 10-10*v.Score
				if err := report([]scoring.Result{one, two}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return j.Run(ctx)
}

func readPair(a, b protocol.Item) (textjudge.Item, error) {
	one, err := Decode(a)
	if err != nil {
		return textjudge.Item{}, err
	}
	two, err := decodeEdit(b, one.Source)
	if err != nil {
		return textjudge.Item{}, err
	}
	return textjudge.Item{Instruction: a.Instruction,
		Pictures: map[string]*data.Picture{"source": one.Source, "edit": one.Edit, "edit2": two}}, nil
}

// Prepare implements scoring.Scorer.
func (r pairRun) Prepare(i textjudge.Item) (textjudge.Item, error) { return i, nil }

// Score implements scoring.Scorer, and is not called: JudgeEach is.
func (r pairRun) Score(context.Context, []textjudge.Item) ([]float64, error) {
	return nil, errors.New("pairs are judged each by itself")
}

// JudgeEach implements scoring.EachJudge: preferences, with those of both orders.
func (r pairRun) JudgeEach(ctx context.Context, items []textjudge.Item) ([]model.Judgement, []error, error) {
	results, errs, err := r.judge.Each(ctx, items, r.workers)
	if err != nil {
		return nil, nil, err
	}
	out := make([]model.Judgement, len(items))
	for i, v := range results {
		if errs[i] == nil {
			out[i] = model.Judgement{Score01: v.Score, Dimensions: []model.Dimension{
				{Name: shownFirst, Score01: v.Dimensions[shownFirst]},
				{Name: shownSecond, Score01: v.Dimensions[shownSecond]}}}
		}
	}
	return out, errs, nil
}

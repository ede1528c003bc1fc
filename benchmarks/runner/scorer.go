package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/benchmarks/protocol"
	"assay/data"
	"assay/model"
	"assay/scoring"
)

// Edit is an item with its pictures decoded.
type Edit struct {
	Item         protocol.Item
	Source, Edit *data.Picture
}

// Scorer is what can be run on the items of a benchmark: a scorer directory, or a similarity of embeddings.
type Scorer struct {
	Name        string
	Fingerprint string // of all that scores depend on
	Settings    string // for readers: question, preprocessing
	Prompts     string // digest of what is asked, of a judge that answers in words

	several bool // it is shown the second source of an item, and those behind it

	each  bool // an item may fail by itself, and is told of
	batch int  // items that are scored together, whatever their groups are; 0: the groups

	middle float64    // of the scores' range; NaN: they have no bounds
	said   scoreItems // of a judge that answers in words: keeps what it said
	run    func(ctx context.Context, w work, report func([]scoring.Result) error) error
	close  func() error
}

// work is items in batches. before is called with every item before its pictures are read; its error is the item's,
// if the pictures can be read.
type work struct {
	items   []protocol.Item
	batches [][]int
	before  func(i int) error
}

// newScorer makes a scorer of anything that scores what read makes of items. closer (may be nil) is called by Close.
func newScorer[In, Sample any](s scoring.Scorer[In, Sample], read func(protocol.Item) (In, error),
	closer func() error) *Scorer {
	run := func(ctx context.Context, w work, report func([]scoring.Result) error) error {
		j := scoring.Job[In, Sample]{
			Scorer:  s,
			Batches: slices.Values(w.batches),
			Read: func(i int) (In, error) {
				unknown := w.before(i)
				in, err := read(w.items[i])
				return in, cmp.Or(err, unknown)
			},
			Report: report,
		}
		return j.Run(ctx)
	}
	return &Scorer{run: run, close: closer, middle: math.NaN()}
}

// OpenScorer opens a scorer directory. Its scores are on the scorer's range.
func OpenScorer(dir string, o model.Options) (*Scorer, error) {
	m, err := model.OpenScorer(dir, o)
	if err != nil {
		return nil, err
	}
	s := ScorerOf(m, m.Close)
	s.Name = filepath.Clean(dir)
	cfg := m.Config()
	s.Settings = settings(&cfg, o.Dimension)
	if cfg.ScoreRange.Bounded() {
		s.middle = (cfg.ScoreRange[0] + cfg.ScoreRange[1]) / 2
	}
	if s.Fingerprint, err = m.Fingerprint(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return s, nil
}

// settings says for readers what a scorer is asked.
func settings(c *model.ScorerConfig, dimension string) string {
	if c.Format != 2 {
		return fmt.Sprintf("question %q, answer %q, pair %s, pair_size %v, range %v",
			c.Question, c.Answer, c.Pair, c.PairSize, c.ScoreRange)
	}
	var passes []string
	for _, q := range c.Passes {
		passes = append(passes, fmt.Sprintf("%s of %s", q.Name, strings.Join(q.Pictures, " and ")))
	}
	text := fmt.Sprintf("passes %s; the score is the %s of %s, %s", strings.Join(passes, ", "), c.Score.Fusion,
		strings.Join(c.Score.Of, ", "), c.ScoreRange.Words())
	if dimension != "" {
		text += "; the dimension " + dimension + " alone"
	}
	return text
}

// Items are the items of a set that the scorer can be run on.
func (s *Scorer) Items(set protocol.Scorable) ([]protocol.Item, error) {
	if all, ok := set.(protocol.SeveralSources); ok && s.several {
		return all.ItemsOfSeveral()
	}
	return set.Items()
}

// Close frees the model.
func (s *Scorer) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// outcome is what became of an item.
type outcome struct {
	score float64
	err   error // why there is none
	// orders are, of a judge of pairs, what it says of the left edit when that is shown first, and second: 1: it is
	// better.
	orders     []float64
	dimensions map[string]float64 // of a judge that answers in words
	said       *string            // what a judge said, of Questions
	middle     float64            // of the scorer's range
}

// scoreItems scores groups of items and reports them.
type scoreItems func(
	ctx context.Context, groups [][]protocol.Item, report func(group []protocol.Item, content []string,
		outcomes []outcome) error,
) error

// score scores groups of items, each group together, and reports what became of them, with the items' content, taken
// before they were read. An item without a score ends it, if items do not fail each by itself.
func (s *Scorer) score(
	ctx context.Context, groups [][]protocol.Item, report func(group []protocol.Item, content []string,
		outcomes []outcome) error,
) error {
	var items []protocol.Item
	var batches [][]int
	if s.batch > 0 {
		groups = slices.Collect(slices.Chunk(slices.Concat(groups...), s.batch))
	}
	for _, g := range groups {
		var batch []int
		for _, it := range g {
			batch, items = append(batch, len(items)), append(items, it)
		}
		batches = append(batches, batch)
	}
	failed := func(group []protocol.Item, err error) error {
		return fmt.Errorf("scoring %v (and the %d edits of its source): %w", group[0].Key, len(group), err)
	}
	next := 0
	content := make([]string, len(items))
	w := work{items, batches, func(i int) (unknown error) {
		if content[i], unknown = items[i].Known(); unknown != nil {
			unknown = fmt.Errorf("%v: %w", items[i].Key, unknown)
		}
		return unknown
	}}
	err := s.run(ctx, w, func(results []scoring.Result) error {
		group, of := groups[next], make([]string, len(results))
		next++
		outcomes := make([]outcome, len(results))
		for i, r := range results {
			if r.Err != nil && !s.each {
				return failed(group, r.Err)
			}
			of[i] = content[r.Index]
			outcomes[i] = outcome{score: r.Score, err: r.Err, orders: orders(r.Judgement),
				dimensions: dimensions(r.Judgement),
				middle:     s.middle}
			if math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
				return fmt.Errorf("scoring %v: the score is %v", group[i].Key, r.Score)
			}
		}
		return report(group, of, outcomes)
	})
	var batch *scoring.BatchError
	if errors.As(err, &batch) {
		return failed(groups[next], batch.Err)
	}
	return err
}

// Decode reads the pictures of an item.
func Decode(it protocol.Item) (e Edit, err error) {
	e.Item = it
	if it.Source.None() { // of judges of one picture; others miss it
		e.Edit, err = decodePicture(it, "edit", it.Edit)
		return e, err
	}
	if e.Source, err = decodePicture(it, "source", it.Source); err != nil {
		return e, err
	}
	e.Edit, err = decodeEdit(it, e.Source)
	return e, err
}

// decodeEdit reads the edit of an item whose source is decoded.
func decodeEdit(it protocol.Item, source *data.Picture) (*data.Picture, error) {
	edit, err := decodePicture(it, "edit", it.Edit)
	if err == nil && it.Edit.Like {
		edit = edit.Resize(source.Width, source.Height, data.Bicubic)
	}
	return edit, err
}

func decodePicture(it protocol.Item, what string, p protocol.Picture) (*data.Picture, error) {
	raw, err := p.Bytes()
	if err != nil {
		return nil, fmt.Errorf("%v: %s: %w", it.Key, what, err)
	}
	pic, err := data.Decode(raw, data.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%v: %s: %w", it.Key, what, err)
	}
	if p.Bare {
		if pic, err = pic.DropAlpha(); err != nil {
			return nil, fmt.Errorf("%v: %s: %w", it.Key, what, err)
		}
	}
	if p.Area > 0 {
		width, height := sidesOf(p.Area, pic.Width, pic.Height)
		pic = pic.Resize(width, height, data.Bicubic)
	}
	return pic, nil
}

// sidesOf are the sides of a picture of about the area and the same aspect, rounded down.
func sidesOf(area, width, height int) (w, h int) {
	ratio := float64(width) / float64(height)
	side := math.Sqrt(float64(area) * ratio)
	return max(1, int(side)), max(1, int(side/ratio))
}

// Pairs scores pairs of pictures: a model.Scorer, or a scorer that is being trained.
type Pairs interface {
	Prepare(model.Pair) (*model.Sample, error)
	Score(ctx context.Context, samples []*model.Sample) ([]float64, error) // score01
	Config() model.ScorerConfig
}

// ScorerOf makes a scorer that gives scores on the range of s. closer (may be nil) is called by Close.
func ScorerOf(s Pairs, closer func() error) *Scorer { return newScorer(modelScorer{s}, Decode, closer) }

// modelScorer gives scores on the scorer's range.
type modelScorer struct{ scorer Pairs }

// Prepare implements scoring.Scorer.
func (s modelScorer) Prepare(e Edit) (*model.Sample, error) {
	sample, err := s.scorer.Prepare(model.Pair{Source: e.Source, Edit: e.Edit, Instruction: e.Item.Instruction})
	if err != nil {
		return nil, fmt.Errorf("%v: %w", e.Item.Key, err)
	}
	return sample, nil
}

// Score implements scoring.Scorer.
func (s modelScorer) Score(ctx context.Context, samples []*model.Sample) ([]float64, error) {
	scores, err := s.scorer.Score(ctx, samples)
	if err != nil {
		return nil, err
	}
	cfg := s.scorer.Config()
	for i, v := range scores {
		scores[i] = cfg.Range(v)
	}
	return scores, nil
}

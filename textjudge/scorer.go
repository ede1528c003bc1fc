package textjudge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/workers"
	"assay/model"
)

// Scorer is a judge as a scorer of pairs: what scores, ranks, serves or measures edits takes it as it takes a trained
// one. Scores are on the judge's score_range, dimensions too. It is safe for concurrent use.
type Scorer struct {
	Text    *Judge // that is asked
	workers int
}

// Scorer makes a scorer of a judge, which asks about so many edits at a time. The judge must be of single edits, and
// show sources and edits only.
func (j *Judge) Scorer(workers int) (*Scorer, error) {
	c := &j.Config
	if len(c.Kinds) > 0 {
		return nil, fmt.Errorf("the judge %s asks by the kind of the edit, which only benchmarks know", c.Name)
	}
	for _, role := range j.Roles() {
		if role != "source" && role != "edit" {
			return nil, fmt.Errorf("the judge %s shows %q: only source and edit are there", c.Name, role)
		}
	}
	return j.ItemScorer(workers)
}

// ItemScorer is a scorer of items, with all that the judge shows of them: see [Scorer.JudgeItems].
func (j *Judge) ItemScorer(workers int) (*Scorer, error) {
	if c := &j.Config; c.Pair {
		return nil, fmt.Errorf("the judge %s says which of two edits is better: it gives no scores of one", c.Name)
	}
	return &Scorer{j, max(workers, 1)}, nil
}

// Config says the range of the scores, the dimensions, and which pictures are looked at.
func (s *Scorer) Config() model.ScorerConfig {
	c := &s.Text.Config
	out := model.ScorerConfig{Format: 2, ScoreRange: edit.Range(c.ScoreRange)}
	out.Kind, out.Heads = "text", map[string]model.DimensionConfig{}
	for _, q := range c.Questions {
		pictures := slices.DeleteFunc(slices.Clone(q.Pictures), isFile)
		if len(pictures) > 0 {
			out.Passes = append(out.Passes, model.PassConfig{Name: q.Name, Pictures: pictures})
		}
	}
	for _, name := range c.numbers() {
		out.Heads[name] = model.DimensionConfig{Outputs: model.OutputValue}
	}
	return out
}

// numbers are the names of all numbers of a pass.
func (c *Config) numbers() (names []string) {
	for i := range c.Questions {
		for _, v := range c.Questions[i].Answer.values() {
			names = append(names, v.names()...)
		}
	}
	for _, d := range c.Dimensions {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Fingerprint is the judge's.
func (s *Scorer) Fingerprint() (string, error) { return s.Text.Fingerprint(), nil }

// Prepare keeps the pair.
func (s *Scorer) Prepare(p model.Pair) (*model.Sample, error) {
	if p.Requirement != "" {
		return nil, fmt.Errorf("%w: the judge %s asks for no requirement", chat.ErrRequest, s.Text.Config.Name)
	}
	return &model.Sample{Asked: &p}, nil
}

// Score returns score01 of each pair; the error is that of the first one which has none.
func (s *Scorer) Score(ctx context.Context, samples []*model.Sample) ([]float64, error) {
	judgements, err := s.Judge(ctx, samples)
	scores := make([]float64, len(judgements))
	for i, j := range judgements {
		scores[i] = j.Score01
	}
	return scores, err
}

// Judge is Score with the dimensions.
func (s *Scorer) Judge(ctx context.Context, samples []*model.Sample) ([]model.Judgement, error) {
	judgements, errs, err := s.JudgeEach(ctx, samples)
	if err := errors.Join(err, cmp.Or(errs...)); err != nil {
		return nil, err
	}
	return judgements, nil
}

// JudgeEach asks about every pair. A pair without a judgement has an error of its own, an [AnswerError] if its answer
// cannot be read; err is that of ctx, or wraps [chat.ErrUnavailable].
func (s *Scorer) JudgeEach(ctx context.Context, samples []*model.Sample) ([]model.Judgement, []error, error) {
	items := make([]Item, len(samples))
	for i, sample := range samples {
		p := sample.Asked
		if p == nil {
			return nil, nil, errors.New("the sample was prepared by another scorer")
		}
		items[i] = Item{Instruction: p.Instruction,
			Pictures: map[string]*data.Picture{"source": p.Source, "edit": p.Edit}}
	}
	return s.JudgeItems(ctx, items)
}

// JudgeItems is JudgeEach of items.
func (s *Scorer) JudgeItems(ctx context.Context, items []Item) ([]model.Judgement, []error, error) {
	results, errs, err := s.Text.Each(ctx, items, s.workers)
	if err != nil {
		return nil, nil, err
	}
	judgements := make([]model.Judgement, len(items))
	for i, r := range results {
		if errs[i] != nil {
			errs[i] = withText(errs[i], r)
			continue
		}
		judgements[i].Score01 = r.Score01
		for _, name := range slices.Sorted(maps.Keys(r.Dimensions)) {
			d := model.Dimension{Name: name, Score01: s.Text.Config.score01(r.Dimensions[name])}
			judgements[i].Dimensions = append(judgements[i].Dimensions, d)
		}
	}
	return judgements, errs, nil
}

// withText adds to the error about an answer the answer itself, cut short if it is very long.
func withText(err error, r *Result) error {
	var unread *AnswerError
	if !errors.As(err, &unread) || len(r.Answers) == 0 {
		return err
	}
	text := []rune(r.Answers[len(r.Answers)-1].Text)
	more := ""
	if len(text) > 1000 {
		text, more = text[:1000], " ..."
	}
	return fmt.Errorf("%w: %q%s", err, string(text), more)
}

// Gradients are not there: what is said in words has none.
func (s *Scorer) Gradients(context.Context, []model.Pair) ([]*model.PixelGradients, error) {
	return nil, fmt.Errorf("the judge %s answers in words: its scores have no gradients", s.Text.Config.Name)
}

// Each judges items, at most so many at a time. Each has a result or an error; err is that of ctx, or that the
// model answers no more (chat.ErrUnavailable). What was asked for is waited for.
func (j *Judge) Each(ctx context.Context, items []Item, most int) (results []*Result, errs []error, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results, errs = make([]*Result, len(items)), make([]error, len(items))
	_ = workers.Each(len(items), max(most, 1), func(i int) error {
		if ctx.Err() != nil {
			return nil
		}
		results[i], errs[i] = j.Judge(ctx, items[i])
		if errors.Is(errs[i], chat.ErrUnavailable) {
			stop(errs[i])
		}
		return nil
	})
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	return results, errs, nil
}

// Words say for readers what a judge asks: its name and rule, the questions, and which prompts they are.
func (j *Judge) Words() string {
	c := &j.Config
	var asked []string
	for _, q := range c.Questions {
		asked = append(asked, fmt.Sprintf("%s of %s", q.Name, strings.Join(q.Pictures, " and ")))
	}
	text := fmt.Sprintf("%s, rule %s: asked %s; range %v", c.Name, c.Rule, strings.Join(asked, ", "), c.ScoreRange)
	if c.Passes > 1 {
		text += fmt.Sprintf("; %d passes, average %s", c.Passes, c.Average)
	}
	if c.Constrained {
		text += "; answers constrained by their grammars"
	}
	return text + "; prompts: " + j.Asks
}

// Prompts is a digest of what is asked: prompts and pictures of the folder, without the model.
func (j *Judge) Prompts() string { return j.promptsDigest }

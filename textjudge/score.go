package textjudge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/workers"
)

var (
	_ edit.Judge    = (*Judge)(nil)
	_ edit.Comparer = (*Judge)(nil)
)

// Scorer returns a copy of the judge whose [Judge.Score] asks about that many edits at a time, for callers that have
// only an edit's instruction, sources and output. It refuses a judge of pairs, a judge without scores, and one that
// needs more of an edit.
func (j *Judge) Scorer(workers int) (*Judge, error) {
	c := &j.Config
	if len(c.Kinds) > 0 {
		return nil, fmt.Errorf("the judge %s asks by the kind of the edit, which only benchmarks have", c.Name)
	}
	for _, role := range j.Roles() {
		if role != allSources && !isSource(role) && role != "edit" {
			return nil, fmt.Errorf("the judge %s shows %q, but only sources and edit are available", c.Name, role)
		}
	}
	if c.Pair || !c.Scores() {
		return nil, j.noScores()
	}
	out := *j
	out.Workers = workers
	return &out, nil
}

func (j *Judge) noScores() error {
	if j.Config.Pair {
		return fmt.Errorf("the judge %s compares two edits and does not score a single one", j.Config.Name)
	}
	return fmt.Errorf("the judge %s has no score: it measures a component of a benchmark (score bench)", j.Config.Name)
}

// Info implements edit.Judge.
func (j *Judge) Info() edit.Info {
	c := &j.Config
	info := edit.Info{Name: c.Name, Range: c.onto(), Words: true}
	for _, role := range j.Roles() {
		if role == allSources {
			info.Sources = edit.Any
		} else if n := edit.SourceOf(role); n > 0 && info.Sources != edit.Any {
			info.Sources = max(info.Sources, n)
		} else if n == 0 && role != "edit" && !(c.Pair && role == "edit2") {
			info.Pictures = append(info.Pictures, role)
		}
	}
	for i := range c.Questions {
		if r := c.Questions[i].Released; r != nil {
			info.Texts = append(info.Texts, slices.Collect(maps.Keys(r.Fields))...)
		}
	}
	slices.Sort(info.Texts)
	info.Texts = slices.Compact(info.Texts)
	for _, name := range c.numbers() {
		info.Dimensions = append(info.Dimensions, edit.DimensionInfo{Name: name})
	}
	return info
}

// numbers returns the names of all numbers of a pass, sorted.
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

// Prepare implements edit.Judge: it decodes the pictures that the questions show.
func (j *Judge) Prepare(e *edit.Edit) (edit.Inputs, error) {
	if j.Config.Pair {
		return nil, j.noScores()
	}
	return j.prepare(e)
}

// prepare decodes the pictures of an edit. The output of second, if there is one, becomes edit2.
func (j *Judge) prepare(e *edit.Edit, second ...*edit.Edit) (*edit.Views, error) {
	if e.Requirement != "" {
		return nil, fmt.Errorf("%w: the judge %s does not take a requirement", chat.ErrRequest, j.Config.Name)
	}
	r := &edit.Views{Edit: e, ByRole: map[string]*data.Picture{}}
	shown, err := j.shown(e.Kind)
	if err != nil {
		return nil, err
	}
	if err := checkSources(e, shown); err != nil {
		return nil, fmt.Errorf("%w: %w", chat.ErrRequest, err)
	}
	for _, role := range rolesOf(e, shown) {
		p := e.Picture(role)
		if role == "edit2" && len(second) > 0 {
			p = second[0].Output
		}
		if p == nil && role == "reference" {
			p = e.Pictures["target"] // some edits have only the target as reference
		}
		if p == nil {
			return nil, fmt.Errorf("%w: no picture %q", chat.ErrRequest, role)
		}
		if r.ByRole[role], err = edit.Decode(p); err != nil {
			return nil, fmt.Errorf("%s: %w", role, err)
		}
	}
	return r, nil
}

// allSources is the role of all sources of an edit, in their order.
const allSources = "sources"

// isSource reports whether a role names one source.
func isSource(role string) bool { return edit.SourceOf(role) > 0 }

// rolesOf expands the role sources to the roles of the edit's sources.
func rolesOf(e *edit.Edit, roles []string) (out []string) {
	for _, role := range roles {
		if role != allSources {
			out = append(out, role)
			continue
		}
		for i := range max(len(e.Sources), 1) {
			out = append(out, edit.SourceRole(i))
		}
	}
	return out
}

// checkSources refuses an edit with more sources than the roles show.
func checkSources(e *edit.Edit, roles []string) error {
	info := edit.Info{}
	for _, role := range roles {
		if info.Sources = max(info.Sources, edit.SourceOf(role)); role == allSources {
			return nil
		}
	}
	return info.CheckSources(e)
}

// Score implements edit.Judge. It asks about Workers edits at a time and waits for requests already sent. An edit's
// error is an [AnswerError] if its answer is unreadable; err is the error of ctx or an [ExamError], or wraps
// [chat.ErrUnavailable].
//
// If the judge asks one question in one pass, the score holds the model's text, even if it is unreadable. A judge
// without scores returns a class, or only dimensions.
func (j *Judge) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	results, errs, err := each(ctx, inputs, j.Workers, func(ctx context.Context, in edit.Inputs) (*Result, error) {
		r, ok := in.(*edit.Views)
		if !ok {
			return nil, errors.New("the edit was prepared by another judge")
		}
		return j.answers(ctx, r)
	})
	if err != nil {
		return nil, nil, err
	}
	scores := make([]edit.Score, len(inputs))
	for i, r := range results {
		if r != nil && len(r.Answers) > 0 && len(j.Config.Questions) == 1 && j.Config.Passes == 1 {
			scores[i].Answer = r.Answers[len(r.Answers)-1].Text
		}
		if errs[i] != nil {
			errs[i] = withText(errs[i], r)
			continue
		}
		on := j.Config.onto()
		if scores[i].Value = r.Score01; !j.Config.Scores() {
			scores[i].Value, scores[i].Answer = math.NaN(), r.Class
		}
		for _, name := range slices.Sorted(maps.Keys(r.Dimensions)) {
			d := edit.Dimension{Name: name, Value: on.To01(r.Dimensions[name])}
			scores[i].Dimensions = append(scores[i].Dimensions, d)
		}
		on.Scale(&scores[i])
	}
	return scores, errs, nil
}

// Compare implements edit.Comparer: it asks about Workers pairs at a time, in both orders.
func (j *Judge) Compare(ctx context.Context, pairs []edit.Pair) ([]edit.Preference, []error, error) {
	results, errs, err := each(ctx, pairs, j.Workers, func(ctx context.Context, p edit.Pair) (*Result, error) {
		return j.Ask(ctx, p[0], p[1])
	})
	if err != nil {
		return nil, nil, err
	}
	out := make([]edit.Preference, len(pairs))
	for i, r := range results {
		if errs[i] == nil {
			out[i] = edit.Preference{Value: r.Score, Orders: []float64{r.Dimensions[shownFirst], r.Dimensions[shownSecond]}}
		}
	}
	return out, errs, nil
}

// withText appends an unreadable answer's text to its error, at most 1000 characters.
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

// Close implements edit.Judge. The model stays open: the caller owns it.
func (j *Judge) Close() error { return nil }

// each asks about edits, at most that many at a time, and waits for requests already sent. Each edit gets a result or
// an error. err is the error of ctx, an ExamError, or a chat.ErrUnavailable if the model no longer answers.
func each[In any](
	ctx context.Context, edits []In, most int, ask func(context.Context, In) (*Result, error),
) (results []*Result, errs []error, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results, errs = make([]*Result, len(edits)), make([]error, len(edits))
	_ = workers.Each(len(edits), max(most, 1), func(i int) error {
		if ctx.Err() != nil {
			return nil
		}
		results[i], errs[i] = ask(ctx, edits[i])
		var exam *ExamError
		if errors.Is(errs[i], chat.ErrUnavailable) || errors.As(errs[i], &exam) {
			stop(errs[i])
		}
		return nil
	})
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	return results, errs, nil
}

// Words describes the judge for readers: its name and rule, the questions, and whose prompts it uses.
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

// Prompts is a digest of the prompts and the pictures in the folder, without the model.
func (j *Judge) Prompts() string { return j.promptsDigest }

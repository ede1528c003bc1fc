package edit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"assay/data"
)

// Judge scores how well edits were done. Its methods are safe for concurrent use.
type Judge interface {
	Info() Info
	// Fingerprint is a digest of everything that a score depends on besides the edit: weights, prompts, configuration.
	Fingerprint() (string, error)
	// Prepare converts an edit to the judge's inputs: it decodes and tokenises. An error concerns this edit only.
	Prepare(*Edit) (Inputs, error)
	// Score returns a score or an error for each of the inputs, which must come from this judge's Prepare. err is a
	// failure independent of the edits (an unreachable server, a failing device, ctx) and aborts the work.
	Score(ctx context.Context, inputs []Inputs) (scores []Score, errs []error, err error)
	Close() error
}

// Inputs are a judge's prepared form of an edit. Other code only uses their size.
type Inputs interface {
	// Size counts the float32 values that the inputs hold, excluding those shared with the previous inputs (nil:
	// there are none).
	Size(before Inputs) int
}

// Views are the inputs of judges that use plain pictures: an edit, and its decoded pictures by role.
type Views struct {
	*Edit
	ByRole map[string]*data.Picture
}

// View decodes the pictures of an edit with the given roles.
func View(e *Edit, roles ...string) (*Views, error) {
	v := &Views{e, map[string]*data.Picture{}}
	for _, role := range roles {
		var err error
		if v.ByRole[role], err = Decode(e.Picture(role)); err != nil {
			return nil, fmt.Errorf("%s: %w", role, err)
		}
	}
	return v, nil
}

// Size implements [Inputs]: four bytes of a picture count as one float32.
func (v *Views) Size(Inputs) (n int) {
	for _, p := range v.ByRole {
		n += len(p.Pix) / 4
	}
	return n
}

// Differentiable is a [Judge] whose scores have gradients with respect to pixels.
type Differentiable interface {
	Judge
	// Gradients differentiates the scores of edits. It fails if any of them does.
	Gradients(ctx context.Context, edits []*Edit) ([]*Gradient, error)
}

// Comparer compares two edits of the same source and instruction.
type Comparer interface {
	Info() Info
	Fingerprint() (string, error) // see [Judge]
	// Compare returns a preference or an error for each pair, as [Judge.Score] does.
	Compare(ctx context.Context, pairs []Pair) (preferences []Preference, errs []error, err error)
	Close() error
}

// Pair is two edits to compare.
type Pair [2]*Edit

// Size implements [Inputs] for a pair with decoded pictures. Its edits share their sources.
func (p Pair) Size(Inputs) (n int) {
	for _, of := range append([]Picture{p[0].Output, p[1].Output}, p[0].Sources...) {
		if decoded, ok := of.(*data.Picture); ok {
			n += len(decoded.Pix) / 4
		}
	}
	return n
}

// Preference is how much better the first edit of a pair is: 1: the first is better, 0: the second is better, 0.5:
// neither.
type Preference struct {
	Value  float64
	Orders []float64 // Value with the first edit shown first, and with it shown second; nil: only one order
}

// Info describes a judge.
type Info struct {
	Name       string // for display; "": none
	Range      Range  // of its scores
	Dimensions []DimensionInfo
	Sigma      bool     // the score has a standard deviation though no dimension has one: an ensemble
	Sources    int      // number of sources that it looks at: 0, 1, or [Any]
	Pictures   []string // roles of the further pictures that it looks at
	Texts      []string // roles of the further texts that it reads
	Asks       bool     // it asks about the requirement of an edit
	Words      bool     // it answers in free text, which may be unreadable
}

// Any is an unbounded number of sources.
const Any = -1

// DimensionInfo is a dimension that a judge scores.
type DimensionInfo struct {
	Name    string
	Sigma   bool     // with a standard deviation
	Classes []string // unordered classes, one of which is the answer; nil: it has a value
}

// Check refuses an edit that lacks an input of the judge, or has inputs that the judge does not support.
func (i *Info) Check(e *Edit) error {
	switch {
	case e == nil:
		return errors.New("there is no edit")
	case i.Sources != 0 && e.Source() == nil:
		return errors.New("the edit has no source, and this judge compares the output with it")
	case e.Output == nil:
		return errors.New("the edit has no output")
	case i.CheckSources(e) != nil:
		return i.CheckSources(e)
	case e.Requirement != "" && !i.Asks:
		return errors.New("the edit has a requirement, but this judge does not ask about it")
	}
	for _, role := range i.Pictures {
		if e.Pictures[role] == nil {
			return fmt.Errorf("the edit has no picture %q", role)
		}
	}
	return nil
}

// CheckSources refuses more sources than a judge looks at. A judge that looks at none ignores them all.
func (i *Info) CheckSources(e *Edit) error {
	if i.Sources <= 0 || len(e.Sources) <= i.Sources { // 0 or Any
		return nil
	}
	return fmt.Errorf("the edit has %d sources, and this judge looks at %d: drop the others, or use a judge that "+
		"takes several, such as a scorer with pair: sequence", len(e.Sources), i.Sources)
}

// Unreadable reports whether an error means that a text answer could not be parsed.
func Unreadable(err error) bool {
	var answer interface{ Unreadable() bool }
	return errors.As(err, &answer) && answer.Unreadable()
}

// Unfit reports whether an error means that a judge cannot score such an edit, as one with too small pictures.
func Unfit(err error) bool {
	var of interface{ Unfit() bool }
	return errors.As(err, &of) && of.Unfit()
}

// Temporary reports whether an error may go away on retry, such as one from a server.
func Temporary(err error) bool {
	var of interface{ Temporary() bool }
	return errors.As(err, &of) && of.Temporary()
}

// ScoreAll prepares and scores edits in one batch: each gets a score or an error, as in [Judge.Score].
func ScoreAll(ctx context.Context, j Judge, edits ...*Edit) (scores []Score, errs []error, err error) {
	inputs, failed := make([]Inputs, len(edits)), make([]error, len(edits))
	for i, e := range edits {
		inputs[i], failed[i] = j.Prepare(e)
	}
	return ScorePrepared(ctx, j, inputs, failed)
}

// ScorePrepared scores edits some of which could not be prepared: those keep their error from failed.
func ScorePrepared(
	ctx context.Context, j Judge, inputs []Inputs, failed []error,
) (scores []Score, errs []error, err error) {
	var prepared []Inputs
	for i, in := range inputs {
		if failed[i] == nil {
			prepared = append(prepared, in)
		}
	}
	part, partErrs, err := j.Score(ctx, prepared)
	if err != nil {
		return nil, nil, err
	}
	scores, errs = make([]Score, len(inputs)), slices.Clone(failed)
	k := 0
	for i := range inputs {
		if failed[i] == nil {
			scores[i], errs[i] = part[k], partErrs[k]
			k++
		}
	}
	return scores, errs, nil
}

// Each runs all inputs at once or, if that fails, one by one, so that an edit that cannot be scored (out of memory,
// or a NaN score) gets its own error. If none of several inputs succeeds, the cause is not the edits, and err is the
// error of the run over all of them. err is also set when ctx ends; then there are no results.
func Each[In, Out any](
	ctx context.Context, inputs []In, run func(context.Context, []In) ([]Out, error),
) (results []Out, errs []error, err error) {
	if len(inputs) == 0 {
		return nil, nil, nil
	}
	checked := func(part []In) ([]Out, error) {
		results, err := run(ctx, part)
		if err == nil && len(results) != len(part) {
			err = fmt.Errorf("%d results of %d", len(results), len(part))
		}
		return results, err
	}
	errs = make([]error, len(inputs))
	results, err = checked(inputs)
	switch {
	case err == nil:
		return results, errs, nil
	case ctx.Err() != nil:
		return nil, nil, err
	case len(inputs) == 1:
		return make([]Out, 1), []error{err}, nil
	}
	results = make([]Out, len(inputs))
	for i := range inputs {
		one, e := checked(inputs[i : i+1])
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case e != nil:
			errs[i] = e
		default:
			results[i] = one[0]
		}
	}
	if slices.Contains(errs, nil) {
		err = nil
	}
	return results, errs, err
}

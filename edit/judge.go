package edit

import (
	"assay/data"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Judge says how well edits were done. Its methods are safe for concurrent use.
type Judge interface {
	Info() Info
	// Fingerprint is a digest of everything that a score depends on besides the edit: weights, prompts, configuration.
	Fingerprint() (string, error)
	// Prepare makes the judge's inputs of an edit: it decodes and tokenises. Its error is the edit's.
	Prepare(*Edit) (Inputs, error)
	// Score returns a score or an error for each of the inputs, which this judge prepared. err is not the edits' fault (a
	// server that is gone, a device that fails, ctx) and ends the work.
	Score(ctx context.Context, inputs []Inputs) (scores []Score, errs []error, err error)
	Close() error
}

// Inputs are what a judge makes of an edit before it scores it. Others only ask how large they are.
type Inputs interface {
	// Size counts the float32 values that the inputs hold, without those that they share with the inputs before them (nil:
	// there are none).
	Size(before Inputs) int
}

// Views are the inputs of judges that look at pictures as they are: an edit, and its pictures by role, decoded.
type Views struct {
	*Edit
	ByRole map[string]*data.Picture
}

// View decodes the pictures of an edit that have a role.
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

// Size implements [Inputs]: pictures are bytes, four to a float32.
func (v *Views) Size(Inputs) (n int) {
	for _, p := range v.ByRole {
		n += len(p.Pix) / 4
	}
	return n
}

// Differentiable is a [Judge] whose scores have gradients by pixels.
type Differentiable interface {
	Judge
	// Gradients differentiates the scores of edits. The error is that of any of them.
	Gradients(ctx context.Context, edits []*Edit) ([]*Gradient, error)
}

// Comparer says which of two edits of one source and instruction is better.
type Comparer interface {
	Info() Info
	Fingerprint() (string, error) // as a [Judge]'s
	// Compare returns a preference or an error for each pair, as [Judge.Score] does.
	Compare(ctx context.Context, pairs []Pair) (preferences []Preference, errs []error, err error)
	Close() error
}

// Pair is two edits that are compared.
type Pair [2]*Edit

// Size implements [Inputs] for a pair whose pictures are decoded. Its edits share their sources.
func (p Pair) Size(Inputs) (n int) {
	for _, of := range append([]Picture{p[0].Output, p[1].Output}, p[0].Sources...) {
		if decoded, ok := of.(*data.Picture); ok {
			n += len(decoded.Pix) / 4
		}
	}
	return n
}

// Preference says how much better the first edit of a pair is: 1: it is better, 0: the second one is, 0.5: neither.
type Preference struct {
	Value  float64
	Orders []float64 // what was said when the first edit was shown first, and when it was shown second; nil: one order
}

// Info is what a judge says of itself.
type Info struct {
	Name       string // for people; "": it has none
	Range      Range  // of its scores
	Dimensions []DimensionInfo
	Sigma      bool     // its score has a standard deviation though no dimension has one: of an ensemble
	Sources    int      // sources that it looks at: 0, 1, or [Any]
	Pictures   []string // roles of the further pictures that it looks at
	Texts      []string // roles of the further texts that it reads
	Asks       bool     // about the requirement of an edit
	Words      bool     // it answers in words, and its answers may be unreadable
}

// Any is a number of sources that is not bounded.
const Any = -1

// DimensionInfo is a dimension that a judge scores.
type DimensionInfo struct {
	Name    string
	Sigma   bool     // with a standard deviation
	Classes []string // without an order, one of which it names; nil: it has a value
}

// Check refuses an edit that lacks what a judge looks at, or has what it does not.
func (i *Info) Check(e *Edit) error {
	switch {
	case i.Sources != 0 && e.Source() == nil:
		return errors.New("the edit has no source, and this judge compares the output with it")
	case e.Output == nil:
		return errors.New("the edit has no output")
	case i.CheckSources(e) != nil:
		return i.CheckSources(e)
	case e.Requirement != "" && !i.Asks:
		return errors.New("the edit has a requirement: this judge does not ask about it")
	}
	for _, role := range i.Pictures {
		if e.Pictures[role] == nil {
			return fmt.Errorf("the edit has no picture %q", role)
		}
	}
	return nil
}

// CheckSources refuses more sources than a judge looks at. One that looks at none passes over them all.
func (i *Info) CheckSources(e *Edit) error {
	if i.Sources <= 0 || len(e.Sources) <= i.Sources { // 0 or Any
		return nil
	}
	return fmt.Errorf("the edit has %d sources, and this judge looks at %d: leave the others out, or use one that is "+
		"shown several, as scorers with pair: sequence are", len(e.Sources), i.Sources)
}

// Unreadable reports whether an error says that an answer in words could not be read.
func Unreadable(err error) bool {
	var answer interface{ Unreadable() bool }
	return errors.As(err, &answer) && answer.Unreadable()
}

// Temporary reports whether an error may not come again, as a server's.
func Temporary(err error) bool {
	var of interface{ Temporary() bool }
	return errors.As(err, &of) && of.Temporary()
}

// ScoreAll prepares and scores edits in one batch: each has a score or an error, as [Judge.Score] returns them.
func ScoreAll(ctx context.Context, j Judge, edits ...*Edit) (scores []Score, errs []error, err error) {
	inputs, failed := make([]Inputs, len(edits)), make([]error, len(edits))
	for i, e := range edits {
		inputs[i], failed[i] = j.Prepare(e)
	}
	return ScorePrepared(ctx, j, inputs, failed)
}

// ScorePrepared scores edits of which some could not be prepared: those keep their error of failed.
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

// Each runs all inputs at once or, where that fails, one by one: an edit that cannot be scored, for want of memory or
// because its score is no number, has an error of its own. If none of several can be done, that is not the edits'
// fault, and err is the error of all at once. It is also set when ctx ends; then there are no results.
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

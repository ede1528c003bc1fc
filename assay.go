// Package assay trains and runs reward models for instruction-guided image editing. Given a picture, an instruction
// and an edited picture, a scorer says how well the edit was done, and how that changes with every pixel.
//
// [Open] opens a scorer directory; its methods score and differentiate. [Label] makes a label table of edits, and
// [Train] a scorer of a label table; [DryRun] says beforehand what that takes. The packages beneath do the work, and
// may be imported for what is not here. Package data reads pictures and tables, scoring scores whole tables, reward
// serves scores to trainers of editing models.
package assay

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"assay/data"
	"assay/model"
	_ "assay/model/families" // the architectures that are known
	"assay/scoring"
)

// Pair is an edit: a picture before and after it, and what was asked for.
type Pair struct {
	Source, Edit *data.Picture // of any size, not changed; a judge of one picture needs no Source
	Instruction  string
	Requirement  string // what the edit must also fulfil, for scorers that ask for it
}

// ReadPair reads the pictures of a pair from files: PNG, JPEG, WebP, GIF, BMP or TIFF, turned upright,
// transparency over white. An empty source is left out, for judges of one picture. The error names the file, or is
// ctx's.
func ReadPair(ctx context.Context, source, edit, instruction string) (Pair, error) {
	p := Pair{Instruction: instruction}
	for _, read := range []struct {
		path string
		into **data.Picture
	}{{source, &p.Source}, {edit, &p.Edit}} {
		if err := ctx.Err(); err != nil {
			return Pair{}, err
		}
		if read.path == "" && read.into == &p.Source {
			continue
		}
		var err error
		if *read.into, err = data.Open(read.path, data.Limits{}); err != nil {
			return Pair{}, err
		}
	}
	return p, nil
}

// Options say where a scorer runs.
type Options struct {
	Device    string // cpu, cuda:N or auto; "": auto
	Threads   int    // of the CPU; 0: all cores
	Dimension string // what is reported as the score of a scorer of several heads; "": their fusion

	// Backbone is where the scorer's backbone is now; "": where scorer.yaml says. It must be the one that the scorer was
	// made with.
	Backbone string
	Warn     func(text string) // told what is doubtful about the scorer; nil: not called
}

// Scorer is an opened scorer directory: one that was trained, or an imported judge. It is safe for concurrent use.
type Scorer struct{ model *model.Scorer }

// Open opens a scorer directory, as [Train] writes it. The backbone's weights are read where they lie. A file that is
// not the one that the scorer was made with is an error that names it. Close frees everything.
func Open(ctx context.Context, dir string, o Options) (*Scorer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Device == "" {
		o.Device = "auto"
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("threads: want 0 (all cores) or more, not %d", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	m, err := model.OpenScorer(dir, model.Options{Device: o.Device, Threads: o.Threads, Dimension: o.Dimension,
		Backbone: o.Backbone, Warn: o.Warn})
	if err != nil {
		return nil, err
	}
	return &Scorer{m}, nil
}

// Close frees the scorer, which must not be used any more.
func (s *Scorer) Close() error { return s.model.Close() }

// Range is the worst and the best score, as scorer.yaml has them: 0 and 10 unless it says otherwise. Scores are not
// clipped. The scores of some imported judges have no range: their worst and best are infinite.
func (s *Scorer) Range() (worst, best float64) {
	r := s.model.Config().ScoreRange
	return r[0], r[1]
}

// Score says how well an edit was done, on the scorer's range. The same pair always has the same score. The error is
// that of the pair (an empty instruction, one that is too long), of the device, or ctx's.
func (s *Scorer) Score(ctx context.Context, p Pair) (float64, error) {
	results, err := s.ScoreAll(ctx, []Pair{p})
	if err != nil {
		return 0, err
	}
	return results[0].Score, results[0].Err
}

// Result is a score or an error.
type Result struct {
	Score      float64              // on the scorer's range
	Sigma      float64              // standard deviation of Score, as the scorer sees it; 0: it says none
	Dimensions map[string]Dimension // of a scorer of several heads, by name
	// Raw01 is the score before it was calibrated, on 0 to 1, or as it was for a scorer without a range; nil: the scorer
	// is not calibrated.
	Raw01    *float64
	Interval *Interval // of a calibrated scorer
	Err      error
}

// Interval is where the label of an edit lies with a probability of at least Coverage, on the scorer's range.
type Interval struct{ Low, High, Coverage float64 }

// Dimension is what one head of a scorer says.
type Dimension struct {
	Score, Sigma float64 // as those of a Result
}

// resultOf is what a scorer says of a pair.
func resultOf(r model.Report) Result {
	out := Result{Score: r.Score, Sigma: r.Sigma, Raw01: r.Raw01}
	if i := r.Interval; i != nil {
		out.Interval = &Interval{i.Low, i.High, i.Coverage}
	}
	for name, d := range r.Dimensions {
		if out.Dimensions == nil {
			out.Dimensions = map[string]Dimension{}
		}
		out.Dimensions[name] = Dimension{d.Score, d.Sigma}
	}
	return out
}

// scoredAtOnce bounds what is prepared ahead of many pairs.
const scoredAtOnce = 32

// ScoreAll scores many pairs, in batches, in their order. A pair that cannot be scored has an error of its own, and
// its score is the same alone or among others. The error is ctx's, or that of a device that can do nothing.
func (s *Scorer) ScoreAll(ctx context.Context, pairs []Pair) ([]Result, error) {
	indices := make([]int, len(pairs))
	for i := range indices {
		indices[i] = i
	}
	cfg := s.model.Config()
	all := make([]Result, len(pairs))
	j := scoring.Job[model.Pair, *model.Sample]{
		Scorer:  s.model,
		Batches: slices.Chunk(indices, scoredAtOnce),
		Read:    func(i int) (model.Pair, error) { return pairs[i].model(&cfg) },
		Report: func(results []scoring.Result) error {
			for _, r := range results {
				if all[r.Index].Err = r.Err; r.Err == nil {
					all[r.Index] = resultOf(cfg.Report(r.Judgement))
				}
			}
			return nil
		},
	}
	if err := j.Run(ctx); err != nil {
		return nil, err
	}
	return all, nil
}

// Gradient is a score with its derivatives.
type Gradient struct {
	Score float64 // on the scorer's range
	// Source and Edit are d score / d pixel of the two pictures as they were given, [height, width, 3], per 8-bit level.
	Source, Edit *data.Gradient
}

// Gradient differentiates the score of a pair with respect to every pixel: through head, language model, vision tower,
// normalisation and resizing. Rounding to 8 bits counts as the identity.
func (s *Scorer) Gradient(ctx context.Context, p Pair) (*Gradient, error) {
	cfg := s.model.Config()
	pair, err := p.model(&cfg)
	if err != nil {
		return nil, err
	}
	g, err := s.model.Gradient(ctx, pair)
	if err != nil {
		return nil, err
	}
	span := float32(cfg.ScoreRange.Width())
	for _, part := range []*data.Gradient{g.Source, g.Edit} {
		if part == nil { // a judge of one picture
			continue
		}
		for i := range part.Values {
			part.Values[i] *= span
		}
	}
	return &Gradient{Score: cfg.Range(g.Score01), Source: g.Source, Edit: g.Edit}, nil
}

// model is the pair as the model takes it. A judge of one picture needs no source.
func (p Pair) model(cfg *model.ScorerConfig) (model.Pair, error) {
	switch {
	case p.Source == nil && cfg.NeedsSource() || p.Edit == nil:
		return model.Pair{}, fmt.Errorf("the pair lacks a picture: Source and Edit are needed")
	case p.Requirement != "" && !cfg.Asks(model.RequirementMark):
		return model.Pair{}, fmt.Errorf("the pair has a requirement: no prompt of this scorer has %s", model.RequirementMark)
	}
	return model.Pair{Source: p.Source, Edit: p.Edit, Instruction: p.Instruction, Requirement: p.Requirement}, nil
}

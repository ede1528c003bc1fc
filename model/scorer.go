package model

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/calibration"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// Scorer is an opened scorer directory. Its methods are safe for concurrent use.
type Scorer struct {
	config      *ScorerConfig            // as read
	calibration *calibration.Calibration // of the reported scores; nil: none
	net         *exec.Network            // what is loaded
	prepare     *preparer                // turns edits into samples
	run         *exec.Runner             // runs graphs over samples
}

// OpenScorer reads a scorer directory and its backbone. Graphs are built on first use. Close frees everything.
func OpenScorer(dir string, o Options) (*Scorer, error) {
	p, err := LoadScorerState(dir)
	if err != nil {
		return nil, err
	}
	s, err := NewScorer(p, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return s, nil
}

// NewScorer opens a scorer that has been read or created.
func NewScorer(p *ScorerState, o Options) (*Scorer, error) {
	return openScorer(p, exec.Plan{}, o)
}

// Config returns scorer.yaml as read.
func (s *Scorer) Config() ScorerConfig { return *s.config }

// Info implements [edit.Judge].
func (s *Scorer) Info() edit.Info {
	c := s.config
	info := edit.Info{Range: c.ScoreRange, Sigma: len(c.Members) > 0, Asks: c.Asks(RequirementMark), Sources: c.sources()}
	for _, name := range c.Dimensions() {
		h := c.Heads[name]
		d := edit.DimensionInfo{Name: name, Sigma: h.Outputs == OutputMuSigma || len(c.Members) > 0, Classes: h.Names}
		info.Dimensions = append(info.Dimensions, d)
	}
	return info
}

// Prepare implements [edit.Judge]: it makes a [Sample].
func (s *Scorer) Prepare(e *edit.Edit) (edit.Inputs, error) { return s.Sample(e, Ask{}) }

// Score implements [edit.Judge]: one deterministic forward pass for each pass of each edit. A score does not depend on
// the other edits of the batch.
func (s *Scorer) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	samples := make([]*batch.Sample, len(inputs))
	for i, in := range inputs {
		var ok bool
		if samples[i], ok = in.(*batch.Sample); !ok {
			return nil, nil, fmt.Errorf("inputs of another judge: %T", in)
		}
	}
	return edit.Each(ctx, samples, s.ScoreSamples)
}

// Score01 returns score01 of every sample, all or none.
func (s *Scorer) Score01(ctx context.Context, samples []*batch.Sample) ([]float64, error) {
	all, err := s.ScoreSamples(ctx, samples)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(all))
	for i := range all {
		scores[i] = all[i].Score01
	}
	return scores, nil
}

// Hidden returns, for every sample, the state [hidden] that the only pass reads: the input of its heads.
func (s *Scorer) Hidden(ctx context.Context, samples []*batch.Sample) ([][]float32, error) {
	if len(s.config.Passes) > 1 || len(s.config.Members) > 0 {
		return nil, fmt.Errorf("an ensemble, or a scorer with %d passes, reads several states: use Readings",
			len(s.config.Passes))
	}
	readings, err := s.readAll(ctx, samples, true)
	states := make([][]float32, len(readings))
	for i, r := range readings {
		states[i] = r[0].State
	}
	return states, err
}

// PixelGradient returns score01 of one sample and d score01 / d pixel_values in the family's layout (LLaVA-NeXT:
// [tiles, 3, S, S] over all pictures in order). All passes must show the same pictures.
func (s *Scorer) PixelGradient(ctx context.Context, sample *batch.Sample) (float64, *tensor.Dense, error) {
	for _, one := range sample.Rest {
		if !slices.Equal(one.Pictures, sample.Pictures) {
			return 0, nil, fmt.Errorf("the passes show different pictures: their gradients share no pixel_values")
		}
	}
	scores, each, err := s.differentiate(ctx, []*batch.Sample{sample})
	if err != nil {
		return 0, nil, err
	}
	sum := slices.Clone(each[0][0].gradient)
	for _, q := range each[0][1:] {
		for i, v := range q.gradient {
			sum[i] += v
		}
	}
	feeds, err := s.net.Backbone.Feeds(sample.Pictures, backbone.JoinPixels(sample.Pictures))
	if err != nil {
		return 0, nil, err
	}
	shape := feeds[nn.InPixels].Shape().Clone()
	score, by := s.calibrated(scores[0].Value)
	if by != 1 {
		scaleBy(sum, by)
	}
	return score, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(sum)), nil
}

// Sample turns an edit into tokens and pictures: a sample for every pass. Passes that show the same
// pictures share them. It is safe for concurrent use.
func (s *Scorer) Sample(e *edit.Edit, a Ask) (*batch.Sample, error) { return s.prepare.Sample(e, a) }

// CheckText returns the error that Sample would return for the text of an edit, whatever its pictures are.
func (s *Scorer) CheckText(e *edit.Edit, a Ask) error { return s.prepare.CheckText(e, a) }

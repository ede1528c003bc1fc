package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"assay/losses"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// trainable returns why a scorer of format 2 cannot be trained; nil if it can.
func (c *ScorerConfig) trainable(t exec.Training) error {
	switch {
	case slices.ContainsFunc(c.Passes, func(q PassConfig) bool { return q.Steps > 0 }):
		return fmt.Errorf("passes.steps: a scorer with generated answers cannot be trained; set answer instead")
	case t == exec.TrainBackbone && c.Weights != "":
		return fmt.Errorf("weights: a backbone with separate weights can be trained with mode lora only; " +
			"`train merge --scorer` writes both into one folder, which can be trained in full")
	}
	for name, h := range c.Heads {
		if h.Joint {
			return fmt.Errorf("heads.%s: joint choices have no trainable rows; choices of one token have", name)
		}
	}
	return nil
}

// HeadOf is the head that a term of the objective reads: the head of its dimension; the only head, which may have no
// name; or the fusion of all heads, without a name.
func (c *ScorerConfig) HeadOf(term *losses.Spec) (name string, h DimensionConfig, err error) {
	if h, unnamed := c.Heads[""]; unnamed {
		return "", h, nil
	}
	if term.Fused {
		return "", c.fused(), nil
	}
	if term.Dimension == "" && len(c.Heads) == 1 {
		for name, h = range c.Heads {
			return name, h, nil
		}
	}
	h, ok := c.Heads[term.Dimension]
	if !ok {
		return "", h, fmt.Errorf("the scorer has no head %q; it has %v: select one with dimension", term.Dimension,
			slices.Sorted(maps.Keys(c.Heads)))
	}
	return term.Dimension, h, nil
}

// fused is the fusion of all heads as a head: a number, or mu and log sigma.
func (c *ScorerConfig) fused() DimensionConfig {
	f := c.Score
	for _, name := range f.Of {
		if c.Heads[name].Outputs != OutputMuSigma {
			return DimensionConfig{Outputs: OutputValue}
		}
	}
	if fusions[f.Fusion].logs == nil && (len(f.Of) > 1 || f.Fusion == "weights") {
		return DimensionConfig{Outputs: OutputValue}
	}
	return DimensionConfig{Outputs: OutputMuSigma}
}

// lossHead is the head of a term as package losses describes it, without values in a graph.
func (c *ScorerConfig) lossHead(term *losses.Spec) (losses.Head, error) {
	_, h, err := c.HeadOf(term)
	return losses.Head{Outputs: h.LossOutputs(), Values: h.Values}, err
}

// LossOutputs is the head's kind for losses: choices are classes whose layer consists of vocabulary rows.
func (h *DimensionConfig) LossOutputs() string {
	if h.Outputs == OutputChoices {
		return OutputClasses
	}
	return h.Outputs
}

// passRows is the input of a training step with the indices of the sequences that are a pass of its edits, in their
// order.
func passRows(pass int) string { return fmt.Sprintf("pass_rows.%d", pass) }

// fuseHeads is the fusion of heads as losses read it.
func (c *ScorerConfig) fuseHeads(g *nn.Graph, heads map[string]losses.Head) losses.Head {
	var dimensions, sigmas []string
	for _, name := range c.Score.Of {
		dimensions = append(dimensions, heads[name].Score)
		if heads[name].Outputs == OutputMuSigma {
			sigmas = append(sigmas, (&DimensionConfig{}).logSigma(g, heads[name].Z, onnx.Float)) // scaled already
		}
	}
	score, logs := c.Score.emit(g, onnx.Float, dimensions, sigmas)
	out := losses.Head{Outputs: c.fused().Outputs, Score: score}
	if logs != "" {
		column := func(x string) string { return g.Op("Unsqueeze", x, g.Ints(1)) }
		out.Z = g.OpA("Concat", onnx.Attrs{"axis": 1}, column(score), column(logs))
	}
	return out
}

// stepSequences are the sequences of a step over samples: one for each pass, sample by sample.
func (t *Tuner) stepSequences(samples []*batch.Sample) []*batch.Sample {
	if len(t.config.Passes) == 1 {
		return samples
	}
	var all []*batch.Sample
	for _, s := range samples {
		all = append(all, s.Sequences()...)
	}
	return all
}

// passFeeds returns, for every pass, which sequences of a packed step belong to it. nil: there is one pass.
func (t *Tuner) passFeeds(p *batch.Inputs) map[string]*tensor.Dense {
	n := len(t.config.Passes)
	if n == 1 {
		return nil
	}
	feeds, rows := map[string]*tensor.Dense{}, make([][]int64, n)
	for k := range rows {
		rows[k] = make([]int64, len(p.Order)/n)
	}
	for place, i := range p.Order {
		rows[i%n][i/n] = int64(place)
	}
	for k, r := range rows {
		feeds[passRows(k)] = batch.Vector(r)
	}
	return feeds
}

// places are the rows of a step's edits in the values that terms read.
func (t *Tuner) places(p *batch.Inputs) []int {
	n := len(t.config.Passes)
	place := make([]int, len(p.Order)/n)
	for at, i := range p.Order {
		if place[i/n] = at; n > 1 { // passFeeds has put them in order
			place[i/n] = i / n
		}
	}
	return place
}

// scaled is z as losses read it: mu and log sigma on the dimension's scale. Classes have no scale.
func (h *DimensionConfig) scaled(g *nn.Graph, z, dimension string) string {
	if h.Outputs != OutputMuSigma || len(h.Scale) != 2 {
		return z
	}
	sigma := g.Op("Slice", z, g.Ints(1), g.Ints(2), g.Ints(1))
	sigma = g.Op("Sub", sigma, g.Scalar(onnx.Float, math.Log(math.Abs(h.Scale[1]-h.Scale[0]))))
	return g.OpA("Concat", onnx.Attrs{"axis": 1}, g.Op("Unsqueeze", dimension, g.Ints(1)), sigma)
}

// readScores fuses the dimensions of format 2 into the scores of a step over samples.
func (t *Tuner) readScores(
	samples []*batch.Sample, p *batch.Inputs, out map[string]*tensor.Dense, r *StepResult,
) error {
	if t.config.TextLoss != "" { // see stepResult
		return nil
	}
	scorer, n := t.Scorer, len(t.config.Passes)
	sequences := t.stepSequences(samples)
	readings := make([][]Reading, len(samples))
	for i := range readings {
		readings[i] = make([]Reading, n)
	}
	for place, i := range p.Order {
		one, err := scorer.reading(sequences[i], place, out)
		if err != nil {
			return err
		}
		readings[i/n][i%n] = one
	}
	for i := range samples {
		score, _, err := scorer.fused(readings[i])
		if err != nil {
			return err
		}
		r.Score[i] = score.Value
	}
	return nil
}

package model

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"assay/losses"
	"assay/onnx"
)

// trainable says why a scorer of format 2 cannot be trained; nil: it can.
func (c *ScorerConfig) trainable(t training) error {
	switch {
	case len(c.Passes) != 1:
		return fmt.Errorf("training a scorer of format 2 with %d passes is not supported: one is", len(c.Passes))
	case c.Passes[0].Steps > 0:
		return fmt.Errorf("passes[0].steps: what the model says itself is not trained; give it an answer")
	case t == trainBackbone && c.Weights != "":
		return fmt.Errorf("weights: a backbone with weights from elsewhere trains with mode lora only; " +
			"`train merge --scorer` makes one folder of the two, which trains whole")
	}
	for name, h := range c.Heads {
		if h.Joint {
			return fmt.Errorf("heads.%s: joint choices have no rows that could be trained; choices of one token have", name)
		}
	}
	return nil
}

// HeadOf is the head that a loss of a dimension reads; "" is the score, where the scorer has a single head.
func (j *Judge) HeadOf(dimension string) (name string, h DimensionConfig, err error) {
	if dimension == "" && len(j.Heads) == 1 {
		for name, h = range j.Heads {
			return name, h, nil
		}
	}
	h, ok := j.Heads[dimension]
	if !ok {
		names := make([]string, 0, len(j.Heads))
		for n := range j.Heads {
			names = append(names, n)
		}
		slices.Sort(names)
		return "", h, fmt.Errorf("the scorer has no head %q; it has %v: say which with dimension", dimension, names)
	}
	return dimension, h, nil
}

// lossHead is the head of a dimension as losses know it, without values in a graph.
func (c *ScorerConfig) lossHead(dimension string) (losses.Head, error) {
	if c.Format != 2 {
		return c.Head.output("", ""), nil
	}
	_, h, err := c.HeadOf(dimension)
	return losses.Head{Outputs: h.LossOutputs(), Values: h.Values}, err
}

// LossOutputs is what losses take the head for: choices are classes, whose layer is rows of the vocabulary.
func (h *DimensionConfig) LossOutputs() string {
	if h.Outputs == OutputChoices {
		return OutputClasses
	}
	return h.Outputs
}

// buildJudgeStep is a training step of format 2: the pass, all heads, the terms of the objective, and backwards.
func buildJudgeStep(g *Graph, n *network, s graphSpec) (*built, error) {
	if s.Dropout {
		g.dropout = &dropout{}
	}
	h, read := n.judgeStates(g, s.Groups, s.Vision)
	heads := map[string]losses.Head{}
	for _, name := range n.config.Passes[0].Heads {
		head := n.config.Heads[name]
		z, d := head.build(g, name, h)
		z, d = read(z), read(d)
		g.Output(ofHead+name, z, onnx.Float, onnx.Dims("examples", head.width()))
		g.Output(ofScore+name, d, onnx.Float, onnx.Dims("examples"))
		heads[name] = losses.Head{Outputs: head.LossOutputs(), Z: head.scaled(g, z, d), Score: d, Values: head.Values}
	}
	sum := ""
	for i, t := range s.Terms {
		name, _, err := n.config.HeadOf(t.Dimension)
		if err != nil {
			return nil, err
		}
		one, err := g.term(i, t, heads[name])
		if err != nil {
			return nil, err
		}
		if sum != "" {
			one = g.Op("Add", sum, one)
		}
		sum = one
	}
	g.Output(outLoss, sum, onnx.Float, onnx.Dims(1))
	if g.err != nil {
		return nil, g.err
	}
	out := &built{Model: g.M, Params: g.Params, Grads: map[string]string{}}
	if g.dropout != nil {
		out.Sites, out.Widest = g.dropout.sites, g.dropout.widest
	}
	return out, g.differentiate(out, s)
}

// scaled is z as losses read it: mu and log sigma on the dimension's scale. Classes have no scale of their own.
func (h *DimensionConfig) scaled(g *Graph, z, dimension string) string {
	if h.Outputs != OutputMuSigma || len(h.Scale) != 2 {
		return z
	}
	sigma := g.Op("Slice", z, g.Ints(1), g.Ints(2), g.Ints(1))
	sigma = g.Op("Sub", sigma, g.Scalar(onnx.Float, math.Log(math.Abs(h.Scale[1]-h.Scale[0]))))
	return g.OpA("Concat", onnx.Attrs{"axis": 1}, g.Op("Unsqueeze", dimension, g.Ints(1)), sigma)
}

// readScores fuses the dimensions of format 2 into the scores of a step.
func (t *Tuner) readScores(samples []*Sample, p *packed, out map[string]*tensor.Dense, r *StepResult) error {
	if t.config.Format != 2 {
		return nil
	}
	scorer := &Scorer{t.pipeline}
	for place, i := range p.order {
		one, err := scorer.reading(samples[i], place, out)
		if err != nil {
			return err
		}
		j, _, err := scorer.judgement([]Reading{one})
		if err != nil {
			return err
		}
		r.Score[i] = j.Score01
	}
	return nil
}

package model

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/workers"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// Choices of several tokens have a joint likelihood: the product of each token's softmax over the full vocabulary,
// given the prompt and the tokens before it. Every choice is a separate sequence, prompt and pictures included. If the
// tokens of one choice begin another, the end of the turn is part of all of them.

// joint is the head of a pass whose choices are judged by their joint likelihoods; nil without one.
func (c *ScorerConfig) joint(q *PassConfig) *DimensionConfig {
	h := c.Heads[q.Heads[0]]
	if !h.Joint {
		return nil
	}
	return &h
}

// choiceSamples are the sequences of a pass's choices, each after the prompt, whose sample is s, and the text that ends
// them all; see endChoices.
func (p *preparer) choiceSamples(q *PassConfig, h *DimensionConfig, e *edit.Edit, s *batch.Sample, counts []int) (
	out []*batch.Sample, end string, err error,
) {
	n := len(s.IDs)
	for _, choice := range h.Choices {
		with := *q
		with.Answer = Text(choice)
		t, err := p.passTokens(&with, e, Ask{}, counts)
		if err != nil {
			return nil, "", err
		}
		if len(t.IDs) <= n || !slices.Equal(t.IDs[:n], s.IDs) {
			return nil, "", fmt.Errorf("the choice %q does not add separate tokens to the prompt of pass %s", choice, q.Name)
		}
		for i, other := range out {
			if slices.Equal(other.IDs, t.IDs) {
				return nil, "", fmt.Errorf("the choices %q and %q are the same tokens", h.Choices[i], choice)
			}
		}
		// The prompt's last token is predicted as well, so that no product has a single row; it does not count.
		t.AnswerStart, t.ScoreIndex = n-1, n-1
		out = append(out, &batch.Sample{Tokens: t, Pictures: s.Pictures, Common: t.AnswerStart - 1})
	}
	end, err = p.endChoices(h, out)
	return out, end, err
}

// endChoices adds the end of the turn to all choices if the tokens of one begin another: the likelihood of 1 would
// include that of 10, and no answer could make 10 more likely than 1. It returns that end; "": none is needed.
func (p *preparer) endChoices(h *DimensionConfig, all []*batch.Sample) (end string, err error) {
	for i, one := range all {
		for k, other := range all {
			if n := len(one.IDs); n >= len(other.IDs) || !slices.Equal(one.IDs, other.IDs[:n]) {
				continue
			}
			end = p.EndOfTurn()
			id, err := p.Text.ID(end)
			if err != nil {
				return "", fmt.Errorf("the choice %q begins the choice %q, so that they need an end of turn: %w", h.Choices[i],
					h.Choices[k], err)
			}
			for _, c := range all {
				c.IDs = append(slices.Clip(c.IDs), int64(id))
			}
			return end, nil
		}
	}
	return "", nil
}

// jointPacking packs choices: every row starting at the prompt's last but one predicts.
func (s *Scorer) jointPacking() batch.Packer {
	pk := s.net.Packer
	pk.Loss = true
	return pk
}

// jointGraph outputs -log softmax of every target, and with pixels the gradient of their weighted sum.
func (s *Scorer) jointGraph(pixels bool) exec.Recipe {
	name := fmt.Sprintf("joint choices, pixels=%v", pixels)
	return exec.Recipe{Name: name, Build: func(g *nn.Graph) (*nn.Program, error) {
		return s.buildJoint(g, pixels)
	}}
}

func (s *Scorer) buildJoint(g *nn.Graph, pixels bool) (*nn.Program, error) {
	var predict, targets string
	h := g.Decode(s.net.Backbone, nn.BatchSpec{Groups: 1, Vision: pixels || s.net.VisionTrained()}, func() string {
		predict = g.Input(nn.InPredict, onnx.Int64, onnx.Dims("targets"))
		targets = g.Input(nn.InTargets, onnx.Int64, onnx.Dims("targets"))
		return ""
	})
	nll, _ := g.NLL(s.net.Backbone.Keys(), g.Pick(h, predict, 0), targets, true)
	g.Output(nn.OutNLL, nll, onnx.Float, onnx.Dims("targets"))
	if pixels {
		weight := g.Input(nn.InTargetWeight, onnx.Float, onnx.Dims("targets"))
		g.Output(nn.OutLoss, g.Weighted(nll, weight), onnx.Float, onnx.Dims(1))
	}
	out, err := g.Finish()
	if err == nil && pixels {
		out.Grads, err = g.Backward(nn.OutLoss, nn.InPixels)
	}
	return out, err
}

// readJoint finds the likelihoods of the choices of samples.
func (s *Scorer) readJoint(ctx context.Context, samples []*batch.Sample, into []*Reading) error {
	var all []*batch.Sample
	for _, one := range samples {
		all = append(all, one.Choices...)
	}
	if len(all) == 0 {
		return nil
	}
	logs := make([]float32, len(all)) // log likelihood of each choice
	read := func(i, place int, out map[string]*tensor.Dense) error {
		nll := out[nn.OutNLL].Data().([]float32)
		each := len(all[i].IDs) - all[i].AnswerStart // of equal length in the batch
		sum := 0.0
		for _, v := range nll[place*each+1 : (place+1)*each] {
			sum -= float64(v)
		}
		logs[i] = float32(sum)
		_, err := s.net.Finite(logs[i])
		return err
	}
	if err := s.run.EachBatch(ctx, s.jointGraph(false), s.jointPacking(), all, read); err != nil {
		return err
	}
	for i, one := range samples {
		q := &s.config.Passes[one.Pass]
		h, n := s.config.joint(q), len(one.Choices)
		*into[i] = Reading{
			Pass:       q.Name,
			IDs:        one.IDs,
			At:         one.ScoreIndex,
			Outputs:    map[string][]float32{q.Heads[0]: logs[:n]},
			dimensions: map[string]float64{q.Heads[0]: h.expectation(h.probabilities(logs[:n]))},
		}
		logs = logs[n:]
	}
	return nil
}

// expectation is the expected value under probabilities p.
func (h *DimensionConfig) expectation(p []float64) float64 {
	return total(each(p, func(i int) float64 { return p[i] * h.Values[i] }))
}

// jointSequences are the sequences of the choices, each with the score's derivative:
// d sum p_k v_k / d log l_k = p_k (v_k - s) for p = softmax(log l) and the expectation s.
func (s *Scorer) jointSequences(one *batch.Sample, r Reading, gradient map[string]float64) (out []*sequence) {
	q := &s.config.Passes[one.Pass]
	h := s.config.joint(q)
	p := h.probabilities(r.Outputs[q.Heads[0]])
	mean := h.expectation(p)
	for k, choice := range one.Choices {
		with := *choice
		with.Pass = one.Pass
		out = append(out, &sequence{
			Sample: &with,
			joint:  true,
			weight: -float32(gradient[q.Heads[0]] * p[k] * (h.Values[k] - mean)), // of each -log softmax
		})
	}
	out[0].reading = r
	return out
}

// jointGradients runs choices forward and backward.
func (s *Scorer) jointGradients(ctx context.Context, all []*sequence) error {
	if len(all) == 0 {
		return nil
	}
	type shape struct{ length, selected, pixels int }
	pk := s.jointPacking()
	batches := batch.BatchesBy(len(all), func(i int) (shape, int) {
		sp, pixels := pk.Span(all[i].Sample, i), 0
		for _, p := range all[i].Pictures {
			pixels += len(p.Pixels)
		}
		limits := &s.net.Plan.Limits
		return shape{sp.Length, sp.Selected, pixels}, min(limits.Rows/sp.Length, limits.Pixels/max(pixels, 1))
	})
	return workers.Each(len(batches), s.net.Plan.Limits.Parallel, func(k int) error {
		part := batch.Pick(all, batches[k])
		samples := make([]*batch.Sample, len(part))
		for i, q := range part {
			samples[i] = q.Sample
		}
		p, err := pk.Pack(samples, s.net.Positions)
		if err != nil {
			return err
		}
		var weights []float32
		for place, i := range p.Order {
			weights = append(weights, 0)
			weights = append(weights, slices.Repeat([]float32{part[i].weight}, p.TargetCount(place)-1)...)
		}
		vision, done, err := s.run.Sessions.PixelFeeds(p.Pictures)
		if err != nil {
			return err
		}
		defer done()
		ses, err := s.run.Sessions.Session(s.jointGraph(true).With(s.net.Variant(p, true)))
		if err != nil {
			return err
		}
		loss := map[string]*tensor.Dense{nn.InTargetWeight: batch.Vector(weights)}
		out, err := s.run.Sessions.Run(ctx, ses, p.Feeds, vision, loss)
		if err != nil {
			return err
		}
		takeGradients(part, p.Order, out[ses.Grads[nn.InPixels]].Data().([]float32))
		return nil
	})
}

// takeGradients splits the gradient of a batch's pixel_values into its sequences' gradients.
func takeGradients(part []*sequence, order []int, values []float32) {
	for _, i := range order {
		n := 0
		for _, picture := range part[i].Pictures {
			n += len(picture.Pixels)
		}
		part[i].gradient, values = values[:n], values[n:]
	}
}

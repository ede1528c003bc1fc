package model

import (
	"context"
	"maps"

	"gorgonia.org/tensor"

	"assay/losses"
	"assay/model/batch"
	"assay/model/nn"
)

// termPrefix is the name prefix of the terms' own parameters, which are not part of a scorer.
const termPrefix = "losses."

// addTermTensors adds the terms' own parameters to the tensors that are trained.
func (s *Scorer) addTermTensors(terms []losses.Spec) {
	for i := range terms {
		for _, p := range losses.Parameters(i, &terms[i]) {
			values := make([]float32, len(p.Value))
			for k, v := range p.Value {
				values[k] = float32(v)
			}
			s.net.Tensors[p.Name] = batch.Vector(values)
		}
	}
}

// stepTerms is Step on the items of terms.
func (t *Tuner) stepTerms(ctx context.Context, samples []*batch.Sample, in StepInput) (*StepResult, error) {
	terms := make([][]float64, len(t.o.Terms))
	for k := range min(len(in.Items), len(terms)) {
		terms[k] = make([]float64, len(in.Items[k]))
	}
	r, err := t.inParts(samples, in.Items, in.Seed, func(part []int, seed uint64) (*StepResult, error) {
		items, places := itemsOf(in.Items, part)
		own := StepInput{Items: items, Weight: in.Weight, Seed: seed, Draws: in.Draws}
		one, err := t.termsPart(ctx, batch.Pick(samples, part), own)
		if err != nil {
			return nil, err
		}
		for k := range one.Terms {
			for j, v := range one.Terms[k] {
				terms[k][places[k][j]] = v
			}
		}
		return one, nil
	})
	if err != nil {
		return nil, err
	}
	r.Terms = terms
	return r, nil
}

// termsPart is stepTerms for samples of one run of the graph.
func (t *Tuner) termsPart(ctx context.Context, samples []*batch.Sample, in StepInput) (*StepResult, error) {
	rows := make([]*losses.Rows, len(t.o.Terms))
	out, p, s, err := t.step(ctx, samples, in.Seed, func(p *batch.Inputs) (map[string]*tensor.Dense, error) {
		return t.termFeeds(p, in, rows)
	})
	if err != nil {
		return nil, err
	}
	r := t.stepResult(len(samples), p, s, out)
	if err := t.readScores(samples, p, out, r); err != nil {
		return nil, err
	}
	r.Terms = make([][]float64, len(t.o.Terms))
	for k, term := range t.o.Terms {
		if rows[k] == nil {
			continue
		}
		r.Terms[k] = rows[k].Sum(widened(out[losses.Name(k, losses.Out)]), len(in.Items[k]))
		for j, it := range in.Items[k] {
			share := term.Factor() * it.Weight * r.Terms[k][j] / float64(len(it.Edits)) / in.Weight
			for _, e := range it.Edits {
				r.ScoreLoss[e] += share
			}
		}
	}
	for i := range samples {
		r.Loss[i] = t.o.TextLoss*r.CE[i] + r.ScoreLoss[i]
	}
	return r, nil
}

// termFeeds returns the inputs of all terms, and sets their rows.
func (t *Tuner) termFeeds(p *batch.Inputs, in StepInput, rows []*losses.Rows) (map[string]*tensor.Dense, error) {
	place := t.places(p)
	feeds := map[string]*tensor.Dense{}
	maps.Copy(feeds, t.passFeeds(p))
	if p.Targets != nil {
		feeds[nn.InTargetWeight] = p.TokenWeights(in.Weight)
	}
	for k, s := range t.o.Terms {
		if s.Over() == losses.Tokens {
			continue
		}
		head, err := t.config.lossHead(&s)
		if err != nil {
			return nil, err
		}
		own, r, err := losses.Feeds(k, s, head, in.Items[k], len(place),
			func(e int) int { return place[e] }, in.Draws)
		if err != nil {
			return nil, err
		}
		rows[k] = r
		maps.Copy(feeds, own)
	}
	return feeds, nil
}

func widened(t *tensor.Dense) []float64 {
	values := t.Data().([]float32)
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

package model

import (
	"context"
	"maps"

	"gorgonia.org/tensor"

	"assay/losses"
	"assay/model/batch"
	"assay/model/nn"
)

// termPrefix begins the names of the terms' own parameters, which are not part of a scorer.
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

// Compare runs one micro-batch of an objective of several terms (TuneOptions.Terms). items has the items of each term;
// their edits are indices into samples, and their weights those in the whole batch. weight is that of each sample's
// text loss, seed that of the dropout, draws that of the terms that draw. A sample's ScoreLoss is its share of the
// terms, divided by weight, so that the mean over a batch is their sum.
func (t *Tuner) Compare(
	ctx context.Context, samples []*batch.Sample, items [][]losses.Item, weight float64, seed, draws uint64,
) (*StepResult, error) {
	terms := make([][]float64, len(t.o.Terms))
	for k := range min(len(items), len(terms)) {
		terms[k] = make([]float64, len(items[k]))
	}
	r, err := t.inParts(samples, items, seed, func(part []int, seed uint64) (*StepResult, error) {
		own, places := itemsOf(items, part)
		one, err := t.comparePart(ctx, batch.Pick(samples, part), own, weight, seed, draws)
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

// comparePart is Compare over samples of one run of the graph.
func (t *Tuner) comparePart(
	ctx context.Context, samples []*batch.Sample, items [][]losses.Item, weight float64, seed, draws uint64,
) (*StepResult, error) {
	rows := make([]*losses.Rows, len(t.o.Terms))
	out, p, s, err := t.step(ctx, samples, seed, func(p *batch.Inputs) (map[string]*tensor.Dense, error) {
		return t.termFeeds(p, items, weight, draws, rows)
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
		r.Terms[k] = rows[k].Sum(widened(out[losses.Name(k, losses.Out)]), len(items[k]))
		for j, it := range items[k] {
			share := term.Factor() * it.Weight * r.Terms[k][j] / float64(len(it.Edits)) / weight
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

// termFeeds writes the inputs of all terms, and which rows they have.
func (t *Tuner) termFeeds(
	p *batch.Inputs, items [][]losses.Item, weight float64, draws uint64, rows []*losses.Rows,
) (map[string]*tensor.Dense, error) {
	place := t.places(p)
	feeds := map[string]*tensor.Dense{}
	maps.Copy(feeds, t.passFeeds(p))
	if p.Targets != nil {
		feeds[nn.InTargetWeight] = p.TokenWeights(weight)
	}
	for k, s := range t.o.Terms {
		if s.Over() == losses.Tokens {
			continue
		}
		head, err := t.config.lossHead(&s)
		if err != nil {
			return nil, err
		}
		in, r, err := losses.Feeds(k, s, head, items[k], len(place),
			func(e int) int { return place[e] }, draws)
		if err != nil {
			return nil, err
		}
		rows[k] = r
		for name, v := range in {
			feeds[name] = v
		}
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

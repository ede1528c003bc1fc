package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gorgonia.org/tensor"
)

// TuneOptions say what a Tuner trains and how.
type TuneOptions struct {
	Options
	Full      bool    // every weight of the backbone trains, not only adapter, head and score token
	TextLoss  float64 // weight of the cross-entropy over the answer
	ScoreLoss float64 // weight of the score's loss (on 0..1)
	Recompute bool    // recompute each layer in the backward pass
	Dropout   float64 // of the LoRA layers' inputs
	Fixed     bool    // one graph for all batches of the same number of samples: wanted where a second copy of the weights hurts (CUDA)
}

// Tuner trains a scorer: one graph that holds forward pass, loss and backward pass.
type Tuner struct {
	*engine
	o      TuneOptions
	params []Param // by name
}

// NewTuner makes a tuner of a scorer's parts. Their tensors are updated in place by whoever optimises them.
func NewTuner(p *ScorerState, o TuneOptions) (*Tuner, error) {
	e, err := openEngine(p, o.Options)
	if err != nil {
		return nil, err
	}
	if p := e.backbone.Decoder().Dropout; p > 0 {
		e.Close()
		return nil, fmt.Errorf("%s: config.json: attention_dropout %g is not supported in training: set it to 0 to train without", e.config.Backbone, p)
	}
	e.tuned, e.full = true, o.Full
	t := &Tuner{engine: e, o: o}
	if t.params, err = e.trainable(t.stepGraph(1)); err != nil {
		e.Close()
		return nil, err
	}
	return t, nil
}

// trainable builds a graph for the names of its parameters, which it returns sorted, and reads their values; the runtime sees
// the graph when training begins.
func (e *engine) trainable(name string, build func(g *Graph) (*built, error)) ([]Param, error) {
	b, err := e.built(name, build)
	if err == nil && !e.backbone.Weights.Absent() {
		err = e.readTrained(b.Params)
	}
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(b.Params), func(a, b Param) int { return strings.Compare(a.Name, b.Name) }), nil
}

// Params returns the trained tensors by name, in a fixed order.
func (t *Tuner) Params() (names []string, values []*tensor.Dense) { return t.values(t.params) }

// Shapes returns the shapes of the trained tensors by name; of a plan they are known without the values.
func (t *Tuner) Shapes() map[string][]int64 {
	out := make(map[string][]int64, len(t.params))
	for _, p := range t.params {
		out[p.Name] = p.Shape
	}
	return out
}

// stepGraph is the training step over that many groups of sequences.
func (t *Tuner) stepGraph(groups int) (name string, build func(g *Graph) (*built, error)) {
	spec := graphSpec{Vision: t.visionTrained(), Groups: groups, Loss: true, AllRows: t.config.TextLoss == "all", Recompute: t.o.Recompute,
		Dropout: t.o.Dropout > 0, TextLoss: t.o.TextLoss, ScoreLoss: t.o.ScoreLoss}
	return fmt.Sprintf("training step, %d groups", groups), func(g *Graph) (*built, error) {
		return buildGraph(g, t.backbone, &t.config.Head, spec)
	}
}

// StepResult holds per-sample losses in the order given, and the gradients of the weighted sum of losses by parameter.
type StepResult struct {
	Loss, CE, ScoreLoss, Score []float64
	Tokens                     int
	Grads                      map[string]*tensor.Dense
}

// Step runs one micro-batch: labels on 0..1, weight of each sample's loss, seed of the dropout.
func (t *Tuner) Step(ctx context.Context, samples []*Sample, labels []float64, weight float64, seed uint64) (*StepResult, error) {
	inGraph := t.visionTrained()
	if !inGraph {
		if _, err := t.see(ctx, samples); err != nil {
			return nil, err
		}
	}
	pk := t.packing()
	pk.loss, pk.separate = true, t.o.Fixed
	if t.few {
		pk.slack = fewSlack
	}
	p, err := pk.pack(samples, t.positions)
	if err != nil {
		return nil, err
	}
	s, err := t.session(t.stepGraph(p.groups))
	if err != nil {
		return nil, err
	}
	sight, err := t.sight(p, inGraph)
	if err != nil {
		return nil, err
	}
	out, err := t.run(ctx, s, p.feeds, sight, t.lossFeeds(p, labels, weight), t.dropoutFeeds(s, p.rows, seed))
	if err != nil {
		return nil, err
	}
	n := len(samples)
	r := &StepResult{Loss: make([]float64, n), CE: make([]float64, n), ScoreLoss: make([]float64, n), Score: make([]float64, n), Tokens: p.rows,
		Grads: map[string]*tensor.Dense{}}
	nll, score, scoreLoss := out[outNLL].Data().([]float32), out[outScore].Data().([]float32), out[outScoreLoss].Data().([]float32)
	at := 0
	for place, i := range p.order {
		for range p.targets[place] {
			r.CE[i] += float64(nll[at])
			at++
		}
		r.CE[i] /= float64(p.targets[place])
		r.Score[i], r.ScoreLoss[i] = float64(score[place]), float64(scoreLoss[place])
		r.Loss[i] = t.o.TextLoss*r.CE[i] + t.o.ScoreLoss*r.ScoreLoss[i]
	}
	for name, as := range s.Grads {
		r.Grads[name] = out[as]
	}
	return r, nil
}

// lossFeeds writes labels and weights: a sample's text loss is the mean over its targets.
func (t *Tuner) lossFeeds(p *packed, labels []float64, weight float64) map[string]*tensor.Dense {
	n, k := len(p.order), t.config.Head.Outputs()
	var tokens []float32
	each, label, class := make([]float32, n), make([]float32, n), make([]float32, n*k)
	for place, i := range p.order {
		each[place], label[place] = float32(weight), float32(labels[i])
		if t.config.Head.Classes() {
			class[place*k+t.config.Head.Class(labels[i])] = 1
		}
		for range p.targets[place] {
			tokens = append(tokens, float32(weight/float64(p.targets[place])))
		}
	}
	return map[string]*tensor.Dense{inTargetWeight: vector(tokens), inExampleWeight: vector(each), "label": vector(label),
		"label_class": tensor.New(tensor.WithShape(n, k), tensor.WithBacking(class))}
}

// dropoutFeeds draws the pool of factors, and where each LoRA layer begins in it.
func (t *Tuner) dropoutFeeds(s *session, rows int, seed uint64) map[string]*tensor.Dense {
	if t.o.Dropout == 0 || s.Sites == 0 {
		return nil
	}
	span := rows * s.Widest
	rng := rand.New(rand.NewPCG(seed, 0x5c0e))
	pool := make([]float32, 2*span)
	keep, threshold := float32(1/(1-t.o.Dropout)), uint64(t.o.Dropout*(1<<32))
	for i := 0; i+1 < len(pool); i += 2 {
		r := rng.Uint64()
		if r>>32 >= threshold {
			pool[i] = keep
		}
		if r&0xffffffff >= threshold {
			pool[i+1] = keep
		}
	}
	offsets := make([]int64, s.Sites)
	for i := range offsets {
		offsets[i] = rng.Int64N(int64(span) + 1)
	}
	return map[string]*tensor.Dense{"dropout_pool": vector(pool), "dropout_offsets": vector(offsets)}
}

// Score returns score01 of every sample with the tensors as they are now.
func (t *Tuner) Score(ctx context.Context, samples []*Sample) ([]float64, error) {
	scores, _, err := t.score(ctx, samples, false)
	return scores, err
}

// Hidden returns the state at the score token [hidden] of every sample.
func (t *Tuner) Hidden(ctx context.Context, samples []*Sample) ([][]float32, error) {
	_, states, err := t.score(ctx, samples, true)
	return states, err
}

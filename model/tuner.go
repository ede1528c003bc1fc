package model

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/losses"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// TuneOptions configure what a Tuner trains and how.
type TuneOptions struct {
	Options
	Full     bool    // every weight of the backbone trains, not only adapter, head and score token
	TextLoss float64 // weight of the cross-entropy over the answer

	// Trains reports whether a tensor trains: one of the scorer directory by its name there or, with Full, one of the
	// backbone by its key. nil: all.
	Trains    func(name string) bool
	ScoreLoss float64 // weight of the score's loss (on 0..1)

	// Terms are the objective instead of ScoreLoss: see StepInput.Items. TextLoss remains the weight of the text loss.
	Terms     []losses.Spec
	Recompute bool    // recompute each layer in the backward pass
	Dropout   float64 // of the LoRA layers' inputs
	Share     bool    // the common prefix of a step's samples, such as a group's edits, runs once
	Fixed     bool    // one graph for all batches: if a session has its own weights (CUDA)
	// Resident keeps parameters and gradient sums on the device: an optimizer step starts with Begin, its runs return
	// no gradients, and Sums returns the sums. It is for a device other than the host.
	Resident bool
}

// Tuner trains a scorer: one graph that holds forward pass, loss and backward pass.
type Tuner struct {
	*Scorer          // scores with the tensors as they are now
	*exec.Parameters // that train: the optimizer updates them in place
	o                TuneOptions
	groups           [][]*batch.Sample // groups of a plan: see PlanGroups
	largest          int               // edits of the largest group
	zeros            []byte            // features of pictures in these
}

// NewTuner opens a scorer for training.
func NewTuner(p *ScorerState, o TuneOptions) (*Tuner, error) {
	train := exec.TrainScorer
	if o.Full {
		train = exec.TrainBackbone
	}
	s, err := openScorer(p, exec.Plan{Training: train, Trains: o.Trains, Recompute: o.Recompute, Stages: true}, o.Options)
	if err != nil {
		return nil, err
	}
	if err := s.net.CheckDropout(); err != nil {
		s.Close()
		return nil, err
	}
	if s.config.TextLoss == "" && len(o.Terms) == 0 {
		s.Close()
		return nil, fmt.Errorf("a scorer of format 2 trains on losses: it has heads, but no text loss")
	}
	s.addTermTensors(o.Terms)
	if s.net.Plan.Kernels == nn.Fused { // one graph serves all batches as they are
		o.Fixed = false
	}
	t := &Tuner{Scorer: s, o: o}
	if t.Parameters, err = s.run.Sessions.Parameters(t.stepGraph(1), o.Resident); err != nil {
		s.Close()
		return nil, err
	}
	return t, nil
}

// stepGraph is the training step over that many groups of sequences.
func (t *Tuner) stepGraph(groups int) exec.Recipe {
	spec := stepSpec{
		BatchSpec: nn.BatchSpec{Groups: groups, All: t.config.TextLoss == "all", Vision: t.net.VisionTrained()},
		Recompute: t.o.Recompute,
		Dropout:   t.o.Dropout,
		TextLoss:  t.o.TextLoss,
		ScoreLoss: t.o.ScoreLoss,
		Terms:     t.o.Terms,
		Sums:      t.o.Resident,
	}
	if t.net.Plan.Kernels == nn.Fused { // groups are data
		groups = 1
	}
	name := fmt.Sprintf("training step, %d groups", groups)
	return exec.Recipe{Name: name, Build: func(g *nn.Graph) (b *nn.Program, err error) {
		if b, err = t.buildStep(g, spec); err == nil {
			b.Packed = t.stepPacks(g, groups)
		}
		return b, err
	}}
}

// StepInput is what a micro-batch learns from.
type StepInput struct {
	Labels []float64 // 0..1, of each sample, if there are no terms
	// Items are the items of each of TuneOptions.Terms: edits are indices into the samples, weights are those in the
	// mean over the whole batch.
	Items  [][]losses.Item
	Weight float64 // of each sample's loss; with Items, of its text loss
	Seed   uint64  // of the dropout
	Draws  uint64  // seed of the terms that draw
}

// StepResult holds per-sample losses in the order given, and the gradients of the weighted sum of losses by parameter.
// CE is the mean over a sample's text targets, times its share.
type StepResult struct {
	Loss, CE, ScoreLoss, Score []float64
	Tokens                     int
	Grads                      map[string]*tensor.Dense
	Terms                      [][]float64 // by term of the objective: the losses of its items
}

// Step runs one micro-batch. With terms a sample's ScoreLoss is its share of them, divided by the weight, so that the
// mean over a batch is their sum.
func (t *Tuner) Step(ctx context.Context, samples []*batch.Sample, in StepInput) (*StepResult, error) {
	if len(t.o.Terms) > 0 {
		return t.stepTerms(ctx, samples, in)
	}
	return t.inParts(samples, nil, in.Seed, func(part []int, seed uint64) (*StepResult, error) {
		return t.labelsPart(ctx, batch.Pick(samples, part), batch.Pick(in.Labels, part), in.Weight, seed)
	})
}

// Stage uploads the features of the next Step's samples to a GPU, while another Step runs there.
func (t *Tuner) Stage(samples []*batch.Sample) {
	if !t.net.Stages() {
		return
	}
	if p, err := t.stepPacking().Pack(t.stepSequences(samples), t.net.Positions); err == nil {
		t.run.Sessions.Stage(p)
	}
}

// Targets is the number of tokens in a sample's text loss.
func (t *Tuner) Targets(s *batch.Sample) int { return t.stepPacking().Span(s, 0).Predicted }

// CountTargets is Targets of the sample that Sample would build from an edit. With text_loss: all, pictures count as
// tokens of the text loss, and are prepared if their number of tokens is not cached.
func (t *Tuner) CountTargets(e *edit.Edit, a Ask) (int, error) {
	if t.config.TextLoss == "" {
		return 0, nil
	}
	q := &t.config.Passes[0]
	counts := t.config.onePerPicture(q, len(e.Sources))
	if t.stepPacking().All {
		if counts = t.prepare.Pictures.Tokens(t.config.cacheKey(e, q)); counts == nil {
			decode := func() (shownPictures, error) { return t.config.decode(e) }
			pictures, err := t.prepare.passPictures(e, a, q, decode)
			if err != nil {
				return 0, err
			}
			counts = backbone.PictureTokens(pictures)
		}
	}
	tokens, err := t.prepare.passTokens(q, e, a, counts)
	if err != nil {
		return 0, err
	}
	return t.Targets(&batch.Sample{Tokens: tokens}), nil
}

// labelsPart is Step on labels, for samples of one run of the graph.
func (t *Tuner) labelsPart(
	ctx context.Context, samples []*batch.Sample, labels []float64, weight float64, seed uint64,
) (*StepResult, error) {
	out, p, s, err := t.step(ctx, samples, seed, func(p *batch.Inputs) (map[string]*tensor.Dense, error) {
		return t.lossFeeds(p, labels, weight), nil
	})
	if err != nil {
		return nil, err
	}
	r := t.stepResult(len(samples), p, s, out)
	for place, i := range p.Order {
		r.ScoreLoss[i] = float64(out[outScoreLoss].Data().([]float32)[place])
		r.Loss[i] = t.o.TextLoss*r.CE[i] + t.o.ScoreLoss*r.ScoreLoss[i]
	}
	return r, nil
}

// step runs the training graph over packed samples; feeds returns the inputs of the loss.
func (t *Tuner) step(
	ctx context.Context, samples []*batch.Sample, seed uint64,
	feeds func(p *batch.Inputs) (map[string]*tensor.Dense, error),
) (out map[string]*tensor.Dense, p *batch.Inputs, s *exec.Session, err error) {
	samples = t.stepSequences(samples)
	if err := t.run.Fill(ctx, samples); err != nil {
		return nil, nil, nil, err
	}
	if p, err = t.stepPacking().Pack(samples, t.net.Positions); err != nil {
		return nil, nil, nil, err
	}
	graph := t.stepGraph(p.Groups).With(t.net.Variant(p, t.net.VisionTrained()))
	if s, err = t.run.Sessions.Session(graph); err != nil {
		return nil, nil, nil, err
	}
	vision, on, done, err := t.run.Sessions.StepFeeds(p)
	if err != nil {
		return nil, nil, nil, err
	}
	defer done()
	loss, err := feeds(p)
	if err != nil {
		return nil, nil, nil, err
	}
	out, err = t.run.Sessions.RunOn(ctx, s, on, p.Feeds, vision, loss, exec.DropoutFeeds(t.o.Dropout, s, p.Rows, seed))
	return out, p, s, err
}

// stepPacking returns how samples are packed for a step.
func (t *Tuner) stepPacking() batch.Packer {
	pk := t.net.Packer
	pk.Loss, pk.Even, pk.Step = t.config.TextLoss != "", t.o.Fixed, true
	if t.o.Share {
		pk.Share = batch.MinShared
	}
	if t.net.Plan.Small {
		pk.Slack = batch.SmallSlack
	}
	return pk
}

// stepResult restores the outputs of a packed batch to the order of n samples; the caller fills in the losses.
func (t *Tuner) stepResult(n int, p *batch.Inputs, s *exec.Session, out map[string]*tensor.Dense) *StepResult {
	r := &StepResult{
		Loss:      make([]float64, n),
		CE:        make([]float64, n),
		ScoreLoss: make([]float64, n),
		Score:     make([]float64, n),
		Tokens:    p.Rows,
		Grads:     s.Gradients(out),
	}
	if t.config.TextLoss == "" {
		return r
	}
	values := func(name string) []float32 { return out[name].Data().([]float32) }
	nll, score := values(nn.OutNLL), values(outScore)
	for place, i := range p.Order {
		for _, s := range p.Targets[place] {
			for _, v := range nll[s.First : s.First+s.N] {
				r.CE[i] += float64(v)
			}
		}
		r.CE[i] = p.Shares[place] * r.CE[i] / float64(p.TargetCount(place))
		r.Score[i] = float64(score[place])
	}
	return r
}

// lossFeeds returns labels and weights as inputs.
func (t *Tuner) lossFeeds(p *batch.Inputs, labels []float64, weight float64) map[string]*tensor.Dense {
	head := t.config.Heads[""]
	n, k := len(p.Order), head.width()
	each, label, class := make([]float32, n), make([]float32, n), make([]float32, n*k)
	for place, i := range p.Order {
		each[place], label[place] = float32(weight), float32(labels[i])
		if head.Outputs == OutputClasses {
			class[place*k+losses.Nearest(head.Values, labels[i])] = 1
		}
	}
	return map[string]*tensor.Dense{
		nn.InTargetWeight: p.TokenWeights(weight),
		inExampleWeight:   batch.Vector(each),
		"label":           batch.Vector(label),
		"label_class":     tensor.New(tensor.WithShape(n, k), tensor.WithBacking(class)),
	}
}

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

// TuneOptions say what a Tuner trains and how.
type TuneOptions struct {
	Options
	Full     bool    // every weight of the backbone trains, not only adapter, head and score token
	TextLoss float64 // weight of the cross-entropy over the answer

	// Trains tells, of the tensors of the scorer directory by their names there and, with Full, of the backbone's by their
	// keys, which ones train. nil: all.
	Trains    func(name string) bool
	ScoreLoss float64 // weight of the score's loss (on 0..1)

	// Terms are the objective instead of ScoreLoss: see Tuner.Compare. TextLoss stays the weight of the text.
	Terms     []losses.Spec
	Recompute bool    // recompute each layer in the backward pass
	Dropout   float64 // of the LoRA layers' inputs
	Share     bool    // what the samples of a step begin with runs once, as the edits of a group do
	Fixed     bool    // one graph for all batches: where a session has its own weights (CUDA)
	// Resident keeps parameters and the sums of gradients on the device: a step of the optimizer begins with Begin, its
	// runs have no gradients, and Sums gives the sums. It is for a device that is not the host.
	Resident bool
}

// Tuner trains a scorer: one graph that holds forward pass, loss and backward pass.
type Tuner struct {
	scorer  *Scorer
	o       TuneOptions
	params  []nn.Param        // by name
	groups  [][]*batch.Sample // that a plan is over: see PlanGroups
	largest int               // edits of the largest group
	zeros   []float32         // features of pictures in these
}

// NewTuner opens a scorer for training. Its tensors are updated in place by whoever optimises them.
func NewTuner(p *ScorerState, o TuneOptions) (*Tuner, error) {
	train := exec.TrainScorer
	if o.Full {
		train = exec.TrainBackbone
	}
	s, err := openScorer(p, exec.Plan{Training: train, Trains: o.Trains, Recompute: o.Recompute}, o.Options)
	if err != nil {
		return nil, err
	}
	if rate := s.net.Backbone.Decoder().Dropout; rate > 0 {
		s.Close()
		return nil, fmt.Errorf(
			"%s: config.json: attention_dropout %g is not supported in training: set it to 0 to train without",
			p.Config.Backbone, rate)
	}
	if s.config.TextLoss == "" && len(o.Terms) == 0 {
		s.Close()
		return nil, fmt.Errorf("a scorer of format 2 trains on losses: it has heads, and no text of its own")
	}
	s.addTermTensors(o.Terms)
	t := &Tuner{scorer: s, o: o}
	if t.params, err = s.run.Sessions.Trainable(t.stepGraph(1)); err != nil {
		s.Close()
		return nil, err
	}
	if o.Resident {
		s.run.Sessions.Resident = exec.NewResidence(t.params)
	}
	return t, nil
}

// Params returns the trained tensors by name, in a fixed order.
func (t *Tuner) Params() (names []string, values []*tensor.Dense) {
	return t.scorer.run.Sessions.Values(t.params)
}

// Shapes returns the shapes of the trained tensors by name; of a plan they are known without the values.
func (t *Tuner) Shapes() map[string][]int64 { return exec.ShapesByName(t.params) }

// stepGraph is the training step over that many groups of sequences.
func (t *Tuner) stepGraph(groups int) exec.Recipe {
	spec := stepSpec{
		BatchSpec: nn.BatchSpec{Groups: groups, All: t.scorer.config.TextLoss == "all", Vision: t.scorer.net.VisionTrained()},
		Recompute: t.o.Recompute,
		Dropout:   t.o.Dropout > 0,
		TextLoss:  t.o.TextLoss,
		ScoreLoss: t.o.ScoreLoss,
		Terms:     t.o.Terms,
		Sums:      t.o.Resident,
	}
	name := fmt.Sprintf("training step, %d groups", groups)
	return exec.Recipe{Name: name, Build: func(g *nn.Graph) (b *nn.Program, err error) {
		if b, err = t.scorer.buildStep(g, spec); err == nil {
			b.Packed = t.stepPacks(g, groups)
		}
		return b, err
	}}
}

// StepResult holds per-sample losses in the order given, and the gradients of the weighted sum of losses by parameter.
// CE is the mean over a sample's text targets, times its share.
type StepResult struct {
	Loss, CE, ScoreLoss, Score []float64
	Tokens                     int
	Grads                      map[string]*tensor.Dense
	Terms                      [][]float64 // of each term of the objective the losses of its items; see Tuner.Compare
}

// Step runs one micro-batch: labels on 0..1, weight of each sample's loss, seed of the dropout.
func (t *Tuner) Step(
	ctx context.Context,
	samples []*batch.Sample,
	labels []float64,
	weight float64,
	seed uint64,
) (*StepResult, error) {
	return t.inParts(samples, nil, seed, func(part []int, seed uint64) (*StepResult, error) {
		return t.stepPart(ctx, batch.Pick(samples, part), batch.Pick(labels, part), weight, seed)
	})
}

// Targets is the number of tokens that a sample's text loss is over.
func (t *Tuner) Targets(s *batch.Sample) int { return t.stepPacking().Span(s, 0).Predicted }

// CountTargets is Targets of the sample that Sample would make of an edit. Pictures, which are tokens of the text loss
// with text_loss: all, are prepared if it is not known how many tokens they are.
func (t *Tuner) CountTargets(e *edit.Edit, a Ask) (int, error) {
	if t.scorer.config.TextLoss == "" {
		return 0, nil
	}
	q := &t.scorer.config.Passes[0]
	counts := q.onePerPicture()
	if t.stepPacking().All {
		if counts = t.scorer.prepare.Pictures.Tokens(t.scorer.config.cacheKey(e, q)); counts == nil {
			decode := func() (shownPictures, error) { return t.scorer.config.decode(e) }
			pictures, err := t.scorer.prepare.passPictures(e, a, q, decode)
			if err != nil {
				return 0, err
			}
			counts = backbone.PictureTokens(pictures)
		}
	}
	tokens, err := t.scorer.prepare.passTokens(q, e, a, counts)
	if err != nil {
		return 0, err
	}
	return t.Targets(&batch.Sample{Tokens: tokens}), nil
}

// stepPart is Step over samples of one run of the graph.
func (t *Tuner) stepPart(
	ctx context.Context,
	samples []*batch.Sample,
	labels []float64,
	weight float64,
	seed uint64,
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

// step runs the training graph over packed samples; feeds gives what it learns from.
func (t *Tuner) step(
	ctx context.Context,
	samples []*batch.Sample,
	seed uint64,
	feeds func(p *batch.Inputs) (map[string]*tensor.Dense, error),
) (out map[string]*tensor.Dense, p *batch.Inputs, s *exec.Session, err error) {
	samples = t.stepSequences(samples)
	if !t.scorer.net.VisionTrained() {
		if _, err := t.scorer.run.Features.Fill(ctx, samples); err != nil {
			return nil, nil, nil, err
		}
	}
	if p, err = t.stepPacking().Pack(samples, t.scorer.net.Positions); err != nil {
		return nil, nil, nil, err
	}
	graph := t.stepGraph(p.Groups).With(t.scorer.net.Variant(p, t.scorer.net.VisionTrained()))
	if s, err = t.scorer.run.Sessions.Session(graph); err != nil {
		return nil, nil, nil, err
	}
	vision, err := t.scorer.net.VisionFeeds(p)
	if err != nil {
		return nil, nil, nil, err
	}
	targets, err := feeds(p)
	if err != nil {
		return nil, nil, nil, err
	}
	out, err = t.scorer.run.Sessions.Run(ctx, s, p.Feeds, vision, targets, exec.DropoutFeeds(t.o.Dropout, s, p.Rows, seed))
	return out, p, s, err
}

// stepPacking says how samples are packed for a step.
func (t *Tuner) stepPacking() batch.Packer {
	pk := t.scorer.net.Packer
	pk.Loss, pk.Even, pk.Step = t.scorer.config.TextLoss != "", t.o.Fixed, true
	if t.o.Share {
		pk.Share = batch.LeastShared
	}
	if t.scorer.net.Plan.Small {
		pk.Slack = batch.SmallSlack
	}
	return pk
}

// stepResult puts the outputs of a packed batch back into the order of n samples; the losses are the caller's.
func (t *Tuner) stepResult(n int, p *batch.Inputs, s *exec.Session, out map[string]*tensor.Dense) *StepResult {
	r := &StepResult{
		Loss:      make([]float64, n),
		CE:        make([]float64, n),
		ScoreLoss: make([]float64, n),
		Score:     make([]float64, n),
		Tokens:    p.Rows,
		Grads:     map[string]*tensor.Dense{},
	}
	for name, as := range s.Grads {
		r.Grads[name] = out[as]
	}
	if t.scorer.config.TextLoss == "" {
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

// lossFeeds writes labels and weights.
func (t *Tuner) lossFeeds(p *batch.Inputs, labels []float64, weight float64) map[string]*tensor.Dense {
	head := t.scorer.config.Heads[""]
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

// Scorer scores with the tensors as they are now. It is closed with the Tuner.
func (t *Tuner) Scorer() *Scorer { return t.scorer }

// Close frees sessions, tokenizer and weights.
func (t *Tuner) Close() error { return t.scorer.Close() }

// Sample is [Scorer.Sample].
func (t *Tuner) Sample(e *edit.Edit, a Ask) (*batch.Sample, error) { return t.scorer.Sample(e, a) }

// CheckText is [Scorer.CheckText].
func (t *Tuner) CheckText(e *edit.Edit, a Ask) error { return t.scorer.CheckText(e, a) }

// SaveScorer is [Scorer.SaveScorer].
func (t *Tuner) SaveScorer(dir string) error { return t.scorer.SaveScorer(dir) }

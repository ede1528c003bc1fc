package language

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// Answer is a generated answer after its prompt, with the data of its loss. See [nn.Policy].
type Answer struct {
	*batch.Sample           // prompt and answer; the answer starts at AnswerStart
	Advantage     float64   // of the answer over others to the same prompt
	Weight        float64   // of each of its tokens in the loss
	Old           []float64 // log-probability of each token under the model that generated it; nil: the current model
	Base          []float64 // the same under the model without its adapter; nil: not used
}

// Model is the model in training, with its current parameters: it generates the answers that it is trained on. Closing
// it does nothing. If parameters stay on the device, they are those of the last Begin.
func (t *Tuner) Model() *Model {
	return &Model{net: t.net, processor: t.processor, run: t.run, training: true}
}

// Question turns the messages before an answer into a sequence, as [Model.Prompt] does, with pictures as in Prepare.
func (t *Tuner) Question(c Conversation) (*batch.Sample, error) {
	s := &batch.Sample{}
	turns, counts, err := t.addPictures(s, c)
	if err != nil {
		return nil, err
	}
	prompt, err := t.processor.Text.Chat(turns)
	if err != nil {
		return nil, err
	}
	s.Tokens, err = t.processor.Text.EncodePrompt(prompt, "", t.net.Backbone.Placeholder(), counts)
	if err != nil {
		return nil, err
	}
	if _, err := t.processor.WordTokens(len(s.IDs), counts, "prompt"); err != nil {
		return nil, err
	}
	return s, t.net.CheckPositions(s, 0)
}

// Answered is a prompt followed by the tokens of an answer. Everything before the prompt's last two tokens runs once
// for all answers to it; these two run with each answer, so that no answer's part of the sequence is a single row.
func Answered(prompt *batch.Sample, ids []int64) *batch.Sample {
	s := *prompt
	s.IDs = slices.Concat(prompt.IDs, ids)
	s.AnswerStart, s.ScoreIndex = len(prompt.IDs), len(prompt.IDs)-1
	s.Common = max(0, len(prompt.IDs)-2)
	return &s
}

// policyPass describes a pass over answers.
type policyPass struct {
	nn.Policy
	Groups   int
	Vision   bool
	Backward bool
	Base     bool // without the adapter
}

// policyGraph assembles embedding, vision tower, decoder, and the log-probabilities of the answers' tokens, with the
// loss and its gradients if the pass is a step.
func (t *Tuner) policyGraph(s policyPass, p *batch.Inputs) exec.Recipe {
	groups := s.Groups
	if t.net.Plan.Kernels == nn.Fused { // groups are data
		s.Groups = 1
	}
	r := exec.Recipe{Name: fmt.Sprintf("answers %+v", s), Build: func(g *nn.Graph) (*nn.Program, error) {
		if s.Base {
			g.Adapter = nil
		}
		if s.Backward && t.o.Dropout > 0 {
			g.UseDropout(t.o.Dropout)
		}
		h, keys := g.Decode(t.net.Backbone, nn.BatchSpec{Groups: groups, Vision: s.Vision}, nil), t.net.Backbone.Keys()
		if !s.Backward {
			g.LogProbs(keys, h, s.Temperature, false)
			return g.Finish()
		}
		g.PolicyLoss(keys, h, s.Policy)
		out, err := g.Finish()
		if err != nil {
			return nil, err
		}
		return out, g.Differentiate(out, t.o.Recompute, t.o.Resident)
	}}
	v := t.net.Variant(p, s.Vision)
	v.Chunks = t.net.InChunks(p.AllTargets(), true)
	return r.With(v)
}

// packAnswers lays out answers to one prompt after it: one group for the prompt and one for the answers.
func (t *Tuner) packAnswers(samples []*batch.Sample) (*batch.Inputs, error) {
	pk := batch.Packer{Vocab: int64(t.net.Backbone.Decoder().Vocab), Table: true, Loss: true, Even: true,
		Share: batch.MinShared, Step: true}
	return pk.Pack(samples, t.net.Positions)
}

// answersRun is the result of a pass over answers.
type answersRun struct {
	logProbs [][]float64 // of each answer's tokens
	inputs   *batch.Inputs
	session  *exec.Session
	out      map[string]*tensor.Dense
}

// runAnswers runs a pass over answers to one prompt. fill, which may be nil, adds inputs.
func (t *Tuner) runAnswers(
	ctx context.Context, samples []*batch.Sample, s policyPass, seed uint64, fill func(*batch.Inputs),
) (*answersRun, error) {
	if err := t.run.Fill(ctx, samples); err != nil {
		return nil, err
	}
	p, err := t.packAnswers(samples)
	if err != nil {
		return nil, err
	}
	if fill != nil {
		fill(p)
	}
	s.Groups, s.Vision = p.Groups, t.pixels(p)
	session, out, err := t.runPacked(ctx, t.policyGraph(s, p), p, seed)
	if err != nil {
		return nil, err
	}
	r := &answersRun{make([][]float64, len(samples)), p, session, out}
	nll := out[nn.OutNLL].Data().([]float32)
	for place, i := range p.Order {
		part := p.Targets[place][0]
		for _, v := range nll[part.First : part.First+part.N] {
			r.logProbs[i] = append(r.logProbs[i], -float64(v))
		}
	}
	return r, nil
}

// LogProbs returns the log-probabilities of the tokens of answers to one prompt at a temperature; with base, under the
// model without its adapter.
func (t *Tuner) LogProbs(
	ctx context.Context, samples []*batch.Sample, temperature float64, base bool,
) ([][]float64, error) {
	if base && t.net.Adapter == nil {
		return nil, fmt.Errorf("%s has no adapter to disable", t.net.Backbone.Dir)
	}
	r, err := t.runAnswers(ctx, samples, policyPass{Policy: nn.Policy{Temperature: temperature}, Base: base}, 0, nil)
	if err != nil {
		return nil, err
	}
	return r.logProbs, nil
}

// AnswersResult is the result of a step over answers to one prompt.
type AnswersResult struct {
	LogProbs [][]float64 // of each answer's tokens
	Tokens   int
	Grads    map[string]*tensor.Dense
}

// StepAnswers runs the forward and backward pass over answers to one prompt. Old is used unless the policy is OnPolicy,
// and Base unless its Beta is 0.
func (t *Tuner) StepAnswers(
	ctx context.Context, answers []Answer, policy nn.Policy, seed uint64,
) (*AnswersResult, error) {
	samples := make([]*batch.Sample, len(answers))
	for i := range answers {
		samples[i] = answers[i].Sample
	}
	run, err := t.runAnswers(ctx, samples, policyPass{Policy: policy, Backward: true}, seed,
		func(p *batch.Inputs) { fillPolicy(p, answers, policy) })
	if err != nil {
		return nil, err
	}
	return &AnswersResult{run.logProbs, run.inputs.Rows, t.gradients(run.session, run.out)}, nil
}

// fillPolicy writes each target's advantage, weight and log-probabilities in the order of the packed batch.
func fillPolicy(p *batch.Inputs, answers []Answer, policy nn.Policy) {
	n := p.Feeds[nn.InTargets].DataSize()
	advantage, weight, old, base := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	for place, i := range p.Order {
		a, part := &answers[i], p.Targets[place][0]
		for k := range part.N {
			at := part.First + k
			advantage[at], weight[at] = float32(a.Advantage), float32(a.Weight)
			if !policy.OnPolicy {
				old[at] = float32(a.Old[k])
			}
			if policy.Beta != 0 {
				base[at] = float32(a.Base[k])
			}
		}
	}
	p.Feeds[nn.InAdvantage], p.Feeds[nn.InTargetWeight] = batch.Vector(advantage), batch.Vector(weight)
	if !policy.OnPolicy {
		p.Feeds[nn.InOldLogP] = batch.Vector(old)
	}
	if policy.Beta != 0 {
		p.Feeds[nn.InBaseLogP] = batch.Vector(base)
	}
}

// AnswersUsage describes a run over answers for [Tuner.AnswersUsage].
type AnswersUsage struct {
	nn.Policy
	Longest  int // maximum tokens of an answer
	Together int // answers generated at a time
	Pictures int // of all rows
}

// AnswersUsage estimates the memory of generating answers to a prompt and of training on micro of them at a time.
func (t *Tuner) AnswersUsage(prompt *batch.Sample, micro int, o AnswersUsage) (exec.Usage, error) {
	u := t.net.Counts(t.List)
	answer := Answered(t.net.WithFeatures(prompt), make([]int64, o.Longest))
	peak := func(s policyPass) func(*batch.Sample, int) (int64, error) {
		return func(_ *batch.Sample, n int) (int64, error) { return t.answersPeak(answer, n, s) }
	}
	l := t.Model()
	peaks := exec.Peaks{
		"training step":     peak(policyPass{Policy: o.Policy, Backward: true}),
		"runs over prompts": func(*batch.Sample, int) (int64, error) { return l.promptPeak() },
	}
	if o.Beta != 0 || !o.OnPolicy {
		peaks["log-probabilities"] = peak(policyPass{Policy: nn.Policy{Temperature: o.Temperature}})
	}
	if len(prompt.Pictures) > 0 && !t.net.VisionTrained() {
		peaks["vision tower"] = t.run.VisionPeak
	}
	if err := t.run.AddTraining(&u, t.List, answer, micro, o.Pictures, peaks); err != nil {
		return u, err
	}
	u.Bytes["keys and values"] = int64(o.Together) * int64(len(prompt.IDs)+o.Longest+64) * l.RowBytes()
	return u, nil
}

// answersPeak is the peak memory of a pass over copies of an answer.
func (t *Tuner) answersPeak(answer *batch.Sample, micro int, s policyPass) (int64, error) {
	answers := make([]Answer, micro)
	samples := make([]*batch.Sample, micro)
	for i := range samples {
		n := len(answer.IDs) - answer.AnswerStart
		answers[i] = Answer{Old: make([]float64, n), Base: make([]float64, n)}
		samples[i] = answer
	}
	p, err := t.packAnswers(samples)
	if err != nil {
		return 0, err
	}
	if s.Backward {
		fillPolicy(p, answers, s.Policy)
	}
	s.Groups, s.Vision = p.Groups, t.pixels(p)
	return t.run.StepPeak(t.policyGraph(s, p), p)
}

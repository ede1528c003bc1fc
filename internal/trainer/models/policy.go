package models

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"

	"gorgonia.org/tensor"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/generate"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/rewards"
	"assay/internal/workers"
	"assay/model"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/language"
	"assay/model/nn"
)

// Policy is a model that learns from rewards of its own answers.
type Policy interface {
	// Complete answers the prompts for which mine is true, and computes the rewards. The answers are a function of
	// the parameters, the seed, the step and the row.
	Complete(ctx context.Context, prompts []dataset.Example, mine func(i int) bool, step int64) (Completions, error)
	// LogProbs fills in the reference log-probabilities of the answers' tokens: of the model without its adapter, if
	// the loss has a KL term, and of the current model, if several steps learn from the same answers. At most micro
	// answers run together.
	LogProbs(ctx context.Context, prompts []dataset.Example, mine func(i int) bool, answers Completions, micro int) error
}

// Completions are the answers to prompts, by the index of the prompt in its batch.
type Completions map[int][]dataset.Completion

// policyModel is a textModel that learns from rewards.
type policyModel struct {
	*textModel
	reward *rewards.Reward
}

// openPolicy wraps the model of mode text for objective grpo.
func openPolicy(m *textModel) (*policyModel, error) {
	p := &policyModel{textModel: m}
	judges := func(name string) (edit.Judge, error) { return model.OpenScorer(name, modelOptions(m.config, nil)) }
	if m.plan {
		judges = func(string) (edit.Judge, error) { return nil, nil } // nothing is scored
	}
	var err error
	if p.reward, err = rewards.Open(m.config.GRPO.Rewards, judges); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return p, nil
}

// Close frees the model and the judges.
func (m *policyModel) Close() error {
	if m.plan {
		return m.textModel.Close()
	}
	return errors.Join(m.reward.Close(), m.textModel.Close())
}

// Fingerprint identifies the backbone and what the rewards depend on.
func (m *policyModel) Fingerprint() map[string]string {
	out := m.textModel.Fingerprint()
	maps.Copy(out, m.reward.Fingerprint())
	return out
}

// Targets returns 0: no tokens of the rows are learned.
func (m *policyModel) Targets(*dataset.Example) (int, error) { return 0, nil }

// question returns the prompt of an example, tokenized for training.
func (m *policyModel) question(e *dataset.Example) (*batch.Sample, error) {
	prompt := *e.Conversation
	prompt.Messages = prompt.Prompt()
	c := language.Conversation{Messages: turns(&prompt)}
	for i := range e.Conversation.Pictures {
		c.Pictures = append(c.Pictures, conversationPicture{e.Conversation.Picture(i)})
	}
	s, err := m.tuner.Question(c)
	if err != nil {
		return nil, err
	}
	n, most := len(s.IDs)+m.config.GRPO.MaxCompletionLength, m.config.Text.MaxTokens
	if most > 0 && n > most {
		return nil, fmt.Errorf("the prompt has %d tokens, and an answer up to %d (grpo.max_completion_length); "+
			"text.max_tokens is %d", len(s.IDs), m.config.GRPO.MaxCompletionLength, most)
	}
	return s, nil
}

// asked returns the messages of an example's prompt with its decoded pictures, in the form that generation takes.
func asked(e *dataset.Example) (messages []chat.Message, pictures []*data.Picture, err error) {
	for i := range e.Conversation.Pictures {
		p, err := e.Conversation.Picture(i).Decode()
		if err != nil {
			return nil, nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		pictures = append(pictures, p)
	}
	next := 0
	for _, m := range e.Conversation.Prompt() {
		shown := chat.Message{Role: m.Role}
		for _, part := range m.Content {
			if part.Image != nil {
				part.Image = pictures[next]
				next++
			}
			shown.Content = append(shown.Content, part)
		}
		messages = append(messages, shown)
	}
	return messages, pictures, nil
}

// Complete implements [Policy]. The answers to all prompts are generated together.
func (m *policyModel) Complete(
	ctx context.Context, examples []dataset.Example, mine func(i int) bool, step int64,
) (Completions, error) {
	g := m.config.GRPO
	o := chat.Options{MaxNewTokens: g.MaxCompletionLength, Temperature: &g.Temperature, TopP: &g.TopP, TopK: &g.TopK}
	return m.answer(ctx, examples, mine, o, g.NumGenerations, func(e *dataset.Example) uint64 {
		return dataset.Mix(m.config.Seed, dataset.ForCompletions, uint64(step), uint64(e.Index), uint64(e.Unit))
	})
}

// LogProbs implements [Policy]. They are computed by the training graph, not by the generation code.
func (m *policyModel) LogProbs(
	ctx context.Context, examples []dataset.Example, mine func(i int) bool, answers Completions, micro int,
) error {
	g := m.config.GRPO
	for i := range examples {
		group := answers[examples[i].Unit]
		if !mine(i) || g.Beta == 0 && g.NumIterations == 1 {
			continue
		}
		prompt, err := m.question(&examples[i])
		if err != nil {
			return fmt.Errorf("%s: %w", examples[i].Edit.ID, err)
		}
		if g.Beta != 0 {
			err = m.logProbs(ctx, prompt, group, micro, true, func(c *dataset.Completion, p []float64) { c.Base = p })
		}
		if err == nil && g.NumIterations > 1 {
			err = m.logProbs(ctx, prompt, group, micro, false, func(c *dataset.Completion, p []float64) { c.Old = p })
		}
		if err != nil {
			return fmt.Errorf("the answers to %s: %w", examples[i].Edit.ID, err)
		}
	}
	return nil
}

// logProbs computes the log-probabilities of the tokens of a group's answers, micro at a time.
func (m *policyModel) logProbs(
	ctx context.Context, prompt *batch.Sample, group []dataset.Completion, micro int, base bool,
	keep func(*dataset.Completion, []float64),
) error {
	for lo := 0; lo < len(group); lo += micro {
		part := group[lo:min(lo+micro, len(group))]
		samples := make([]*batch.Sample, len(part))
		for i := range part {
			samples[i] = language.Answered(prompt, part[i].IDs)
		}
		all, err := m.tuner.LogProbs(ctx, samples, m.config.GRPO.Temperature, base)
		if err != nil {
			return err
		}
		for i := range part {
			keep(&part[i], all[i])
		}
	}
	return nil
}

// answer samples n answers to each prompt from the current model, and computes the rewards.
func (m *policyModel) answer(
	ctx context.Context, examples []dataset.Example, mine func(i int) bool, o chat.Options, n int,
	seed func(*dataset.Example) uint64,
) (Completions, error) {
	one := 1.0 // as in the loss, whatever the checkpoint's generation_config.json says
	o.RepetitionPenalty = &one
	lm, err := generate.Over(m.tuner.Model(), generate.Options{Batch: m.config.GRPO.GenerationBatchSize})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	out := Completions{}
	err = workers.Each(len(examples), len(examples), func(i int) error {
		if !mine(i) {
			return nil
		}
		e := &examples[i]
		group, err := m.group(ctx, lm, e, o, n, seed(e))
		if err != nil {
			return fmt.Errorf("answering %s: %w", e.Edit.ID, err)
		}
		mu.Lock()
		defer mu.Unlock()
		out[e.Unit] = group
		return nil
	})
	return out, errors.Join(err, lm.Close())
}

// group returns n answers to the prompt of one example.
func (m *policyModel) group(
	ctx context.Context, lm *generate.Model, e *dataset.Example, o chat.Options, n int, seed uint64,
) ([]dataset.Completion, error) {
	messages, pictures, err := asked(e)
	if err != nil {
		return nil, err
	}
	o.Seed = seed
	choices, _, err := chat.Choices(ctx, lm, messages, o, chat.Several{N: n})
	if err != nil {
		return nil, err
	}
	group := make([]dataset.Completion, len(choices))
	for i, a := range choices {
		c := &group[i]
		c.IDs, c.Truncated = a.TokenIDs, a.Finish != chat.FinishStop
		if c.Rewards, c.Read, err = m.reward.Of(ctx, e.Conversation, pictures, a.Text); err != nil {
			return nil, err
		}
		c.Reward = m.reward.Sum(c.Rewards)
	}
	return group, nil
}

// Step runs the forward and backward pass over answers. Answers to the same prompt are adjacent and run together.
func (m *policyModel) Step(ctx context.Context, examples []dataset.Example, in StepInput) (*StepResult, error) {
	g := m.config.GRPO
	policy := nn.Policy{Temperature: g.Temperature, Beta: g.Beta, EpsilonLow: g.Epsilon, EpsilonHigh: g.EpsilonHigh,
		OnPolicy: g.NumIterations == 1}
	out := &StepResult{}
	sums := map[string]*tensor.Dense{}
	for lo := 0; lo < len(examples); {
		hi := lo + 1
		for hi < len(examples) && examples[hi].Unit == examples[lo].Unit {
			hi++
		}
		part := examples[lo:hi]
		prompt, err := m.question(&part[0])
		if err != nil {
			return nil, err
		}
		answers := make([]language.Answer, len(part))
		for i := range part {
			c := part[i].Completion
			answers[i] = language.Answer{Sample: language.Answered(prompt, c.IDs), Advantage: c.Advantage, Weight: c.Weight,
				Old: c.Old, Base: c.Base}
		}
		r, err := m.tuner.StepAnswers(ctx, answers, policy, in.Seed+uint64(lo))
		if err != nil {
			return nil, fmt.Errorf("training on answers to %s: %w", dataset.IDs(part[:1]), err)
		}
		out.Tokens += r.Tokens
		for i := range part {
			out.measure(&part[i], r.LogProbs[i], policy, in.Weight)
		}
		addGradients(sums, r.Grads)
		lo = hi
	}
	out.Grads = m.gradients(sums)
	return out, nil
}

// addGradients adds a run's gradients to sums.
func addGradients(sums, more map[string]*tensor.Dense) {
	for name, g := range more {
		if sums[name] == nil {
			sums[name] = g
			continue
		}
		s := sums[name].Float32s()
		for i, v := range g.Float32s() {
			s[i] += v
		}
	}
}

// measure adds the loss of an answer, and its KL divergence and number of clipped ratios summed over its tokens.
func (r *StepResult) measure(e *dataset.Example, logProbs []float64, p nn.Policy, weight float64) {
	c := e.Completion
	loss, divergence, clipped := 0.0, 0.0, 0.0
	for k, lp := range logProbs {
		ratio := 1.0
		if !p.OnPolicy {
			ratio = math.Exp(lp - c.Old[k])
		}
		low, high := 1-p.EpsilonLow, 1+p.EpsilonHigh
		one := -min(ratio*c.Advantage, min(max(ratio, low), high)*c.Advantage)
		if ratio < low && c.Advantage < 0 || ratio > high && c.Advantage > 0 {
			clipped++
		}
		if p.Beta != 0 {
			d := c.Base[k] - lp
			kl := math.Exp(d) - d - 1
			divergence += kl
			one += p.Beta * kl
		}
		loss += c.Weight * one
	}
	r.Loss = append(r.Loss, loss/weight)
	r.Divergence, r.Clipped = append(r.Divergence, divergence), append(r.Clipped, clipped)
	r.ScoreLoss, r.Score = append(r.ScoreLoss, math.NaN()), append(r.Score, math.NaN())
}

// MeasureText measures the reward of one greedy answer to each prompt.
func (m *policyModel) MeasureText(ctx context.Context, examples []dataset.Example) (t TextMeasure, err error) {
	if m.Accumulates() { // upload the current parameters to the device
		if err := m.tuner.Begin(ctx); err != nil {
			return t, err
		}
	}
	zero := 0.0
	all := func(int) bool { return true }
	for i := range examples {
		examples[i].Unit = i
	}
	o := chat.Options{MaxNewTokens: m.config.GRPO.MaxCompletionLength, Temperature: &zero}
	answers, err := m.answer(ctx, examples, all, o, 1, func(*dataset.Example) uint64 { return 0 })
	for i := range examples { // in order: floating-point sums depend on it
		group := answers[i]
		if len(group) == 0 {
			continue
		}
		t.Answers++
		t.Reward += group[0].Reward
		t.Tokens += len(group[0].IDs)
		if group[0].Read {
			t.Read++
		}
	}
	return t, err
}

// Inspector decodes pictures, tokenises prompts and checks that the truth of the rewards can be read.
func (m *policyModel) Inspector() func(*dataset.Example) error {
	pictures := m.pictureInspector()
	return func(e *dataset.Example) error {
		if err := m.reward.Check(e.Conversation); err != nil {
			return err
		}
		for i := range e.Conversation.Pictures {
			if err := pictures.Picture(e.Conversation.Picture(i).File); err != nil {
				return fmt.Errorf("picture %d: %w", i+1, err)
			}
		}
		_, err := m.question(e)
		return err
	}
}

// Plan counts tokens, parameters and memory: for answers of maximum length to the longest prompt.
func (m *policyModel) Plan(_ context.Context, in PlanInput) (*Plan, error) {
	g := m.config.GRPO
	p := &Plan{Device: m.tuner.Device()}
	var longest *batch.Sample
	shown := 1
	for i := range in.Examples {
		s, err := m.question(&in.Examples[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.Examples[i].Edit.ID, err)
		}
		if n := len(s.IDs); longest == nil || n > len(longest.IDs) {
			longest = s
		}
		p.Tokens.add(len(s.IDs)+g.MaxCompletionLength, len(in.Examples))
		shown = max(shown, len(s.Pictures))
	}
	p.onDevice(m.config, m.tuner, m.given)
	o := language.AnswersUsage{Policy: nn.Policy{Temperature: g.Temperature, Beta: g.Beta, OnPolicy: g.NumIterations == 1},
		Longest: g.MaxCompletionLength, Together: g.GenerationBatchSize, Pictures: shown * (in.Rows + in.Validation)}
	return m.fit(p, in.MicroBatch, 1, func(n int) (exec.Usage, error) {
		return m.tuner.AnswersUsage(longest, min(n, g.NumGenerations), o)
	}, m.tuner.Layers)
}

var _ Policy = (*policyModel)(nil)

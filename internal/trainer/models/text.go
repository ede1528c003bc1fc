package models

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/lora"
	"assay/model/exec"
	"assay/model/language"
	"assay/model/text"
)

// textModel trains a backbone, or an adapter over it, on conversations.
type textModel struct {
	graphModel[*language.Tuner]
}

// openText opens the model of mode text.
func openText(c *config.Config, plan bool, memory int64) (_ Model, err error) {
	m := &textModel{}
	if err := m.begin(c, plan, memory); err != nil {
		return nil, err
	}
	o := language.TuneOptions{Options: modelOptions(c, m.store), Plan: plan, DType: dtype(c),
		ChatTemplate: c.ChatTemplate, EndOfTurn: c.EndOfTurn, MaxTokens: c.Text.MaxTokens,
		Recompute: c.Recompute != "none", Fixed: strings.HasPrefix(c.Device, "cuda"), Resident: Resident(c)}
	o.Elsewhere, o.Pair = memory > 0, c.Pair
	if c.Adapts() {
		o.Dropout = c.Lora.Dropout
		if o.Adapter, err = adapterOf(c); err != nil {
			return nil, errors.Join(err, m.store.Close())
		}
	}
	if err := m.take(language.NewTuner(c.Backbone, o)); err != nil {
		return nil, err
	}
	if c.Objective == config.ObjectiveGRPO {
		return openPolicy(m)
	}
	return m, nil
}

// adapterOf reads the adapter of init, or creates a new one.
func adapterOf(c *config.Config) (*lora.Adapter, error) {
	if c.Init != "" {
		a, err := lora.Load(c.Init)
		if err != nil {
			return nil, fmt.Errorf("init: %w", err)
		}
		return a, checkSameAdapter(c, a)
	}
	modules, err := backboneModules(c.Backbone)
	if err != nil {
		return nil, err
	}
	if err := freshAdapter(config.PEFTConfig(c), modules); err != nil {
		return nil, err
	}
	a, err := lora.New(config.PEFTConfig(c), modules, c.Seed)
	return a, suggestParts(c, err)
}

// Targets returns the number of tokens in an example's loss.
func (m *textModel) Targets(e *dataset.Example) (int, error) {
	return m.tuner.CheckText(turns(e.Conversation))
}

// turns returns the messages in the form that templates take.
func turns(c *dataset.Conversation) []text.Message {
	out := make([]text.Message, len(c.Messages))
	for i, m := range c.Messages {
		out[i].Role = m.Role
		for _, p := range m.Content {
			out[i].Content = append(out[i].Content, text.Content{Image: p.Image != nil, Text: p.Text})
		}
	}
	return out
}

// prepare reads and tokenises a batch on all cores. Pictures whose features are known are not read.
func (m *textModel) prepare(batch []dataset.Example) ([]*language.TextSample, error) {
	return prepareAll(batch, m.prepareOne)
}

// conversationPicture is a picture of a conversation, with its content as key.
type conversationPicture struct{ dataset.RowPicture }

// Key returns the content of the picture as a key.
func (p conversationPicture) Key() string { return p.Content.String() }

func (m *textModel) prepareOne(e *dataset.Example) (*language.TextSample, error) {
	c := language.Conversation{Messages: turns(e.Conversation)}
	for i := range e.Conversation.Pictures {
		c.Pictures = append(c.Pictures, conversationPicture{e.Conversation.Picture(i)})
	}
	return m.tuner.Prepare(c)
}

// Step runs the forward and backward pass; the weight of each token of an example is Weight * Share / tokens of the
// example.
func (m *textModel) Step(ctx context.Context, batch []dataset.Example, in StepInput) (*StepResult, error) {
	if err := noTerms(in); err != nil {
		return nil, err
	}
	samples, err := m.prepare(batch)
	if err != nil {
		return nil, err
	}
	weights := make([]float64, len(batch))
	for i, s := range samples {
		weights[i] = in.Weight * batch[i].Share / float64(s.Targets())
	}
	r, err := m.tuner.Step(ctx, samples, weights, in.Seed)
	if err != nil {
		return nil, fmt.Errorf("training on %s: %w", dataset.IDs(batch), err)
	}
	out := &StepResult{Tokens: r.Tokens, Grads: m.gradients(r.Grads)}
	for i, s := range samples {
		out.Loss = append(out.Loss, batch[i].Share*r.Loss[i]/float64(s.Targets()))
		out.ScoreLoss, out.Score = append(out.ScoreLoss, math.NaN()), append(out.Score, math.NaN())
	}
	return out, nil
}

// Score is for scorers: this model has no scores.
func (m *textModel) Score(context.Context, []dataset.Example) ([]float64, error) {
	return nil, errors.New("mode text has no scores")
}

// MeasureText adds up the losses of a batch's tokens.
func (m *textModel) MeasureText(ctx context.Context, batch []dataset.Example) (t TextMeasure, err error) {
	samples, err := m.prepare(batch)
	if err != nil {
		return t, err
	}
	r, err := m.tuner.Measure(ctx, samples)
	if err != nil {
		return t, err
	}
	for i, s := range samples {
		t.Loss += r.Loss[i]
		t.Right += r.Right[i]
		t.Tokens += s.Targets()
	}
	return t, nil
}

// SaveScorer writes the adapter, or the backbone.
func (m *textModel) SaveScorer(dir string) error { return m.tuner.SaveInto(dir) }

// Inspector decodes pictures and counts text tokens; with text.max_tokens it counts picture tokens as well.
func (m *textModel) Inspector() func(*dataset.Example) error {
	pictures := m.pictureInspector()
	return func(e *dataset.Example) error {
		if _, err := m.Targets(e); err != nil {
			return err
		}
		for i := range e.Conversation.Pictures {
			if err := pictures.Picture(e.Conversation.Picture(i).File); err != nil {
				return fmt.Errorf("picture %d: %w", i+1, err)
			}
		}
		if m.config.Text.MaxTokens == 0 {
			return nil
		}
		_, err := m.prepareOne(e)
		return err
	}
}

// Plan counts tokens, parameters and memory.
func (m *textModel) Plan(_ context.Context, in PlanInput) (*Plan, error) {
	sample := in.Examples
	p := &Plan{Device: m.tuner.Device()}
	var longest *language.TextSample
	shown := 1
	for i := range sample { // one by one, so that pixels are not kept
		s, err := m.prepareOne(&sample[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sample[i].Edit.ID, err)
		}
		n := len(s.IDs)
		if longest == nil || n > p.Tokens.Max {
			longest = s
		}
		p.Tokens.add(n, len(sample))
		shown = max(shown, len(s.Pictures))
	}
	p.onDevice(m.config, m.tuner, m.given)
	return m.fit(p, in.MicroBatch, 1, func(n int) (exec.Usage, error) {
		return m.tuner.Usage(longest, n, shown*(in.Rows+in.Validation), in.Validation > 0)
	}, m.tuner.Layers)
}

package models

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"

	"github.com/goccy/go-yaml"

	"assay/edit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/workers"
	"assay/model"
)

// ScorerModel trains the adapter or backbone together with the head and the score token, in the step graph.
type ScorerModel struct {
	graphModel[*model.Tuner]
}

// Step trains on the labels of edits, or on what the terms of an objective compare.
func (m *ScorerModel) Step(ctx context.Context, batch []dataset.Example, in StepInput) (*StepResult, error) {
	samples, err := prepareExamples(m.tuner, batch)
	if err != nil {
		return nil, err
	}
	in.Labels = make([]float64, len(batch))
	for i := range batch {
		in.Labels[i] = batch[i].Label
	}
	r, err := m.tuner.Step(ctx, samples, in)
	if err != nil {
		return nil, fmt.Errorf("training on %s: %w", dataset.IDs(batch), err)
	}
	return &StepResult{Loss: r.Loss, CE: r.CE, ScoreLoss: r.ScoreLoss, Score: r.Score,
		Tokens: r.Tokens, Terms: r.Terms, Grads: m.gradients(r.Grads)}, nil
}

// Targets returns the number of tokens in an example's text loss.
func (m *ScorerModel) Targets(e *dataset.Example) (int, error) {
	if s, ok := e.Inputs.(*model.Sample); ok {
		return m.tuner.Targets(s), nil
	}
	return m.tuner.CountTargets(&e.Edit, askOf(e))
}

// Score returns score01 of every example.
func (m *ScorerModel) Score(ctx context.Context, batch []dataset.Example) ([]float64, error) {
	samples, err := prepareExamples(m.tuner, batch)
	if err != nil {
		return nil, err
	}
	return m.tuner.Scorer.Score01(ctx, samples)
}

// ScoreDimensions returns score01 of every example, and its dimensions in 0..1.
func (m *ScorerModel) ScoreDimensions(
	ctx context.Context, batch []dataset.Example,
) (scores []float64, dimensions [][]edit.Dimension, err error) {
	samples, err := prepareExamples(m.tuner, batch)
	if err != nil {
		return nil, nil, err
	}
	all, err := m.tuner.Scorer.ScoreSamples(ctx, samples)
	if err != nil {
		return nil, nil, err
	}
	on := m.tuner.Scorer.Info().Range
	for _, s := range all {
		for k := range s.Dimensions {
			s.Dimensions[k].Value = on.To01(s.Dimensions[k].Value)
		}
		scores, dimensions = append(scores, s.Score01), append(dimensions, s.Dimensions)
	}
	return scores, dimensions, nil
}

// SaveScorer writes the scorer directory.
func (m *ScorerModel) SaveScorer(dir string) error { return m.tuner.SaveScorer(dir) }

// Fingerprint identifies the backbone and the prompts of a scorer of format 2.
func (m *ScorerModel) Fingerprint() map[string]string {
	out := m.graphModel.Fingerprint()
	if m.config.Judge != nil {
		sc := *m.config.Judge
		sc.Backbone, sc.Weights, sc.Digests = "", "", nil
		if d := m.config.Judge.Digests; d != nil && sc.Origin != nil { // where earlier versions stored them
			o := *sc.Origin
			o.Weights, o.Base, sc.Origin = d.Weights, d.Backbone, &o
		}
		if text, err := yaml.Marshal(&sc); err == nil {
			sum := sha256.Sum256(text)
			out["scorer"] = hex.EncodeToString(sum[:16])
		}
	}
	return out
}

// Inspector decodes pictures and counts the text tokens with every question and answer template.
func (m *ScorerModel) Inspector() func(*dataset.Example) error {
	pictures := m.pictureInspector()
	return func(e *dataset.Example) error {
		if err := pictures.Example(e); err != nil {
			return err
		}
		return checkTexts(m.tuner, m.config, e)
	}
}

// texter counts the tokens of a question's text: a Tuner or a Scorer.
type texter interface {
	CheckText(*edit.Edit, model.Ask) error
}

func checkTexts(m texter, c *config.Config, e *dataset.Example) error {
	for _, q := range c.Question {
		for _, a := range c.Answer {
			ask := model.Ask{Question: q, Answer: a, Why: e.Why}
			if err := m.CheckText(&edit.Edit{Instruction: e.Edit.Instruction}, ask); err != nil {
				return err
			}
		}
	}
	return nil
}

// preparer turns edits into samples: a Tuner or a Scorer.
type preparer interface {
	Sample(*edit.Edit, model.Ask) (*model.Sample, error)
}

// prepareExamples reads, augments and tokenises a batch on all cores. Pictures whose features are known are not read.
func prepareExamples(p preparer, batch []dataset.Example) ([]*model.Sample, error) {
	return prepareAll(batch, func(e *dataset.Example) (*model.Sample, error) {
		s, err := prepareExample(p, e)
		if err == nil {
			s.Share = e.Share
		}
		return s, err
	})
}

// prepareAll creates the samples of a batch on all cores.
func prepareAll[S any](batch []dataset.Example, prepare func(e *dataset.Example) (S, error)) ([]S, error) {
	samples := make([]S, len(batch))
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) (err error) {
		if samples[i], err = prepare(&batch[i]); err != nil {
			err = fmt.Errorf("%s: %w", batch[i].Edit.ID, err)
		}
		return err
	})
	return samples, err
}

func prepareExample(p preparer, e *dataset.Example) (*model.Sample, error) {
	if s, ok := e.Inputs.(*model.Sample); ok || e.Err != nil {
		return s, e.Err
	}
	return p.Sample(&e.Edit, askOf(e))
}

// askOf returns the templates that were drawn for an example.
func askOf(e *dataset.Example) model.Ask {
	return model.Ask{Question: e.Question, Answer: e.Answer, Why: e.Why}
}

// Prefetch prepares examples on half of the cores: the other half computes the current step.
func (m *ScorerModel) Prefetch(part []dataset.Example) {
	samples := make([]*model.Sample, len(part))
	err := workers.Each(len(part), max(1, runtime.NumCPU()/2), func(i int) error {
		e := &part[i]
		if samples[i], e.Err = prepareExample(m.tuner, e); e.Err == nil {
			e.Inputs, samples[i].Share = samples[i], e.Share
		}
		return e.Err
	})
	if err == nil {
		m.tuner.Stage(samples)
	}
}

package models

import (
	"context"
	"errors"
	"fmt"

	"assay/model"
	"assay/optim"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/head"
)

// openHead makes the model of mode head: the backbone (with the adapter of init, if there is one) gives the hidden
// states, Gorgonia trains the head on them.
func openHead(c *config.Config, parts *model.ScorerState, given int64) (Model, error) {
	o := modelOptions(c, nil)
	o.Elsewhere = given > 0
	s, err := model.NewScorer(parts, o)
	if err != nil {
		return nil, err
	}
	states := ""
	if !parts.Plan {
		states, err = s.StateFingerprint()
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	var params []optim.Param
	for i := range len(c.Head.Hidden) + 1 {
		for _, part := range []string{"weight", "bias"} {
			name := fmt.Sprintf("layers.%d.%s", i, part)
			params = append(params, optim.Param{Name: name, Value: parts.Tensors[name]})
		}
	}
	var m *HeadModel
	known, err := OpenStore(c, func(text string) { m.warn(text) })
	if err != nil {
		return nil, err
	}
	m, err = NewHeadModel(HeadOptions{
		Head:     c.Head,
		Params:   params,
		Weight:   c.Loss.Score,
		Batch:    hiddenBatch,
		Store:    known,
		Backbone: map[string]string{"hidden states": states},
		Open: func(context.Context) (head.Hidden, error) {
			s, err := model.NewScorer(parts, modelOptions(c, known))
			return hiddenScorer{s}, err
		},
		Save: func(dir string, _ []optim.Param) error { return parts.Save(dir) }, // the parameters are the parts' own tensors
	})
	if err != nil {
		return nil, err
	}
	return &tableHead{HeadModel: m, config: c, parts: parts, given: given}, nil
}

// hiddenBatch is the number of examples whose hidden states are computed together.
const hiddenBatch = 16

// tableHead is a HeadModel whose examples are rows of tables.
type tableHead struct {
	*HeadModel
	config   *config.Config
	parts    *model.ScorerState
	given    int64 // memory of the GPU that a plan is for; 0: as it is here
	pictures int   // that the run sees
}

// Files are the digests of the backbone's files.
func (m *tableHead) Files() (map[string]string, error) { return backboneFiles(m.config) }

// Expect tells the model what rows a plan is for.
func (m *tableHead) Expect(rows, validation int) { m.pictures = pictures(m.config, rows+validation) }

// Plan is that of the head, with what the backbone needs while it computes hidden states, before the head trains.
func (m *tableHead) Plan(ctx context.Context, sample []dataset.Example) (p *Plan, err error) {
	p, err = m.HeadModel.Plan(ctx, sample)
	if err != nil {
		return nil, err
	}
	o := modelOptions(m.config, nil)
	o.Elsewhere = m.given > 0
	s, err := model.NewScorer(m.parts, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	longest, err := p.count(s, sample, nil)
	if err != nil {
		return nil, err
	}
	u, err := s.UsageOf(longest, hiddenBatch, m.pictures)
	if err != nil {
		return nil, err
	}
	p.Parameters += u.Parameters
	for what, n := range u.Bytes {
		p.Bytes[what+", while hidden states are computed"] = n
	}
	p.Host, p.Memory = u.Host, memoryOf(s.Device(), m.given)
	if s.Device() != "cpu" {
		p.Device = s.Device() + ", the head on the cpu (Gorgonia)"
	}
	if err := s.Absent(); err != nil {
		p.Absent, p.Partly = err.Error(), s.Partly()
	}
	return p, err
}

// Inspector decodes the pictures that no earlier run has.
func (m *tableHead) Inspector() func(*dataset.Example) error {
	if m.parts.Plan { // leaves nothing behind
		return new(dataset.PictureInspector).Example
	}
	return dataset.NewPictureInspector(m.o.Store).Example
}

// hiddenScorer gives hidden states of examples.
type hiddenScorer struct{ *model.Scorer }

func (h hiddenScorer) Hidden(ctx context.Context, batch []dataset.Example) ([][]float32, error) {
	samples, err := prepareExamples(h.Scorer, batch)
	if err != nil {
		return nil, err
	}
	return h.Scorer.Hidden(ctx, samples)
}

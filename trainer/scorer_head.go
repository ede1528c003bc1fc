package trainer

import (
	"context"
	"errors"
	"fmt"

	"assay/model"
	"assay/optim"
)

// openHead makes the model of mode head: the backbone (with the adapter of init, if there is one) gives the hidden
// states, Gorgonia trains the head on them.
func openHead(c *Config, parts *model.ScorerState) (Model, error) {
	s, err := model.NewScorer(parts, modelOptions(c, nil))
	if err != nil {
		return nil, err
	}
	states := ""
	if !parts.Plan {
		states, err = s.StateFingerprint()
	}
	_, memory := s.Weights()
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
	var head *HeadModel
	known, err := openStore(c, func(text string) { head.warn(text) })
	if err != nil {
		return nil, err
	}
	head, err = NewHeadModel(HeadOptions{
		Head:     c.Head,
		Params:   params,
		Weight:   c.Loss.Score,
		Batch:    16,
		Store:    known,
		Backbone: map[string]string{"hidden states": states},
		Memory:   memory,
		Open: func(context.Context) (Hidden, error) {
			s, err := model.NewScorer(parts, modelOptions(c, known))
			return hiddenScorer{s}, err
		},
		Save: func(dir string, _ []optim.Param) error { return parts.Save(dir) }, // the parameters are the parts' own tensors
	})
	if err != nil {
		return nil, err
	}
	return tableHead{head, parts.Plan}, nil
}

// tableHead is a HeadModel whose examples are rows of tables.
type tableHead struct {
	*HeadModel
	plan bool // nothing will be trained
}

// Inspector decodes the pictures that no earlier run has.
func (m tableHead) Inspector() func(*Example) error {
	if m.plan { // leaves nothing behind
		return new(inspector).example
	}
	return newInspector(m.o.Store).example
}

// hiddenScorer gives hidden states of examples.
type hiddenScorer struct{ *model.Scorer }

func (h hiddenScorer) Hidden(ctx context.Context, batch []Example) ([][]float32, error) {
	samples, err := prepareExamples(h.Scorer, batch)
	if err != nil {
		return nil, err
	}
	return h.Scorer.Hidden(ctx, samples)
}

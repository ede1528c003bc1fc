package models

import (
	"context"

	"assay/model"
)

// Candidate is a scorer as it stands while it is trained.
type Candidate interface {
	Prepare(model.Pair) (*model.Sample, error)
	Score(ctx context.Context, samples []*model.Sample) ([]float64, error) // score01
	Config() model.ScorerConfig
}

// Candidate is the scorer as it stands.
func (m *ScorerModel) Candidate() Candidate { return m.tuner }

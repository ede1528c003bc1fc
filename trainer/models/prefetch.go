package models

import (
	"runtime"

	"assay/internal/workers"
	"assay/model"
	"assay/trainer/dataset"
)

// Prepared is what a model made of an example ahead of the step that wants it.
type Prepared struct {
	Sample *model.Sample
	err    error
}

// Prefetch prepares examples with half of the cores: the other half computes the step at hand.
func (m *ScorerModel) Prefetch(part []dataset.Example) {
	workers.Each(len(part), max(1, runtime.NumCPU()/2), func(i int) error {
		s, err := prepareExample(m.tuner, &part[i])
		part[i].Prepared = &Prepared{s, err}
		return nil
	})
}

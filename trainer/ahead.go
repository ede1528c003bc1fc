package trainer

import (
	"runtime"

	"assay/internal/workers"
	"assay/model"
)

// prepared is what a model made of an example ahead of the step that wants it.
type prepared struct {
	sample *model.Sample
	err    error
}

// Prefetch prepares examples with half of the cores: the other half computes the step at hand.
func (m *scorerModel) Prefetch(part []Example) {
	workers.Each(len(part), max(1, runtime.NumCPU()/2), func(i int) error {
		s, err := prepareExample(m.tuner, &part[i])
		part[i].Prepared = &prepared{s, err}
		return nil
	})
}

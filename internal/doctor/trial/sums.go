package trial

import (
	"gorgonia.org/tensor"

	"assay/internal/optim"
)

// Sums accumulates gradients on the host.
type Sums struct {
	Params []optim.Param
	Values [][]float32
}

// NewSums returns zero sums for the parameters.
func NewSums(names []string, tensors []*tensor.Dense) *Sums {
	s := &Sums{Params: optim.NewParams(names, tensors)}
	for _, p := range s.Params {
		s.Values = append(s.Values, make([]float32, len(p.Floats())))
	}
	return s
}

// Add adds a run's gradients.
func (s *Sums) Add(grads []*tensor.Dense) {
	for i, g := range grads {
		for k, v := range g.Float32s() {
			s.Values[i][k] += v
		}
	}
}

// Clear sets the sums to zero.
func (s *Sums) Clear() {
	for _, v := range s.Values {
		clear(v)
	}
}

package doctor

import (
	"gorgonia.org/tensor"

	"assay/optim"
)

// sums are gradients that are added up on the host.
type sums struct {
	params []optim.Param
	values [][]float32
}

func newSums(names []string, tensors []*tensor.Dense) *sums {
	s := &sums{params: optim.NewParams(names, tensors)}
	for _, p := range s.params {
		s.values = append(s.values, make([]float32, len(p.Floats())))
	}
	return s
}

// add adds a run's gradients.
func (s *sums) add(grads []*tensor.Dense) {
	for i, g := range grads {
		for k, v := range g.Float32s() {
			s.values[i][k] += v
		}
	}
}

func (s *sums) clear() {
	for _, v := range s.values {
		clear(v)
	}
}

// into names them.
func (s *sums) into(v values) {
	for i, p := range s.params {
		v[p.Name] = s.values[i]
	}
}

package exec

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/model/nn"
)

// Parameters are the tensors that a step graph trains, by name.
type Parameters struct {
	List     []nn.Param
	Layers   int // of the step graph, and blocks of towers: what may be recomputed
	sessions *Sessions
}

// Parameters builds a step graph for the names of its parameters, and reads their values; the runtime sees the graph
// when training begins. If they are resident, parameters and the sums of gradients stay on the device: see [Residence].
func (s *Sessions) Parameters(step Recipe, resident bool) (*Parameters, error) {
	b, err := s.Graph(step)
	if err == nil && !s.net.Backbone.Weights.Absent() {
		err = s.readTrained(b.Params)
	}
	if err != nil {
		return nil, err
	}
	p := &Parameters{List: slices.Clone(b.Params), sessions: s}
	slices.SortFunc(p.List, func(a, b nn.Param) int { return strings.Compare(a.Name, b.Name) })
	segments := map[string]bool{"": true}
	for _, n := range b.Model.Nodes {
		segments[n.Segment] = true
	}
	p.Layers = len(segments) - 1
	if resident {
		s.Resident = newResidence(p.List)
	}
	return p, nil
}

// RecomputeFirst makes steps recompute that many of the first layers in the backward pass and keep the values of the
// others, regardless of the tuner's options. It is for a tuner that has not run a step yet.
func (p *Parameters) RecomputeFirst(layers int) {
	s := p.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recompute = &layers
	clear(s.graphs)
}

// Params returns names and values, in the order of List.
func (p *Parameters) Params() (names []string, values []*tensor.Dense) {
	for _, x := range p.List {
		names, values = append(names, x.Name), append(values, p.sessions.Param(x.Name))
	}
	return names, values
}

// Shapes returns the shapes by name; in a plan they are known without the values.
func (p *Parameters) Shapes() map[string][]int64 {
	out := make(map[string][]int64, len(p.List))
	for _, x := range p.List {
		out[x.Name] = x.Shape
	}
	return out
}

// Begin starts an optimizer step whose gradients are summed on the device: it uploads the current parameters and resets
// the sums.
func (p *Parameters) Begin(ctx context.Context) error {
	s := p.sessions
	if s.Resident == nil {
		return errors.New("this tuner was not created to keep parameters on its device")
	}
	if err := s.Resident.open(s.net.Plan.Device); err != nil {
		return err
	}
	return s.Resident.begin(ctx, s.Param)
}

// Sums fetches the sums of the gradients of all runs since Begin, in the order of List.
func (p *Parameters) Sums(ctx context.Context, into [][]float32) error {
	return p.sessions.Resident.fetch(ctx, into)
}

package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"assay/model/nn"
	"assay/ort"
)

// sessions are the graphs of a network and the runtime's sessions over them, by name, with the values of what is
// trained.
type sessions struct {
	net     *network
	options RunOptions

	mu      sync.Mutex
	graphs  map[string]*nn.Program // built, not opened yet
	open    map[string]*session    // nil: closed
	trained map[string]*tensor.Dense

	resident *residence // nil: parameters are fed to every run, and gradients come from every run
}

// session is a graph that is ready to run.
type session struct {
	*nn.Program
	*ort.Session
	inputs map[string]bool
}

func newSessions(n *network, o RunOptions) *sessions {
	return &sessions{
		net:     n,
		options: o,
		graphs:  map[string]*nn.Program{},
		open:    map[string]*session{},
		trained: map[string]*tensor.Dense{},
	}
}

// graph returns the graph of that name without opening it.
func (s *sessions) graph(r Recipe) (*nn.Program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.build(r)
}

// build builds a graph, or takes it from those that wait for their session. s.mu is held.
func (s *sessions) build(r Recipe) (*nn.Program, error) {
	if b := s.graphs[r.Name]; b != nil {
		return b, nil
	}
	b, err := r.Build(s.net.newGraph(r.Name))
	if err != nil {
		return nil, fmt.Errorf("building the %s graph of %s: %w", r.Name, s.net.backbone.Dir, err)
	}
	if !s.net.onCUDA() {
		nn.LowerPacked(b.Model)
	}
	s.graphs[r.Name] = b
	return b, nil
}

// session returns the session of that name, building and opening its graph the first time.
func (s *sessions) session(r Recipe) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.open[r.Name]; have != nil {
		return have, nil
	}
	if s.open == nil {
		return nil, fmt.Errorf("the scorer is closed")
	}
	if err := s.net.backbone.Weights.Present(); err != nil {
		return nil, err
	}
	b, err := s.build(r)
	if err != nil {
		return nil, err
	}
	if err := s.readTrained(b.Params); err != nil {
		return nil, err
	}
	s.net.backbone.Weights.Forget() // what was looked at so far: the sessions have their own view
	if s.options.OnGraph != nil {
		s.options.OnGraph(r.Name, b.Model)
	}
	o, err := ort.Open(b.Model, ort.Options{
		CUDA:      s.options.CUDA,
		Profile:   s.profile(),
		Device:    s.net.runsOn(),
		Bound:     b.Bound,
		Threads:   s.net.plan.limits.threads,
		Folder:    s.net.backbone.Weights.Folder(),
		LowMemory: !s.net.plan.small || s.net.plan.training != trainNothing,
		Prepack:   b.Packed || nn.PacksWeights(b.Model),
	})
	if err != nil {
		return nil, fmt.Errorf("opening the %s graph of %s: %w", r.Name, s.net.backbone.Dir, err)
	}
	opened := &session{Program: b, Session: o, inputs: map[string]bool{}}
	for _, in := range b.Model.Inputs {
		opened.inputs[in.Name] = true
	}
	delete(s.graphs, r.Name)
	b.Model = nil // the runtime has its own
	s.open[r.Name] = opened
	return opened, nil
}

// profile is the prefix of the next session's trace.
func (s *sessions) profile() string {
	if s.options.Profile == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d", s.options.Profile, len(s.open))
}

// run feeds a session what it declares: the batch and the trained parameters.
func (s *sessions) run(
	ctx context.Context,
	on *session,
	feeds ...map[string]*tensor.Dense,
) (map[string]*tensor.Dense, error) {
	in := map[string]*tensor.Dense{}
	for _, f := range feeds {
		for name, v := range f {
			if on.inputs[name] {
				in[name] = v
			}
		}
	}
	if on.Sums {
		return s.resident.run(ctx, on, in)
	}
	for _, p := range on.Params {
		in[p.Name] = s.param(p.Name)
	}
	return on.Session.Run(ctx, in)
}

// trainable builds a graph for the names of its parameters, which it returns sorted, and reads their values; the
// runtime sees the graph when training begins.
func (s *sessions) trainable(r Recipe) ([]nn.Param, error) {
	b, err := s.graph(r)
	if err == nil && !s.net.backbone.Weights.Absent() {
		err = s.readTrained(b.Params)
	}
	if err != nil {
		return nil, err
	}
	byName := func(a, b nn.Param) int { return strings.Compare(a.Name, b.Name) }
	return slices.SortedFunc(slices.Values(b.Params), byName), nil
}

// readTrained reads the backbone's parameters that are trained, as float32.
func (s *sessions) readTrained(params []nn.Param) (err error) {
	for _, p := range params {
		if s.net.tensors[p.Name] == nil && s.trained[p.Name] == nil {
			if s.trained[p.Name], err = s.net.backbone.Weights.Dense(p.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sessions) param(name string) *tensor.Dense {
	if t := s.net.tensors[name]; t != nil {
		return t
	}
	return s.trained[name]
}

// values returns names and tensors of trained parameters.
func (s *sessions) values(params []nn.Param) (names []string, values []*tensor.Dense) {
	for _, p := range params {
		names, values = append(names, p.Name), append(values, s.param(p.Name))
	}
	return names, values
}

// close frees the sessions.
func (s *sessions) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.resident.close()}
	for _, o := range s.open {
		errs = append(errs, o.Session.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}

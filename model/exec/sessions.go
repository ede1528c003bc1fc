package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"gorgonia.org/tensor"

	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Recipe is a graph that is built when it is first needed, once for each name.
type Recipe struct {
	Name  string
	Build func(g *nn.Graph) (*nn.Program, error)
}

// With returns the recipe of a variant.
func (r Recipe) With(v nn.Variant) Recipe {
	build := r.Build
	r.Name, r.Build = v.Name(r.Name), func(g *nn.Graph) (*nn.Program, error) {
		g.Variant = v
		return build(g)
	}
	return r
}

// Sessions holds the graphs of a network and the runtime's sessions over them, by name, with the values of trained
// parameters.
type Sessions struct {
	net     *Network
	options *Options

	mu      sync.Mutex
	graphs  map[string]*nn.Program // built, not opened yet
	Open    map[string]*Session    // nil: closed
	Trained map[string]*tensor.Dense

	recompute *int // see Parameters.RecomputeFirst

	staging *staging

	Resident *Residence // nil: parameters are fed to every run, and gradients come from every run
}

// Session is a graph that is ready to run.
type Session struct {
	*nn.Program
	*ort.Session
	Inputs map[string]bool
}

func newSessions(n *Network, o *Options) *Sessions {
	return &Sessions{
		net:     n,
		options: o,
		graphs:  map[string]*nn.Program{},
		Open:    map[string]*Session{},
		Trained: map[string]*tensor.Dense{},
		staging: &staging{net: n},
	}
}

// Graph returns the graph of a recipe without opening it.
func (s *Sessions) Graph(r Recipe) (*nn.Program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.build(r)
}

// build builds a graph, or returns one that is built and not opened yet. s.mu is held.
func (s *Sessions) build(r Recipe) (*nn.Program, error) {
	if b := s.graphs[r.Name]; b != nil {
		return b, nil
	}
	g := s.net.NewGraph(r.Name)
	g.RecomputeFirst = s.recompute
	b, err := r.Build(g)
	if err != nil {
		return nil, fmt.Errorf("building the %s graph of %s: %w", r.Name, s.net.Backbone.Dir, err)
	}
	if s.net.OnCUDA() {
		nn.SizesOnHost(b.Model)
		nn.RepeatableSums(b.Model)
	} else {
		nn.LowerPacked(b.Model)
	}
	nn.OmitUnread(b.Model)
	b.Model.Nodes = onnx.FirstResultsLast(b.Model.Nodes)
	s.graphs[r.Name] = b
	return b, nil
}

// OpenError reports that a session cannot be opened. That is the model's fault or the machine's, not the inputs'.
type OpenError struct{ error }

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.error }

// Session returns the session of a recipe, building and opening its graph the first time. If that fails, the error is
// an [OpenError].
func (s *Sessions) Session(r Recipe) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.Open[r.Name]; have != nil {
		return have, nil
	}
	if s.Open == nil {
		return nil, fmt.Errorf("the scorer is closed")
	}
	opened, err := s.open(r)
	if err != nil {
		return nil, &OpenError{err}
	}
	return opened, nil
}

// open builds and opens the graph of a recipe. s.mu is held.
func (s *Sessions) open(r Recipe) (*Session, error) {
	if err := s.net.Backbone.Weights.Present(); err != nil {
		return nil, err
	}
	b, err := s.build(r)
	if err != nil {
		return nil, err
	}
	if err := s.readTrained(b.Params); err != nil {
		return nil, err
	}
	s.net.Backbone.Weights.Forget() // the pages read so far: the sessions have their own mapping
	if s.options.OnGraph != nil {
		s.options.OnGraph(r.Name, b.Model)
	}
	unnameSizes(b.Model)
	bound := map[string]bool{nn.InFeatures: true}
	maps.Copy(bound, b.Bound)
	o, err := ort.OpenOver(s.net.Backbone.Weights, b.Model, ort.Options{
		CUDA:      s.options.CUDA,
		Profile:   s.profile(),
		Device:    s.net.RunsOn(),
		Bound:     bound,
		Threads:   s.net.Plan.Limits.Threads,
		LowMemory: !s.net.Plan.Small || s.net.Plan.Training != TrainNothing,
		Prepack:   b.Packed || nn.PacksWeights(b.Model),
	})
	if err != nil {
		return nil, fmt.Errorf("opening the %s graph of %s: %w", r.Name, s.net.Backbone.Dir, err)
	}
	opened := &Session{Program: b, Session: o, Inputs: map[string]bool{}}
	for _, in := range b.Model.Inputs {
		opened.Inputs[in.Name] = true
	}
	delete(s.graphs, r.Name)
	b.Model = nil // the runtime has its own
	s.Open[r.Name] = opened
	return opened, nil
}

// unnameSizes removes the names of the inputs' unknown sizes. By them ONNX Runtime would see which values are equally
// large, and give the memory of values of the forward pass to ones of the backward pass, and hold it in between.
func unnameSizes(m *onnx.Model) {
	for _, in := range m.Inputs {
		for i := range in.Shape {
			in.Shape[i].Name = ""
		}
	}
}

// profile returns the prefix of the next session's trace.
func (s *Sessions) profile() string {
	if s.options.Profile == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d", s.options.Profile, len(s.Open))
}

// Run feeds a session the inputs that it declares: the batch and the trained parameters.
func (s *Sessions) Run(
	ctx context.Context, on *Session, feeds ...map[string]*tensor.Dense,
) (map[string]*tensor.Dense, error) {
	return s.RunOn(ctx, on, nil, feeds...)
}

// RunOn is Run with more inputs, which are on the device.
func (s *Sessions) RunOn(
	ctx context.Context, on *Session, views map[string]*ort.View, feeds ...map[string]*tensor.Dense,
) (map[string]*tensor.Dense, error) {
	in := on.declared(feeds)
	if on.Sums {
		return s.Resident.run(ctx, on, in, views)
	}
	for _, p := range on.Params {
		in[p.Name] = s.Param(p.Name)
	}
	return on.Session.RunWith(ctx, in, nil, ort.Views{In: views})
}

// runInto is Run for a session without parameters, whose outputs are written to room.
func (s *Sessions) runInto(
	ctx context.Context, on *Session, room map[string]*tensor.Dense, feeds ...map[string]*tensor.Dense,
) error {
	_, err := on.Session.RunWith(ctx, on.declared(feeds), room, ort.Views{})
	return err
}

// declared returns the feeds that are inputs of the session.
func (s *Session) declared(feeds []map[string]*tensor.Dense) map[string]*tensor.Dense {
	in := map[string]*tensor.Dense{}
	for _, f := range feeds {
		for name, v := range f {
			if s.Inputs[name] {
				in[name] = v
			}
		}
	}
	return in
}

// FeedParams feeds the current trained parameters to a run that is not a training step. Parameters that stay on a
// device have their values from the start of the last step.
func (s *Sessions) FeedParams(on *Session, in map[string]*tensor.Dense, views ort.Views) error {
	if len(on.Params) > 0 && s.Resident != nil && !s.Resident.begun {
		return errors.New("parameters that stay on the device must be uploaded with Begin first")
	}
	for _, p := range on.Params {
		if s.Resident != nil {
			views.In[p.Name] = s.Resident.values[p.Name]
		} else {
			in[p.Name] = s.Param(p.Name)
		}
	}
	return nil
}

// readTrained reads the backbone's parameters that are trained, as float32.
func (s *Sessions) readTrained(params []nn.Param) (err error) {
	for _, p := range params {
		if s.net.Tensors[p.Name] == nil && s.Trained[p.Name] == nil {
			if s.Trained[p.Name], err = s.net.Backbone.Weights.Dense(p.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Param returns the value of a trained parameter.
func (s *Sessions) Param(name string) *tensor.Dense {
	if t := s.net.Tensors[name]; t != nil {
		return t
	}
	return s.Trained[name]
}

// close frees the sessions.
func (s *Sessions) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.Resident.close(), s.staging.close()}
	for _, o := range s.Open {
		errs = append(errs, o.Session.Close())
	}
	s.Open = nil
	return errors.Join(errs...)
}

// Gradients returns the gradients of the parameters among the outputs of a run.
func (s *Session) Gradients(out map[string]*tensor.Dense) map[string]*tensor.Dense {
	grads := make(map[string]*tensor.Dense, len(s.Grads))
	for name, as := range s.Grads {
		grads[name] = out[as]
	}
	return grads
}

// DropoutFeeds draws the pool of factors, and the offset of each LoRA layer in it; or only sets the seed from which
// fused operators draw their own.
func DropoutFeeds(rate float64, s *Session, rows int, seed uint64) map[string]*tensor.Dense {
	if rate == 0 || s.Sites == 0 {
		return nil
	}
	if s.Inputs[nn.InDropoutSeed] {
		return map[string]*tensor.Dense{nn.InDropoutSeed: batch.Vector([]int64{int64(seed)})}
	}
	span := rows * s.Widest
	rng := rand.New(rand.NewPCG(seed, 0x5c0e))
	pool := make([]float32, 2*span)
	keep, threshold := float32(1/(1-rate)), uint64(rate*(1<<32))
	for i := 0; i+1 < len(pool); i += 2 {
		r := rng.Uint64()
		if r>>32 >= threshold {
			pool[i] = keep
		}
		if r&0xffffffff >= threshold {
			pool[i+1] = keep
		}
	}
	offsets := make([]int64, s.Sites)
	for i := range offsets {
		offsets[i] = rng.Int64N(int64(span) + 1)
	}
	return map[string]*tensor.Dense{"dropout_pool": batch.Vector(pool), "dropout_offsets": batch.Vector(offsets)}
}

package models

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"

	"assay/internal/optim"
	"assay/internal/store"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/head"
	"assay/model"
)

// HeadOptions are the parts of a HeadModel.
type HeadOptions struct {
	Head     model.HeadConfig
	Params   []optim.Param                                  // layers.N.weight, layers.N.bias, as in head.Gorgonia
	Open     func(ctx context.Context) (head.Hidden, error) // the backbone; opened only if hidden states are missing
	Batch    int                                            // examples per run of the backbone; 0: 1
	Store    *store.Store                                   // of the hidden states; closed with the model
	Save     func(dir string, params []optim.Param) error   // writes the scorer directory around the head
	Weight   float64                                        // of the score loss
	Backbone map[string]string                              // fingerprint of everything that the hidden states depend on
}

// HeadModel trains only the head, in Gorgonia, on hidden states that are computed once (linear probing). The backbone
// is closed before training begins; there is no text loss.
type HeadModel struct {
	o     HeadOptions
	head  *head.Gorgonia
	cache *head.States // nil: not yet prepared
	warner
}

// NewHeadModel creates the model. Prepare opens the cache.
func NewHeadModel(o HeadOptions) (*HeadModel, error) {
	head, err := head.NewGorgonia(o.Head, o.Params)
	if err != nil {
		return nil, err
	}
	o.Batch = max(1, o.Batch)
	return &HeadModel{o: o, head: head}, nil
}

// Params returns the head's tensors.
func (m *HeadModel) Params() []optim.Param { return m.o.Params }

// Prepare computes the hidden states that are not in the cache, and closes the backbone. After an interrupt the next
// call resumes.
func (m *HeadModel) Prepare(
	ctx context.Context, examples iter.Seq2[dataset.Example, error], done func(n int),
) (err error) {
	if m.cache, err = head.OpenStates(m.o.Store, m.head.In, m.o.Backbone); err != nil {
		return err
	}
	w := &hiddenWork{HeadModel: m, queued: map[store.Key]bool{}}
	defer func() { err = errors.Join(err, w.close()) }()
	for e, err := range examples {
		if err != nil {
			return err
		}
		if err := w.want(ctx, e); err != nil {
			return err
		}
		done(1)
	}
	return w.flush(ctx)
}

// hiddenWork gathers examples whose states are missing into batches for the backbone.
type hiddenWork struct {
	*HeadModel
	backbone head.Hidden
	batch    []dataset.Example
	keys     []store.Key
	queued   map[store.Key]bool
}

func (w *hiddenWork) want(ctx context.Context, e dataset.Example) error {
	key, err := head.StateKey(&e)
	if err != nil {
		return err
	}
	if w.queued[key] || w.cache.Get(key) != nil {
		return nil
	}
	w.queued[key] = true
	w.batch, w.keys = append(w.batch, e), append(w.keys, key)
	if len(w.batch) < w.o.Batch {
		return nil
	}
	return w.flush(ctx)
}

func (w *hiddenWork) flush(ctx context.Context) (err error) {
	if len(w.batch) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.backbone == nil {
		if w.backbone, err = w.o.Open(ctx); err != nil {
			return err
		}
	}
	states, err := w.backbone.Hidden(ctx, w.batch)
	if err != nil {
		return fmt.Errorf("hidden states of %s: %w", dataset.IDs(w.batch), err)
	}
	if len(states) != len(w.batch) {
		return fmt.Errorf("the backbone returned %d hidden states for %d examples", len(states), len(w.batch))
	}
	for i, s := range states {
		if err := w.cache.Put(w.keys[i], s); err != nil {
			return err
		}
	}
	w.batch, w.keys = nil, nil
	clear(w.queued)
	return nil
}

func (w *hiddenWork) close() error {
	if w.backbone == nil {
		return nil
	}
	return w.backbone.Close()
}

// states reads the hidden states of a batch from the cache.
func (m *HeadModel) states(batch []dataset.Example) ([][]float32, []float64, error) {
	var states [][]float32
	var labels []float64
	for i := range batch {
		key, err := head.StateKey(&batch[i])
		if err != nil {
			return nil, nil, err
		}
		s := m.cache.Get(key)
		if s == nil {
			return nil, nil, fmt.Errorf("the hidden state of %s is missing from %s or damaged: run the same command again to "+
				"recompute it",
				batch[i].Edit.ID, m.o.Store.Folder())
		}
		states, labels = append(states, s), append(labels, batch[i].Label)
	}
	return states, labels, nil
}

// Step runs the head over cached states.
func (m *HeadModel) Step(_ context.Context, batch []dataset.Example, in StepInput) (*StepResult, error) {
	if err := noTerms(in); err != nil {
		return nil, err
	}
	states, labels, err := m.states(batch)
	if err != nil {
		return nil, err
	}
	r, err := m.head.Run(states, labels, in.Weight*m.o.Weight)
	if err != nil {
		return nil, err
	}
	out := &StepResult{ScoreLoss: r.Loss, Score: r.Score, Grads: r.Grads}
	for _, l := range r.Loss {
		out.Loss = append(out.Loss, m.o.Weight*l)
	}
	return out, nil
}

// Score runs the head without gradients.
func (m *HeadModel) Score(_ context.Context, batch []dataset.Example) ([]float64, error) {
	states, _, err := m.states(batch)
	if err != nil {
		return nil, err
	}
	r, err := m.head.Run(states, nil, 0)
	if err != nil {
		return nil, err
	}
	return r.Score, nil
}

// SaveScorer writes the scorer directory with the current head.
func (m *HeadModel) SaveScorer(dir string) error { return m.o.Save(dir, m.o.Params) }

// Fingerprint identifies the backbone.
func (m *HeadModel) Fingerprint() map[string]string { return maps.Clone(m.o.Backbone) }

// Plan counts the head's parameters and memory.
func (m *HeadModel) Plan(context.Context, PlanInput) (*Plan, error) {
	p := &Plan{Device: "cpu (Gorgonia)", MicroBatch: math.MaxInt,
		MemoryNeed: MemoryNeed{Bytes: map[string]int64{}}}
	for _, x := range m.o.Params {
		p.Trainable += int64(x.Value.DataSize())
	}
	p.Parameters = p.Trainable
	p.Bytes["parameters, gradients and moments"] = 16 * p.Trainable
	return p, nil
}

// Close ends the graphs and closes the cache.
func (m *HeadModel) Close() error {
	if m.o.Store == nil {
		return m.head.Close()
	}
	return errors.Join(m.head.Close(), m.o.Store.Close())
}

// openHead opens the model of mode head: the backbone (with the adapter of init, if there is one) computes the hidden
// states, and Gorgonia trains the head on them.
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
		Save: func(dir string, _ []optim.Param) error { return parts.Save(dir) }, // the parameters are the tensors of parts
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
	config *config.Config
	parts  *model.ScorerState
	given  int64 // memory of the GPU that a plan is for; 0: of this machine
}

// Files returns the digests of the backbone's files.
func (m *tableHead) Files() (map[string]string, error) { return BackboneFiles(m.config) }

// Plan adds to the head's plan the memory of the backbone, which computes hidden states before the head trains.
func (m *tableHead) Plan(ctx context.Context, in PlanInput) (p *Plan, err error) {
	p, err = m.HeadModel.Plan(ctx, in)
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
	longest, err := p.count(s, in.Examples, nil)
	if err != nil {
		return nil, err
	}
	u, err := s.UsageOf(longest, min(hiddenBatch, in.Rows+in.Validation), pictures(m.config, &in))
	if err != nil {
		return nil, err
	}
	p.Parameters += u.Parameters
	for what, n := range u.Bytes {
		p.Bytes[what+", while hidden states are computed"] = n
	}
	p.Host, p.Memory = u.Host, memoryOf(s.Device(), m.given)
	p.Kernels = s.Kernels().String()
	if s.Device() != "cpu" {
		p.Device = s.Device() + ", the head on the cpu (Gorgonia)"
	}
	if err := s.Absent(); err != nil {
		p.Absent, p.Partly = err.Error(), s.Partly()
	}
	return p, err
}

// Inspector decodes the pictures that no earlier run has checked.
func (m *tableHead) Inspector() func(*dataset.Example) error {
	if m.parts.Plan { // a plan stores nothing
		return new(dataset.PictureInspector).Example
	}
	return dataset.NewPictureInspector(m.o.Store).Example
}

// hiddenScorer computes the hidden states of examples.
type hiddenScorer struct{ *model.Scorer }

func (h hiddenScorer) Hidden(ctx context.Context, batch []dataset.Example) ([][]float32, error) {
	samples, err := prepareExamples(h.Scorer, batch)
	if err != nil {
		return nil, err
	}
	return h.Scorer.Hidden(ctx, samples)
}

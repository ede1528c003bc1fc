package models

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strings"

	"gorgonia.org/tensor"

	"assay/internal/optim"
	"assay/internal/store"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/optimizer"
	"assay/model"
	"assay/model/exec"
)

// tuner is a training step as a graph: model.Tuner or language.Tuner.
type tuner interface {
	BackboneFingerprint() (string, error)
	Params() (names []string, values []*tensor.Dense)
	Shapes() map[string][]int64
	Begin(ctx context.Context) error
	Sums(ctx context.Context, into [][]float32) error
	RecomputeFirst(layers int)
	Damage() error
	Kernels() exec.Kernels
	Close() error
}

// Graph is a model that trains in a step graph of ONNX Runtime.
type Graph interface {
	Model
	optimizer.Accumulator
	Shapes() map[string][]int64  // of the parameters by name; in a plan they may have no values yet
	Resolved() map[string]string // what the configuration's auto resolved to, by key
	Kernels() exec.Kernels       // that layers are built from
	Damage() error               // names a tensor that is not finite
}

// graphModel is what models that train in the step graph have in common.
type graphModel[T tuner] struct {
	config   *config.Config
	tuner    T
	store    *store.Store
	backbone string // fingerprint
	params   []optim.Param
	warner

	plan      bool              // nothing will be trained
	recompute *RecomputedLayers // chosen by a plan, with recompute: auto

	given    int64 // memory of the GPU that a plan is for; 0: of this machine
	searched bool  // tensors that are not finite were searched for
}

// begin opens the store.
func (m *graphModel[T]) begin(c *config.Config, plan bool, memory int64) (err error) {
	m.config, m.plan, m.given = c, plan, memory
	m.store, err = OpenStore(c, m.warn)
	return err
}

// take stores the opened tuner.
func (m *graphModel[T]) take(t T, err error) error {
	if err != nil {
		return errors.Join(err, m.store.Close())
	}
	m.tuner = t
	if m.config.Recompute == config.RecomputeAuto { // until a plan chooses
		t.RecomputeFirst(0)
	}
	if !m.plan {
		if m.backbone, err = t.BackboneFingerprint(); err != nil {
			return errors.Join(err, m.Close())
		}
	}
	m.params = optim.NewParams(t.Params())
	return nil
}

func (m *graphModel[T]) Params() []optim.Param { return m.params }

// Shapes implements [Graph].
func (m *graphModel[T]) Shapes() map[string][]int64 { return m.tuner.Shapes() }

// Fingerprint identifies the backbone.
func (m *graphModel[T]) Fingerprint() map[string]string {
	return map[string]string{"backbone": m.backbone}
}

// Files returns the digests of the backbone's files.
func (m *graphModel[T]) Files() (map[string]string, error) { return BackboneFiles(m.config) }

// BackboneFiles returns the digests of the files that a backbone is read from. A run displays them: its fingerprint
// decides.
func BackboneFiles(c *config.Config) (map[string]string, error) {
	s := model.ScorerConfig{Backbone: c.Backbone}
	if c.Judge != nil {
		s.Weights = c.Judge.Weights
	}
	if err := model.RecordDigests(&s); err != nil {
		return nil, err
	}
	files := s.Digests.Backbone
	maps.Copy(files, s.Digests.Weights)
	for name, digest := range files {
		files[name] = digest[:12]
	}
	return files, nil
}

// Resolved implements [Graph]: device, dtype, kernels, and which layers are recomputed.
func (m *graphModel[T]) Resolved() map[string]string {
	auto := map[string]string{"device": m.config.Device, "dtype": dtype(m.config), "kernels": m.tuner.Kernels().String()}
	if m.recompute != nil {
		auto["recompute"] = m.recompute.String()
	}
	return auto
}

// Kernels implements [Graph].
func (m *graphModel[T]) Kernels() exec.Kernels { return m.tuner.Kernels() }

func (m *graphModel[T]) Accumulates() bool { return Resident(m.config) }

func (m *graphModel[T]) Begin(ctx context.Context) error { return m.tuner.Begin(ctx) }

func (m *graphModel[T]) Sums(ctx context.Context, into [][]float32) error {
	return m.tuner.Sums(ctx, into)
}

// gradients returns a step's gradients; nil if the graph accumulates them.
func (m *graphModel[T]) gradients(of map[string]*tensor.Dense) []*tensor.Dense {
	if m.Accumulates() {
		return nil
	}
	return optim.Gradients(m.params, of)
}

// pictureInspector decodes pictures; for a plan it keeps nothing.
func (m *graphModel[T]) pictureInspector() *dataset.PictureInspector {
	if m.plan {
		return &dataset.PictureInspector{}
	}
	return dataset.NewPictureInspector(m.store)
}

// Damage returns an error that names a tensor that is not finite. It only searches once.
func (m *graphModel[T]) Damage() error {
	if m.searched {
		return nil
	}
	m.searched = true
	return m.tuner.Damage()
}

// Close frees the model.
func (m *graphModel[T]) Close() error { return errors.Join(m.tuner.Close(), m.store.Close()) }

// OpenStore opens a run's store.
func OpenStore(c *config.Config, warn func(string)) (*store.Store, error) {
	folder := c.Cache.Folder
	folder = cmp.Or(folder, filepath.Join(c.Out, "cache"))
	return store.Open(folder, store.Options{Limit: int64(c.Cache.Size), Warn: warn})
}

// warner forwards a store's warnings.
type warner struct{ tell func(string) }

// Warn sets the function that receives warnings.
func (w *warner) Warn(tell func(string)) { w.tell = tell }

func (w *warner) warn(text string) {
	if w.tell != nil {
		w.tell(text)
	}
}

// Resident reports whether parameters and gradient sums stay on the device between micro-batches: on a GPU if one
// process trains. Several ranks sum their micro-batches' gradients in batch order, or in the library's order; both
// happen on the host. It is a variable for tests.
var Resident = func(c *config.Config) bool { return strings.HasPrefix(c.Device, "cuda") && c.Ranks <= 1 }

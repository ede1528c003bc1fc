// Package exec runs graphs of vision-language models.
//
// A [Network] is what graphs are built over: a backbone, an adapter, a scorer's own tensors, and the [Plan] of how they
// are built on this device. A [Recipe] is a graph that is built when it is first needed. [Sessions] hold the runtime's
// session for each variant of each recipe, and on a GPU the parameters that stay there ([Residence]). Vision features
// cache the outputs of a frozen tower, in memory and in a store. The [Runner] combines these: it takes samples through
// batches, features and sessions to outputs, and estimates how much memory that takes.
package exec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Training selects which tensors are trained: these are inputs of the graphs, all others are constants.
type Training int

const (
	TrainNothing  Training = iota // only scoring
	TrainScorer                   // adapter, head and score token
	TrainBackbone                 // and every parameter of the backbone
)

// Network is what graphs are built over: a backbone, an adapter over it, and a scorer's own tensors; and the plan of
// these graphs. Only the values of trained tensors change.
type Network struct {
	Backbone *backbone.Backbone
	Adapter  *lora.Adapter            // nil: none
	Members  int                      // scorers of an ensemble, whose adapters are joined; 0: a single scorer
	Tensors  map[string]*tensor.Dense // of the scorer directory: LoRA, head, score token
	DType    string                   // of the large products: float32 or bfloat16
	Plain    bool                     // rotary positions are 0, 1... on all axes, whatever the family's are
	Packer   batch.Packer             // of samples that are scored
	Plan     Plan
}

// Plan describes how graphs are built and run. It is decided once, when a backbone is opened.
type Plan struct {
	Training     Training
	Trains       func(name string) bool // which of the tensors selected by Training; nil: all
	trainsVision bool                   // some of them are before the vision features
	Recompute    bool                   // layers are recomputed in the backward pass: saves memory, costs time
	WithLMHead   bool                   // logits over the vocabulary are needed, and nothing is trained
	Stages       bool                   // the caller of training steps calls Sessions.Stage
	Device       string                 // cpu, cuda:N
	RunDevice    string                 // where graphs built for Device run; "": on Device
	Small        bool                   // few parameters, and on the CPU
	Prepack      bool                   // weights are prepacked although the model is not small: see PacksFor
	Limits       batch.Limits
	Blocks       nn.Blocks
	Pieces       int
	LossRows     int
	Kernels      nn.Kernels
	KernelsWhy   string
	KernelsWrong bool // on this GPU
}

// CompletePlan makes the choices that depend on the total size of what was loaded.
func (n *Network) CompletePlan(threads int) {
	n.Plan.trainsVision = n.trainsTower()
	parameters, _ := n.Weights()
	n.Plan.Small = parameters <= batch.SmallParameters && !n.OnCUDA()
	n.Plan.Prepack = n.PacksFor(ort.HostMemory())
	n.Plan.Limits = batch.NewLimits(n.Plan.Small && n.Plan.Training == TrainNothing, n.OnCUDA(), threads)
	if n.onePicture() {
		n.Plan.Limits.Pixels = 1
	}
}

// onePicture reports whether pictures go through the frozen tower one by one: if its weights are used from the file,
// and in training on the CPU. There the rounding of a narrow product on several threads depends on its number of rows,
// and a resumed run would have other pictures without features.
func (n *Network) onePicture() bool {
	return n.LowMemory() && !n.Plan.Small && !n.Plan.WithLMHead || n.Plan.Training != TrainNothing && !n.OnCUDA()
}

// ResolveDevice resolves auto to a device of this machine and refuses a device that is missing, unless graphs are for
// another machine. It also chooses the kernels.
func (n *Network) ResolveDevice(elsewhere bool, kernels string) (err error) {
	if !elsewhere {
		if n.Plan.Device, err = ort.Resolve(n.Plan.Device); err != nil {
			return err
		}
	}
	return n.chooseKernels(kernels, elsewhere)
}

// CheckDropout refuses to train a backbone whose attention has dropout.
func (n *Network) CheckDropout() error {
	if rate := n.Backbone.Decoder().Dropout; rate > 0 {
		return fmt.Errorf("%s: config.json: attention_dropout %g is not supported in training: set it to 0 to train without",
			n.Backbone.Dir, rate)
	}
	return nil
}

// Adapt puts an adapter over the backbone.
func (n *Network) Adapt(a *lora.Adapter) error {
	if err := a.Check(lora.Modules(n.Backbone.Weights)); err != nil {
		return err
	}
	if err := n.checkOutput(a); err != nil {
		return err
	}
	if err := BindAdapter(a, n.Backbone.Weights); err != nil { // a fresh one now has the parameters that it replaces
		return fmt.Errorf("the adapter: %w", err)
	}
	if err := a.CheckWhole(n.Backbone.Weights); err != nil {
		return err
	}
	if a.BringsTable() {
		if k := n.Backbone.Keys(); a.Config.TiesWeights() && k.Output == k.Embedding {
			return errors.New("the adapter has ensure_weight_tying and a table of the vocabulary in modules_to_save: that is " +
				"not supported over a tied checkpoint; merge it with PEFT, and use the merged checkpoint")
		}
		if err := n.Backbone.Untie(); err != nil {
			return err
		}
	}
	n.Adapter = a
	maps.Copy(n.Tensors, a.Tensors)
	return nil
}

// AdaptMembers puts the adapters of an ensemble over the backbone.
func (n *Network) AdaptMembers(adapters []*lora.Adapter) error {
	for i, a := range adapters {
		err := a.Check(lora.Modules(n.Backbone.Weights))
		if err == nil {
			err = BindAdapter(a, n.Backbone.Weights)
		}
		if err != nil {
			return fmt.Errorf("member %d: %w", i+1, err)
		}
		for _, t := range a.Targets {
			if !n.ofDecoder(t.Module) || t.Module == outputModule {
				return fmt.Errorf("member %d: the adapter changes %s: members of an ensemble share everything outside the layers "+
					"of the language model", i+1, t.Module)
			}
		}
	}
	joined, err := lora.Join(adapters)
	if err != nil {
		return err
	}
	n.Adapter = joined
	maps.Copy(n.Tensors, joined.Tensors)
	return nil
}

// checkOutput refuses a low-rank adapter over the output layer if rows of that layer are read, or anything is trained.
// Adapters apply only to the layers of towers, projector and decoder. A scorer with its own token reads no such row.
func (n *Network) checkOutput(a *lora.Adapter) error {
	if n.Plan.Training == TrainNothing && !n.Plan.WithLMHead && !n.Packer.Table {
		return nil
	}
	for _, t := range a.Targets {
		if t.Module == outputModule || strings.HasSuffix(t.Module, "."+outputModule) {
			return fmt.Errorf("the adapter changes %s, the output layer: that is not supported. Leave it out of the targets, "+
				"save it in full with modules_to_save, or merge both into one checkpoint with train merge", t.Module)
		}
	}
	return nil
}

// outputModule is the name of every family's output layer in PEFT.
const outputModule = "lm_head"

// BindAdapter gives an adapter what it needs from a backbone; only the shapes if the weights are absent.
func BindAdapter(a *lora.Adapter, w *checkpoints.Weights) error {
	if w.Absent() {
		return a.Describe(w)
	}
	return a.Bind(w)
}

// Device returns the device that graphs are built for: cpu or cuda:N.
func (n *Network) Device() string { return n.Plan.Device }

// RunsOn returns the device on which sessions run.
func (n *Network) RunsOn() string { return cmp.Or(n.Plan.RunDevice, n.Plan.Device) }

// OnCUDA reports whether graphs are built for a GPU.
func (n *Network) OnCUDA() bool { return strings.HasPrefix(n.Plan.Device, "cuda") }

// Weights counts the backbone's parameters and the memory that they take: half precision is widened on the CPU.
func (n *Network) Weights() (parameters, bytes int64) {
	w, lean := n.Backbone.Weights, n.LowMemory()
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		count := onnx.Elements(info.Shape)
		parameters += count
		if d := w.Quantized(name); d != nil { // packed
			bytes += d.Memory()
			continue
		}
		size := int64(info.Type.Size())
		if lean && name == n.Backbone.Keys().Output && n.Plan.Training == TrainNothing && !n.Plan.WithLMHead { // not read
			continue
		}
		if lean && len(info.Shape) == 2 && name != n.Backbone.Keys().Output { // see Graph.matrix
			bytes += count * size
			continue
		}
		if info.Type.IsFloat() { // in the type of the computation: casts of constants are computed once
			size = int64(onnx.Float.Size())
			if n.OnCUDA() && n.DType == "bfloat16" && len(info.Shape) > 1 {
				size = int64(onnx.BFloat16.Size())
			}
		}
		bytes += count * size
	}
	return parameters, bytes
}

// Absent returns an error that names the missing weights of the backbone; nil if none are missing.
func (n *Network) Absent() error { return n.Backbone.Weights.Why() }

// Partly reports whether only a part of the weights is absent: a shard is missing.
func (n *Network) Partly() bool { return n.Backbone.Weights.Partly() }

// Damage returns an error that names a backbone or scorer tensor with NaN or infinities; nil if there is none.
func (n *Network) Damage() error {
	name, what, err := n.Backbone.Weights.NonFinite()
	if err != nil {
		return err
	}
	if name != "" {
		return fmt.Errorf("%s: tensor %s holds %s: the backbone's weights are damaged, load them again",
			n.Backbone.Dir, name, what)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Tensors)) {
		for i, v := range n.Tensors[name].Data().([]float32) {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("the scorer's tensor %s holds %v at index %d", name, v, i)
			}
		}
	}
	return nil
}

// NewGraph starts a graph over the network's parameters.
func (n *Network) NewGraph(name string) *nn.Graph {
	g := nn.NewGraph(name, n.Backbone.Weights)
	g.LowMemory, g.Blocks, g.Kernels = n.LowMemory(), n.Plan.Blocks, n.Plan.Kernels
	g.LossRows = n.Plan.LossRows
	g.Adapter, g.Members, g.Tensors = n.Adapter, n.Members, n.Tensors
	if n.Plan.Training != TrainNothing {
		g.TrainsTensor, g.Trained = n.isTrained, n.Adapter
	}
	if n.Plan.Training == TrainBackbone {
		g.TrainsWeight = n.isTrained
	}
	g.Compute = n.Computes()
	return g
}

// Computes returns the type of the large products: half precision only on CUDA. float16 is for tests, which run on the
// CPU the graphs that have kernels there in this type.
func (n *Network) Computes() onnx.DType {
	if half, ok := map[string]onnx.DType{"bfloat16": onnx.BFloat16, "float16": onnx.Float16}[n.DType]; ok &&
		n.OnCUDA() {
		return half
	}
	return onnx.Float
}

// FeatureSize returns the bytes of a token's vision features. In half precision they lose nothing, as they are results
// of products in that precision.
func (n *Network) FeatureSize() int { return n.Backbone.Decoder().FeatureWidth() * n.Computes().Size() }

// isTrained reports whether a tensor of the scorer or the backbone is trained, if Training selects it.
func (n *Network) isTrained(name string) bool { return n.Plan.Trains == nil || n.Plan.Trains(name) }

// VisionTrained reports whether the vision features depend on trained parameters, so that they cannot be cached.
func (n *Network) VisionTrained() bool { return n.Plan.trainsVision }

func (n *Network) trainsTower() bool {
	switch {
	case n.Plan.Training == TrainBackbone:
		return slices.ContainsFunc(n.Backbone.Weights.Names(), func(key string) bool {
			return !n.ofDecoder(lora.Canonical(key)) && n.isTrained(key)
		})
	case n.Plan.Training != TrainScorer || n.Adapter == nil:
		return false
	}
	return slices.ContainsFunc(n.Adapter.Targets, func(t lora.Target) bool {
		return !n.ofDecoder(t.Module) && n.isTrained(lora.NameA(t.Module))
	}) || slices.ContainsFunc(n.Adapter.Whole, func(path string) bool {
		return !n.ofDecoder(path) && n.isTrained(lora.NameParameter(path))
	})
}

// ofDecoder reports whether a module or parameter comes after the vision features.
func (n *Network) ofDecoder(path string) bool {
	return strings.HasPrefix(path, n.Backbone.Decoder().Module) || strings.HasPrefix(path, "lm_head")
}

// VisionRecipe returns the graph of the vision tower for the given pictures.
func (n *Network) VisionRecipe(pictures []*backbone.Picture) Recipe {
	r := Recipe{Name: "vision", Build: n.visionGraph}
	return r.With(nn.Variant{Pictures: n.longPictures(pictures)})
}

// visionGraph builds only the vision tower.
func (n *Network) visionGraph(g *nn.Graph) (*nn.Program, error) {
	f := n.Backbone.Vision(g)
	g.Output(nn.InFeatures, g.Narrow(f), g.Compute, onnx.Dims("image_tokens", n.Backbone.Decoder().FeatureWidth()))
	return &nn.Program{Model: g.M, Params: g.Params}, g.Err()
}

// CheckPositions returns an error if a sample followed by more tokens is longer than the decoder can read.
func (n *Network) CheckPositions(s *batch.Sample, more int) error {
	last := int64(0)
	for _, axis := range n.Positions(s) {
		last = max(last, slices.Max(axis))
	}
	return n.Backbone.Decoder().Longest(last + int64(more))
}

// Positions returns the rotary positions of a sample on every axis, [axes][tokens].
func (n *Network) Positions(s *batch.Sample) [][]int64 {
	if !n.Plain {
		if axes := n.Backbone.Positions(s.IDs, s.Pictures); axes != nil {
			return axes
		}
	}
	axis := make([]int64, len(s.IDs))
	for i := range axis {
		axis[i] = int64(i)
	}
	if n.Plain {
		return slices.Repeat([][]int64{axis}, n.Backbone.Decoder().Rope.Axes())
	}
	return [][]int64{axis}
}

// LowMemory reports whether the backbone is packed, and so memory scarce: half-precision weights are then not widened
// permanently.
func (n *Network) LowMemory() bool {
	return n.Plan.Training != TrainBackbone && n.Backbone.Unpacked("") != nil
}

// OneGraph reports whether a second graph would need its own weights, so that all samples that can use the prefix graph
// do.
func (n *Network) OneGraph() bool { return n.OnCUDA() || n.LowMemory() }

// Finite refuses a score that is NaN or infinite.
func (n *Network) Finite(score float32) (float64, error) {
	v := float64(score)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		if err := n.Damage(); err != nil {
			return 0, fmt.Errorf("the score is %g: %w", v, err)
		}
		return 0, fmt.Errorf("the score is %g, though all weights are finite: the numbers overflow on these pictures", v)
	}
	return v, nil
}

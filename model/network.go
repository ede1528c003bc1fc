package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/lora"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// training says which tensors are trained: those are inputs of the graphs, all others are constants.
type training int

const (
	trainNothing  training = iota
	trainScorer            // adapter, head and score token
	trainBackbone          // and every parameter of the backbone
)

// network is what graphs are built over: a backbone, an adapter over it, and a scorer's own tensors; and the plan of
// these graphs. Only the values of trained tensors change.
type network struct {
	backbone *Backbone
	adapter  *lora.Adapter            // nil: none
	tensors  map[string]*tensor.Dense // of the scorer directory: LoRA, head, score token
	dtype    string                   // of the large products: float32 or bfloat16
	plain    bool                     // rotary positions are 0, 1... on all axes, whatever the family's are
	packing  packing                  // of samples that are scored
	plan     plan
}

// plan says how graphs are built and run. It is decided once, when a backbone is opened.
type plan struct {
	training     training
	trains       func(name string) bool // which of the tensors that training is about; nil: all
	trainsVision bool                   // some of them are before the vision features
	recompute    bool                   // layers are recomputed in the backward pass: memory rather than time
	withLMHead   bool                   // logits over the vocabulary are wanted, and nothing is trained
	device       string                 // cpu, cuda:N
	runDevice    string                 // where graphs made for device run; "": there
	small        bool                   // few parameters, and on the CPU
	prepack      bool                   // weights are packed though the model is not small: see packsFor
	limits       limits
	blocks       nn.Blocks
	pieces       int
}

// completePlan decides what depends on the size of all that was loaded.
func (n *network) completePlan(threads int) {
	n.plan.trainsVision = n.trainsTower()
	parameters, _ := n.Weights()
	n.plan.small = parameters <= smallParameters && !n.onCUDA()
	n.plan.prepack = n.packsFor(ort.HostMemory())
	n.plan.limits = newLimits(n.plan.small && n.plan.training == trainNothing, n.onCUDA(), threads)
	if n.onePicture() {
		n.plan.limits.pixels = 1
	}
}

// onePicture reports whether pictures go through the frozen tower one by one: where its weights lie in the file, and in
// training on the CPU. There a narrow product on several threads rounds by the number of its rows, and which pictures
// still lack features is not the same after a run was stopped.
func (n *network) onePicture() bool {
	return n.lean() && !n.plan.small && !n.plan.withLMHead || n.plan.training != trainNothing && !n.onCUDA()
}

// resolveDevice makes auto a device that is here, and refuses one that is not, unless graphs are for elsewhere.
func (n *network) resolveDevice(elsewhere bool) (err error) {
	if !elsewhere {
		n.plan.device, err = ort.Resolve(n.plan.device)
	}
	return err
}

// adapt puts an adapter over the backbone.
func (n *network) adapt(a *lora.Adapter) error {
	if err := a.Check(lora.Modules(n.backbone.Weights)); err != nil {
		return err
	}
	if err := n.checkOutput(a); err != nil {
		return err
	}
	if err := bindAdapter(a, n.backbone.Weights); err != nil { // a fresh one has what it brings whole from here on
		return fmt.Errorf("the adapter: %w", err)
	}
	if err := a.CheckWhole(n.backbone.Weights); err != nil {
		return err
	}
	n.adapter = a
	maps.Copy(n.tensors, a.Tensors)
	return nil
}

// checkOutput refuses a low-rank adapter over the output layer where rows of that layer are read, or anything is
// trained. Only the layers of towers, projector and decoder go through it. A scorer with a token of its own reads none.
func (n *network) checkOutput(a *lora.Adapter) error {
	if n.plan.training == trainNothing && !n.plan.withLMHead && !n.packing.table {
		return nil
	}
	for _, t := range a.Targets {
		if t.Module == outputModule || strings.HasSuffix(t.Module, "."+outputModule) {
			return fmt.Errorf("the adapter changes %s, the output layer: that is not supported. Leave it out of the targets, "+
				"bring it whole by modules_to_save, or make one checkpoint of both with train merge", t.Module)
		}
	}
	return nil
}

// outputModule is what PEFT calls the output layer of every family.
const outputModule = "lm_head"

// bindAdapter gives an adapter what it needs of a backbone; of absent weights, the shapes alone.
func bindAdapter(a *lora.Adapter, w *checkpoints.Weights) error {
	if w.Absent() {
		return a.Describe(w)
	}
	return a.Bind(w)
}

// Device is where the graphs run: cpu or cuda:N.
func (n *network) Device() string { return n.plan.device }

// runsOn is where sessions run.
func (n *network) runsOn() string { return cmp.Or(n.plan.runDevice, n.plan.device) }

func (n *network) onCUDA() bool { return strings.HasPrefix(n.plan.device, "cuda") }

// Weights counts the backbone's parameters and the memory that they take: half precision is widened on the CPU.
func (n *network) Weights() (parameters, bytes int64) {
	w, lean := n.backbone.Weights, n.lean()
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		count := elements(info.Shape)
		parameters += count
		if d := w.Derived(name); d != nil { // packed
			bytes += d.Memory()
			continue
		}
		size := int64(info.Type.Size())
		if lean && name == n.backbone.Keys().Output && n.plan.training == trainNothing && !n.plan.withLMHead { // not read
			continue
		}
		if lean && len(info.Shape) == 2 && name != n.backbone.Keys().Output { // see Graph.matrix
			bytes += count * size
			continue
		}
		if info.Type.IsFloat() { // as it is computed with: casts of constants are computed once
			size = int64(onnx.Float.Size())
			if n.onCUDA() && n.dtype == "bfloat16" && len(info.Shape) > 1 {
				size = int64(onnx.BFloat16.Size())
			}
		}
		bytes += count * size
	}
	return parameters, bytes
}

// Absent says what is missing of the backbone's weights; nil if they are there.
func (n *network) Absent() error { return n.backbone.Weights.Why() }

// Partly tells whether a part of the absent weights is there: a shard is missing.
func (n *network) Partly() bool { return n.backbone.Weights.Partly() }

// Damage names a tensor of the backbone or the scorer that holds NaN or infinities; nil if there is none.
func (n *network) Damage() error {
	name, what, err := n.backbone.Weights.NonFinite()
	if err != nil {
		return err
	}
	if name != "" {
		return fmt.Errorf("%s: tensor %s holds %s: the backbone's weights are damaged, load them again",
			n.backbone.Dir, name, what)
	}
	for _, name := range slices.Sorted(maps.Keys(n.tensors)) {
		for i, v := range n.tensors[name].Data().([]float32) {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("the scorer's tensor %s holds %v at index %d", name, v, i)
			}
		}
	}
	return nil
}

// newGraph starts a graph over the network's parameters.
func (n *network) newGraph(name string) *nn.Graph {
	g := nn.NewGraph(name, n.backbone.Weights)
	g.LowMemory, g.Blocks = n.lean(), n.plan.blocks
	g.Adapter, g.Tensors = n.adapter, n.tensors
	if n.plan.training != trainNothing {
		g.TrainsTensor = n.isTrained
	}
	if n.plan.training == trainBackbone {
		g.TrainsWeight = n.isTrained
	}
	g.Compute = n.computes()
	return g
}

// computes is the type of the large products: half precision on CUDA alone. float16 is that of tests, which run on the
// CPU what has kernels there in this type.
func (n *network) computes() onnx.DType {
	if half, ok := map[string]onnx.DType{"bfloat16": onnx.BFloat16, "float16": onnx.Float16}[n.dtype]; ok &&
		n.onCUDA() {
		return half
	}
	return onnx.Float
}

// isTrained tells whether a tensor of the scorer or the backbone is trained, where training is about it.
func (n *network) isTrained(name string) bool { return n.plan.trains == nil || n.plan.trains(name) }

// visionTrained reports whether the vision features depend on what is trained, so that they cannot be kept.
func (n *network) visionTrained() bool { return n.plan.trainsVision }

func (n *network) trainsTower() bool {
	switch {
	case n.plan.training == trainBackbone:
		return slices.ContainsFunc(n.backbone.Weights.Names(), func(key string) bool {
			return !n.ofDecoder(lora.Canonical(key)) && n.isTrained(key)
		})
	case n.plan.training != trainScorer || n.adapter == nil:
		return false
	}
	return slices.ContainsFunc(n.adapter.Targets, func(t lora.Target) bool {
		return !n.ofDecoder(t.Module) && n.isTrained(lora.NameA(t.Module))
	}) || slices.ContainsFunc(n.adapter.Whole, func(path string) bool {
		return !n.ofDecoder(path) && n.isTrained(lora.NameParameter(path))
	})
}

// ofDecoder tells whether a module or parameter is behind the vision features.
func (n *network) ofDecoder(path string) bool {
	return strings.HasPrefix(path, n.backbone.Decoder().Module) || strings.HasPrefix(path, "lm_head")
}

// visionRecipe is the graph of the vision tower for some pictures.
func (n *network) visionRecipe(pictures []*Picture) Recipe {
	return Recipe{"vision", n.visionGraph}.with(nn.Variant{Pictures: n.longPictures(pictures)})
}

// visionGraph is the vision tower alone.
func (n *network) visionGraph(g *nn.Graph) (*nn.Program, error) {
	f := n.backbone.Vision(g)
	g.Output(nn.InFeatures, f, onnx.Float, onnx.Dims("image_tokens", n.backbone.Decoder().FeatureWidth()))
	return &nn.Program{Model: g.M, Params: g.Params}, g.Err()
}

// positions are the rotary positions of a sample on every axis, [axes][tokens].
func (n *network) positions(s *Sample) [][]int64 {
	if !n.plain {
		if axes := n.backbone.Positions(s.IDs, s.Pictures); axes != nil {
			return axes
		}
	}
	axis := make([]int64, len(s.IDs))
	for i := range axis {
		axis[i] = int64(i)
	}
	if n.plain {
		return slices.Repeat([][]int64{axis}, n.backbone.Decoder().Rope.Axes())
	}
	return [][]int64{axis}
}

// lean reports whether the backbone is packed, and so memory scarce: half precision is then not widened for good.
func (n *network) lean() bool {
	return n.plan.training != trainBackbone && n.backbone.unpacked("") != nil
}

// oneGraph reports whether a second graph would need weights of its own, so that all samples that can go through that
// of prefixes do.
func (n *network) oneGraph() bool { return n.onCUDA() || n.lean() }

// finite refuses a score that is no number.
func (n *network) finite(score float32) (float64, error) {
	v := float64(score)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		if err := n.Damage(); err != nil {
			return 0, fmt.Errorf("the score is %g: %w", v, err)
		}
		return 0, fmt.Errorf("the score is %g, though all weights are finite: the numbers overflow on these pictures", v)
	}
	return v, nil
}

package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/calibration"
	"assay/checkpoints"
	"assay/lora"
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

// network is what a scorer has loaded, and the plan of its graphs. Only the values of trained tensors change.
type network struct {
	config      *ScorerConfig            // as it was read
	spec        *ScorerConfig            // config with passes and heads: see asPasses
	backbone    *Backbone                //
	adapter     *lora.Adapter            // nil: none
	tensors     map[string]*tensor.Dense // of the scorer directory: LoRA, head, score token
	calibration *calibration.Calibration // of reported scores; nil: none
	plan
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
	blocks       blocks
	pieces       int
}

// openNetwork opens the backbone of a scorer and compares the two.
func openNetwork(p *ScorerState, t training, o Options) (*network, error) {
	p = p.At(o.Backbone)
	config, err := p.Config.of(o.Dimension)
	if err != nil {
		return nil, err
	}
	b, err := p.backbone()
	if err != nil {
		return nil, err
	}
	if text := p.Undigested(); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	if p.Config.Rotary == "bfloat16" {
		b.Decoder().Rope.Rounded = true
	}
	n := &network{
		config:   config,
		spec:     config.asPasses(),
		backbone: b,
		adapter:  p.Adapter,
		tensors:  maps.Clone(p.Tensors),
		plan: plan{training: t, trains: o.trains, recompute: o.saves, device: o.Device, blocks: blocks(o.Blocks),
			pieces: o.Pieces},
	}
	maps.DeleteFunc(n.tensors, func(name string, _ *tensor.Dense) bool { // heads of other dimensions
		return o.Dimension != "" && strings.HasPrefix(name, "heads.") && !strings.HasPrefix(name, headPrefix(o.Dimension))
	})
	if err = n.check(o.Elsewhere); err == nil {
		err = n.adoptCalibration(p, &o)
	}
	if err == nil && t == trainBackbone {
		err = n.backbone.unpacked("its own weights cannot be trained, only an adapter over them")
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	n.completePlan(o.Threads)
	return n, nil
}

// completePlan decides what depends on the size of all that was loaded.
func (n *network) completePlan(threads int) {
	n.trainsVision = n.trainsTower()
	parameters, _ := n.Weights()
	n.small = parameters <= smallParameters && !n.onCUDA()
	n.prepack = n.packsFor(ort.HostMemory())
	n.limits = newLimits(n.small && n.training == trainNothing, n.onCUDA(), threads)
	if n.onePicture() {
		n.limits.pixels = 1
	}
}

// onePicture reports whether pictures go through the frozen tower one by one: where its weights lie in the file, and in
// training on the CPU. There a narrow product on several threads rounds by the number of its rows, and which pictures
// still lack features is not the same after a run was stopped.
func (n *network) onePicture() bool {
	return n.lean() && !n.small && !n.withLMHead || n.training != trainNothing && !n.onCUDA()
}

// resolveDevice makes auto a device that is here, and refuses one that is not, unless graphs are for elsewhere.
func (n *network) resolveDevice(elsewhere bool) (err error) {
	if !elsewhere {
		n.device, err = ort.Resolve(n.device)
	}
	return err
}

// check resolves the device, unless it is elsewhere, and compares backbone, scorer.yaml, head and adapter.
func (n *network) check(elsewhere bool) error {
	c := n.config
	if err := n.resolveDevice(elsewhere); err != nil {
		return err
	}
	for _, pair := range n.spec.pairs() {
		if !n.backbone.CanPair(pair) {
			return fmt.Errorf("pair: the backbone %s cannot show a source and its edit as %q", c.Backbone, pair)
		}
	}
	if n.training != trainNothing {
		if err := n.spec.trainable(n.training); err != nil {
			return err
		}
	}
	if err := checkTensors(n.spec, n.backbone.Decoder().Hidden, n.tensors); err != nil {
		return err
	}
	if n.adapter == nil {
		return nil
	}
	return n.adapt(n.adapter)
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
	if n.training == trainNothing && !n.withLMHead && n.config.ownToken() {
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
func (n *network) Device() string { return n.device }

// runsOn is where sessions run.
func (n *network) runsOn() string { return cmp.Or(n.runDevice, n.device) }

func (n *network) onCUDA() bool { return strings.HasPrefix(n.device, "cuda") }

// Weights counts the backbone's parameters and the memory that they take: half precision is widened on the CPU.
func (n *network) Weights() (parameters, bytes int64) {
	w, lean := n.backbone.Weights, n.lean()
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		count := elements(info.Shape)
		parameters += count
		if d := w.Quantized(name); d != nil { // packed
			bytes += d.Memory()
			continue
		}
		size := int64(info.Type.Size())
		if lean && name == n.backbone.Keys().Output && n.training == trainNothing && !n.withLMHead { // not read
			continue
		}
		if lean && len(info.Shape) == 2 && name != n.backbone.Keys().Output { // see Graph.matrix
			bytes += count * size
			continue
		}
		if info.Type.IsFloat() { // as it is computed with: casts of constants are computed once
			size = int64(onnx.Float.Size())
			if n.onCUDA() && n.config.DType == "bfloat16" && len(info.Shape) > 1 {
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
			n.config.Backbone, name, what)
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
func (n *network) newGraph(name string) *Graph {
	g := newGraph(name, n.backbone.Weights)
	g.lean, g.blocks = n.lean(), n.blocks
	g.adapter, g.scorer = n.adapter, n.tensors
	if n.training != trainNothing {
		g.trainScorer = n.isTrained
	}
	if n.training == trainBackbone {
		g.trained = n.isTrained
	}
	g.compute = n.computes()
	return g
}

// computes is the type of the large products: half precision on CUDA alone. float16 is that of tests, which run on the
// CPU what has kernels there in this type.
func (n *network) computes() onnx.DType {
	if half, ok := map[string]onnx.DType{"bfloat16": onnx.BFloat16, "float16": onnx.Float16}[n.config.DType]; ok &&
		n.onCUDA() {
		return half
	}
	return onnx.Float
}

// isTrained tells whether a tensor of the scorer or the backbone is trained, where training is about it.
func (n *network) isTrained(name string) bool { return n.trains == nil || n.trains(name) }

// visionTrained reports whether the vision features depend on what is trained, so that they cannot be kept.
func (n *network) visionTrained() bool { return n.trainsVision }

func (n *network) trainsTower() bool {
	switch {
	case n.training == trainBackbone:
		return slices.ContainsFunc(n.backbone.Weights.Names(), func(key string) bool {
			return !n.ofDecoder(lora.Canonical(key)) && n.isTrained(key)
		})
	case n.training != trainScorer || n.adapter == nil:
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

// visionGraph is the vision tower alone.
func (n *network) visionGraph(g *Graph) (*built, error) {
	f := n.backbone.Vision(g)
	g.Output(inFeatures, f, onnx.Float, onnx.Dims("image_tokens", n.backbone.Decoder().FeatureWidth()))
	return &built{Model: g.M, Params: g.Params}, g.Err()
}

func (n *network) packing() packing {
	return packing{
		vocab:  int64(n.backbone.Decoder().Vocab),
		table:  !n.spec.ownToken(),
		before: n.spec.ScorePosition == "before",
		all:    n.spec.TextLoss == "all",
	}
}

// positions are the rotary positions of a sample on every axis, [axes][tokens].
func (n *network) positions(s *Sample) [][]int64 {
	plain := n.config.Positions == "plain"
	if !plain {
		if axes := n.backbone.Positions(s.IDs, s.Pictures); axes != nil {
			return axes
		}
	}
	axis := make([]int64, len(s.IDs))
	for i := range axis {
		axis[i] = int64(i)
	}
	if plain {
		return slices.Repeat([][]int64{axis}, n.backbone.Decoder().Rope.Axes())
	}
	return [][]int64{axis}
}

package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/lora"
	"assay/model/nn"
	"assay/model/text"
	"assay/onnx"
)

// headPrefix begins the names of a head's tensors in head.safetensors.
func headPrefix(name string) string {
	if name == "" {
		return ""
	}
	return "heads." + name + "."
}

// isChoiceRows reports whether a tensor is the rows of a head of choices. A scorer may have rows of its own; without
// them they are those of the backbone's output layer.
func isChoiceRows(name string) bool { return strings.HasSuffix(name, ".rows") }

// width is how many numbers a head gives.
func (h *DimensionConfig) width() int {
	switch h.Outputs {
	case OutputClasses, OutputChoices:
		return len(h.Values)
	case OutputMuSigma:
		return 2
	}
	return 1
}

// heads are the names of the heads that read a state, sorted: not those of joint choices.
func (c *ScorerConfig) heads() []string {
	names := slices.Sorted(maps.Keys(c.Heads))
	return slices.DeleteFunc(names, func(name string) bool { return c.Heads[name].Joint })
}

// bounded are the heads whose standard deviations the score changes with, sorted; none without a lower bound.
func (c *ScorerConfig) bounded() []string {
	if c.Score.LowerBound == 0 {
		return nil
	}
	return slices.Sorted(slices.Values(c.Score.Of))
}

// headShapes are the shapes of the tensors of all heads, choices' rows included.
func (c *ScorerConfig) headShapes(hidden int) map[string][]int {
	want := map[string][]int{}
	for name, h := range c.Heads {
		if h.Joint {
			continue
		}
		if h.Outputs == OutputChoices {
			want[headPrefix(name)+"rows"] = []int{len(h.Choices), hidden}
			continue
		}
		layerShapes(want, headPrefix(name), append(append([]int{hidden}, h.Hidden...), h.width()))
	}
	return want
}

// build returns what the head gives for states x [n, hidden], [n, width]. prefix begins the names of its tensors.
func (h *DimensionConfig) build(g *nn.Graph, prefix, x string) (z string) {
	if h.Outputs == OutputChoices {
		z = g.OpA("Gemm", onnx.Attrs{"transB": 1}, x, g.ScorerTensor(prefix+"rows"))
	} else {
		z = x
		for i := range len(h.Hidden) + 1 {
			layer := fmt.Sprintf("%slayers.%d.", prefix, i)
			z = g.OpA("Gemm", onnx.Attrs{"transB": 1}, z, g.ScorerTensor(layer+"weight"), g.ScorerTensor(layer+"bias"))
			if i < len(h.Hidden) {
				z = g.Activation(z, h.Activation)
			}
		}
	}
	return z
}

// dimension makes the dimension [n] of what the head gives, z [n, width], where the head's scale is 0..1; of
// joint choices, of the logarithms of their likelihoods.
func (h *DimensionConfig) dimension(g *nn.Graph, z string) (dimension string) {
	switch h.Outputs {
	case OutputClasses, OutputChoices:
		values := make([]float32, len(h.Values))
		for i, v := range h.Values {
			values[i] = float32(v)
		}
		p := g.OpA("Softmax", onnx.Attrs{"axis": -1}, z)
		dimension = g.Op("MatMul", p, g.Floats([]int64{int64(len(values)), 1}, values...))
	case OutputMuSigma:
		dimension = g.Op("Slice", z, g.Ints(0), g.Ints(1), g.Ints(1))
	default:
		dimension = z
	}
	if len(h.Scale) == 2 {
		dimension = g.Op("Sub", dimension, g.Scalar(onnx.Float, h.Scale[0]))
		dimension = g.Op("Div", dimension, g.Scalar(onnx.Float, h.Scale[1]-h.Scale[0]))
	}
	return g.Op("Squeeze", dimension, g.Ints(1))
}

// sigma is the standard deviation that belongs to the outputs z of a head, on the dimension's scale; 0: it gives none.
func (h *DimensionConfig) sigma(z []float32) float64 {
	if h.Outputs != OutputMuSigma {
		return 0
	}
	s := math.Exp(float64(z[1]))
	if len(h.Scale) == 2 {
		s /= math.Abs(h.Scale[1] - h.Scale[0])
	}
	return s
}

// probabilities are those of classes or choices, nil of other heads.
func (h *DimensionConfig) probabilities(z []float32) []float64 {
	if h.Outputs != OutputClasses && h.Outputs != OutputChoices {
		return nil
	}
	top := float64(z[0])
	for _, v := range z {
		top = max(top, float64(v))
	}
	sum, p := 0.0, make([]float64, len(z))
	for i, v := range z {
		p[i] = math.Exp(float64(v) - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// likeliest is the index of the largest logit, the first one on a tie.
func likeliest(z []float32) int {
	best := 0
	for i, v := range z {
		if v > z[best] {
			best = i
		}
	}
	return best
}

// resolveChoices takes the rows of choices out of the backbone's output layer, where the scorer has none of its own.
func (s *Scorer) resolveChoices(t *text.Processor) error {
	for name, h := range s.config.Heads {
		if h.Outputs != OutputChoices || h.Joint {
			continue
		}
		seen, ids := map[int64]string{}, make([]int64, len(h.Choices))
		for i, choice := range h.Choices {
			id, err := t.Row(choice)
			if other, twice := seen[id]; err == nil && twice {
				err = fmt.Errorf("%q and %q are the same token", other, choice)
			}
			if err != nil {
				return fmt.Errorf("heads.%s.choices: every choice must be one token, and all different "+
					"(joint choices may be of several): %w", name, err)
			}
			ids[i], seen[id] = id, choice
		}
		for _, member := range s.config.memberPrefixes() {
			if err := s.ownRows(member+headPrefix(name)+"rows", ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownRows reads the rows of choices under a name, unless the scorer has them.
func (s *Scorer) ownRows(key string, ids []int64) error {
	if s.net.Tensors[key] != nil {
		return nil
	}
	if s.net.Backbone.Weights.Absent() { // a plan: nothing is computed
		shape := []int{len(ids), s.net.Backbone.Decoder().Hidden}
		s.net.Tensors[key] = tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
		return nil
	}
	rows, err := s.outputRows(ids)
	if err == nil {
		s.net.Tensors[key] = rows
	}
	return err
}

// outputRows reads some rows of the output layer, which the adapter may bring whole.
func (s *Scorer) outputRows(ids []int64) (*tensor.Dense, error) {
	key := s.net.Backbone.Keys().Output
	if s.net.Adapter == nil || !slices.Contains(s.net.Adapter.Whole, lora.Canonical(key)) {
		return tableRows(s.net.Backbone.Weights, key, ids)
	}
	table := s.net.Tensors[lora.NameParameter(lora.Canonical(key))]
	all, width := table.Data().([]float32), table.Shape()[1]
	var out []float32
	for _, id := range ids {
		out = append(out, all[int(id)*width:(int(id)+1)*width]...)
	}
	return tensor.New(tensor.WithShape(len(ids), width), tensor.WithBacking(out)), nil
}

// tableRows reads some rows of a table [V, H] as float32.
func tableRows(w *checkpoints.Weights, key string, ids []int64) (*tensor.Dense, error) {
	info, ok := w.Info(key)
	if !ok || len(info.Shape) != 2 {
		return nil, fmt.Errorf("the checkpoint holds no table %q", key)
	}
	raw, err := w.Bytes(key)
	if err != nil {
		return nil, err
	}
	width := int(info.Shape[1])
	size := int64(width * info.Type.Size())
	var out []float32
	for _, id := range ids {
		values, err := checkpoints.Float32s(info.Type, raw[id*size:(id+1)*size])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, values...)
	}
	return tensor.New(tensor.WithShape(len(ids), width), tensor.WithBacking(out)), nil
}

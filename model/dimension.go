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

// headPrefix is the name prefix of a head's tensors in head.safetensors.
func headPrefix(name string) string {
	if name == "" {
		return ""
	}
	return "heads." + name + "."
}

// isChoiceRows reports whether a tensor holds the rows of a choices head. A scorer may have its own rows; otherwise
// the backbone's output layer provides them.
func isChoiceRows(name string) bool { return strings.HasSuffix(name, ".rows") }

// width is the number of a head's outputs.
func (h *DimensionConfig) width() int {
	switch h.Outputs {
	case OutputClasses, OutputChoices:
		return len(h.Values)
	case OutputMuSigma:
		return 2
	}
	return 1
}

// heads are the names of the heads that read a state, sorted: all but joint choices.
func (c *ScorerConfig) heads() []string {
	names := slices.Sorted(maps.Keys(c.Heads))
	return slices.DeleteFunc(names, func(name string) bool { return c.Heads[name].Joint })
}

// bounded are the heads whose standard deviations the score depends on, sorted; none without a lower bound.
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

// build returns the head's outputs [n, width] for states x [n, hidden]. prefix is the name prefix of its tensors.
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

// dimension computes the dimension [n], on which the head's scale is 0..1, from the head's outputs z [n, width]; for
// joint choices z are the log likelihoods.
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

// sigma is the standard deviation in a head's outputs z, on the dimension's scale; 0 if the head has none.
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

// probabilities are the probabilities of classes or choices; nil for other heads.
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

// resolveChoices takes the rows of choices from the backbone's output layer, unless the scorer has its own.
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
					"(joint choices may have several tokens): %w", name, err)
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

// ownRows reads the rows of choices into the tensor key, unless the scorer has it.
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

// outputRows reads some rows of the output layer, which the adapter may replace.
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
		return nil, fmt.Errorf("the checkpoint has no table %q", key)
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

package model

import (
	"fmt"

	"assay/onnx"
)

// HeadConfig is the `head` of scorer.yaml: an MLP from the hidden state at the score token.
type HeadConfig struct {
	Hidden     []int     `yaml:"hidden" json:"hidden"`         // widths of the hidden layers; may be empty
	Activation string    `yaml:"activation" json:"activation"` // between layers; relu
	Kind       string    `yaml:"kind,omitempty" json:"kind,omitempty"`
	Values     []float64 `yaml:"values,omitempty" json:"values,omitempty"` // of the classes, on 0..1
}

// Classes reports whether the head gives one output per value instead of the score itself.
func (h *HeadConfig) Classes() bool { return h.Kind == "classification" }

// Outputs is the width of the last layer.
func (h *HeadConfig) Outputs() int {
	if h.Classes() {
		return len(h.Values)
	}
	return 1
}

// Sizes lists the widths from the backbone's hidden state to the outputs.
func (h *HeadConfig) Sizes(hidden int) []int {
	return append(append([]int{hidden}, h.Hidden...), h.Outputs())
}

// Build returns z [n, outputs] and score01 [n] for hidden states h [n, hidden].
// Regression: score01 = z. Classification: score01 = sum_k softmax(z)_k values_k.
func (h *HeadConfig) Build(g *Graph, x string) (z, score string) {
	sizes := len(h.Hidden) + 1
	for i := range sizes {
		layer := fmt.Sprintf("layers.%d.", i)
		x = g.OpA("Gemm", onnx.Attrs{"transB": 1}, x, g.ScorerTensor(layer+"weight"), g.ScorerTensor(layer+"bias"))
		if i < sizes-1 {
			x = g.Activation(x, h.Activation)
		}
	}
	if !h.Classes() {
		return x, g.Op("Squeeze", x, g.Ints(1))
	}
	values := make([]float32, len(h.Values))
	for i, v := range h.Values {
		values[i] = float32(v)
	}
	p := g.OpA("Softmax", onnx.Attrs{"axis": -1}, x)
	s := g.Op("MatMul", p, g.Floats([]int64{int64(len(values)), 1}, values...))
	return x, g.Op("Squeeze", s, g.Ints(1))
}

// Loss returns the score loss per example [n]. Regression: |score01 - label| for labels [n] on 0..1. Classification:
// the cross-entropy -log softmax(z)_class for one-hot classes [n, outputs].
func (h *HeadConfig) Loss(g *Graph, z, score string) string {
	if !h.Classes() {
		return g.Op("Abs", g.Op("Sub", score, g.Input("label", onnx.Float, onnx.Dims("examples"))))
	}
	class := g.Input("label_class", onnx.Float, onnx.Dims("examples", h.Outputs()))
	logp := g.OpA("LogSoftmax", onnx.Attrs{"axis": -1}, z)
	return g.Op("Neg", g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", class, logp), g.Ints(1)))
}

package nn

import "assay/onnx"

// Module is a part of a layer: rows [rows, in] become rows [rows, out]. Both have the type of the large products
// (Graph.Compute), except that the input of a norm and the sums that layers add to are float32.
type Module interface {
	Forward(g *Graph, x string) string
}

// Prefix is the prefix of the names of a layer's parts.
type Prefix struct {
	Key    string // in the checkpoint
	Module string // in the paths by which PEFT identifies layers
}

// Sub is the prefix of the parts under a name, which ends in a dot.
func (p Prefix) Sub(name string) Prefix { return Prefix{p.Key + name, p.Module + name} }

// Linear is the linear layer with that name.
func (p Prefix) Linear(name string) *Linear { return &Linear{p.Key + name, p.Module + name} }

// Linear is x W' + b, with an adapter if there is one; see [Graph.Linear].
type Linear struct{ Key, Module string }

// Forward returns rows [rows, out].
func (l *Linear) Forward(g *Graph, x string) string { return g.Linear(x, l.Key, l.Module) }

// RMSNorm is [Graph.RMSNorm] with the weight KEY.weight.
type RMSNorm struct {
	Key string
	Eps float64
}

// Forward returns rows of the same width.
func (n *RMSNorm) Forward(g *Graph, x string) string { return g.Narrow(g.RMSNorm(x, n.Key, n.Eps)) }

// LayerNorm is [Graph.LayerNorm] with the weight KEY.weight and the bias KEY.bias.
type LayerNorm struct {
	Key string
	Eps float64
}

// Forward returns rows of the same width.
func (n *LayerNorm) Forward(g *Graph, x string) string { return g.Narrow(g.LayerNorm(x, n.Key, n.Eps)) }

// GatedMLP is down(act(gate(x)) up(x)).
type GatedMLP struct {
	Gate, Up, Down Module
	Activation     string
}

// GatedMLP returns a gated MLP with the usual names gate_proj, up_proj and down_proj.
func (p Prefix) GatedMLP(activation string) *GatedMLP {
	return &GatedMLP{p.Linear("gate_proj"), p.Linear("up_proj"), p.Linear("down_proj"), activation}
}

// Forward returns rows as wide as Down's output.
func (m *GatedMLP) Forward(g *Graph, x string) string {
	if g.Kernels == Fused && (m.Activation == "silu" || m.Activation == "swish") {
		return m.Down.Forward(g, g.Node(onnx.FusedDomain, "SwiGLU", 1, nil, g.joined(x, m.Gate, m.Up))[0])
	}
	gate := g.activate(m.Gate.Forward(g, x), m.Activation)
	return m.Down.Forward(g, g.Op("Mul", gate, m.Up.Forward(g, x)))
}

// MLP is second(act(first(x))).
type MLP struct {
	First, Second Module
	Activation    string
}

// Forward returns rows as wide as Second's output.
func (m *MLP) Forward(g *Graph, x string) string {
	return m.Second.Forward(g, g.activate(m.First.Forward(g, x), m.Activation))
}

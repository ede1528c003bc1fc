// Package head implements mode head: the head of a scorer as Gorgonia graphs, and the hidden states that it trains
// on, which the backbone computes once and a store caches.
package head

import (
	"errors"
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"assay/internal/optim"
	"assay/losses"
	"assay/model"
)

// Result is one pass of a head over a batch.
type Result struct {
	Score []float64 // score01 of each row: z, or sum_k softmax(z)_k values_k
	Loss  []float64 // |score01 - label|, or -log softmax(z)_class; absent without labels
	Grads []*tensor.Dense
}

// Gorgonia is the head as Gorgonia graphs, one for each batch size that occurs. It is a second implementation of what
// the nodes of the step graph compute: mode head trains with it, and each serves as a test of the other.
type Gorgonia struct {
	Head   model.HeadConfig
	In     int // width of the hidden state
	Params []optim.Param
	graphs map[int]*headGraph
}

// NewGorgonia creates a head on params: layers.N.weight [out, in] and layers.N.bias [out] for N = 0, 1, ... in this
// order, float32. The values are used in place.
func NewGorgonia(head model.HeadConfig, params []optim.Param) (*Gorgonia, error) {
	layers := len(head.Hidden) + 1
	if len(params) != 2*layers {
		return nil, fmt.Errorf("a head with %d layers has %d tensors, not %d", layers, 2*layers, len(params))
	}
	first := params[0].Value.Shape()
	if len(first) != 2 {
		return nil, fmt.Errorf("want %s of shape [out, in], not of shape %v", params[0].Name, first)
	}
	in := first[1]
	sizes := head.Sizes(in)
	for i := range layers {
		weight, bias := params[2*i], params[2*i+1]
		if err := wantParam(weight, fmt.Sprintf("layers.%d.weight", i), sizes[i+1], sizes[i]); err != nil {
			return nil, err
		}
		if err := wantParam(bias, fmt.Sprintf("layers.%d.bias", i), sizes[i+1]); err != nil {
			return nil, err
		}
	}
	return &Gorgonia{Head: head, In: in, Params: params, graphs: map[int]*headGraph{}}, nil
}

func wantParam(p optim.Param, name string, shape ...int) error {
	if want := tensor.Shape(shape); p.Name != name || !p.Value.Shape().Eq(want) {
		return fmt.Errorf("want %s of shape %v, not %s of shape %v", name, want, p.Name, p.Value.Shape())
	}
	return nil
}

// headGraph is the graph of one batch size with its machine.
type headGraph struct {
	hidden, target *G.Node
	machine        G.VM
	z, loss        G.Value // read after a run: z [N, 1], or log softmax(z) [N, values]
	grads          []G.Value
}

// Run returns scores for hidden states [N][In]. With labels (0..1) it also returns each row's loss and the gradients
// of scale times their sum, in the order of the parameters.
func (h *Gorgonia) Run(hidden [][]float32, labels []float64, scale float64) (*Result, error) {
	n, out := len(hidden), h.Head.Outputs()
	g, ok := h.graphs[n]
	if !ok {
		var err error
		if g, err = h.build(n); err != nil {
			return nil, fmt.Errorf("building the head in Gorgonia: %w", err)
		}
		h.graphs[n] = g
	}
	x := make([]float32, 0, n*h.In)
	for _, row := range hidden {
		x = append(x, row...)
	}
	if len(x) != n*h.In {
		return nil, fmt.Errorf("want hidden states of width %d", h.In)
	}
	target := make([]float32, n*out)
	for i, label := range labels {
		if h.Head.Classes() {
			target[i*out+losses.Nearest(h.Head.Values, label)] = 1
		} else {
			target[i] = float32(label)
		}
	}
	if err := g.run(x, target, n, h.In, out); err != nil {
		return nil, fmt.Errorf("running the head in Gorgonia: %w", err)
	}
	return h.result(g, n, labels, float32(scale))
}

func (g *headGraph) run(x, target []float32, n, in, out int) error {
	defer g.machine.Reset()
	if err := G.Let(g.hidden, tensor.New(tensor.WithShape(n, in), tensor.WithBacking(x))); err != nil {
		return err
	}
	if err := G.Let(g.target, tensor.New(tensor.WithShape(n, out), tensor.WithBacking(target))); err != nil {
		return err
	}
	return g.machine.RunAll()
}

func (h *Gorgonia) result(g *headGraph, n int, labels []float64, scale float32) (*Result, error) {
	r := &Result{Score: make([]float64, n)}
	z, loss := elements(g.z), elements(g.loss)
	for i := range n {
		if !h.Head.Classes() {
			r.Score[i] = float64(z[i])
			continue
		}
		for k, v := range h.Head.Values {
			r.Score[i] += v * math.Exp(float64(z[i*len(h.Head.Values)+k]))
		}
	}
	if labels == nil {
		return r, nil
	}
	width := len(loss) / n
	for i := range n {
		sum := 0.0
		for _, l := range loss[i*width : (i+1)*width] {
			sum += float64(l)
		}
		r.Loss = append(r.Loss, sum)
	}
	for i, p := range h.Params {
		from := elements(g.grads[i])
		if len(from) != p.Value.DataSize() {
			return nil, fmt.Errorf("the gradient of %s has %d elements, not %d", p.Name, len(from), p.Value.DataSize())
		}
		d := make([]float32, len(from))
		for j, v := range from {
			d[j] = scale * v
		}
		r.Grads = append(r.Grads, tensor.New(tensor.WithShape(p.Value.Shape()...), tensor.WithBacking(d)))
	}
	return r, nil
}

// elements returns a value's float32s; a scalar is one element.
func elements(v G.Value) []float32 {
	switch x := v.Data().(type) {
	case []float32:
		return x
	case float32:
		return []float32{x}
	}
	return nil
}

// build builds the graph for n rows: z = W_k relu(... W_0 h + b_0 ...) + b_k, the loss of each element and the
// gradients of its sum. Classes only use LogSoftMax: Gorgonia treats SoftMax of the same node as the same operation.
func (h *Gorgonia) build(n int) (*headGraph, error) {
	b := &headBuilder{g: G.NewGraph()}
	r := &headGraph{grads: make([]G.Value, len(h.Params))}
	r.hidden = G.NewMatrix(b.g, tensor.Float32, G.WithShape(n, h.In), G.WithName("hidden"))
	r.target = G.NewMatrix(b.g, tensor.Float32, G.WithShape(n, h.Head.Outputs()), G.WithName("target"))
	x := r.hidden
	var wrt G.Nodes
	for i := 0; i < len(h.Params); i += 2 {
		w := G.NewMatrix(b.g, tensor.Float32, G.WithValue(h.Params[i].Value), G.WithName(h.Params[i].Name))
		bias := G.NewVector(b.g, tensor.Float32, G.WithValue(h.Params[i+1].Value), G.WithName(h.Params[i+1].Name))
		wrt = append(wrt, w, bias)
		if i > 0 {
			x = b.relu(x)
		}
		x = b.linear(x, w, bias)
	}
	if b.err != nil {
		return nil, b.err
	}
	var loss *G.Node
	if h.Head.Classes() {
		x = b.op(G.LogSoftMax(x, 1))
		loss = b.op(G.Neg(b.op(G.HadamardProd(r.target, x))))
	} else {
		loss = b.op(G.Abs(b.op(G.Sub(x, r.target))))
	}
	G.Read(x, &r.z)
	G.Read(loss, &r.loss)
	grads, err := G.Grad(b.op(G.Sum(loss)), wrt...)
	if err != nil {
		return nil, err
	}
	for i, d := range grads {
		G.Read(d, &r.grads[i])
	}
	r.machine = G.NewTapeMachine(b.g)
	return r, nil
}

// headBuilder keeps the first error, so that formulas stay readable.
type headBuilder struct {
	g   *G.ExprGraph
	err error
}

func (b *headBuilder) op(n *G.Node, err error) *G.Node {
	if err != nil && b.err == nil {
		b.err = err
	}
	return n
}

// linear returns x W' + b for x [N, in], W [out, in], b [out].
func (b *headBuilder) linear(x, w, bias *G.Node) *G.Node {
	if b.err != nil {
		return x
	}
	y := b.op(G.Mul(x, b.op(G.Transpose(w, 1, 0))))
	if b.err != nil {
		return x
	}
	return b.op(G.BroadcastAdd(y, bias, nil, []byte{0}))
}

// relu multiplies x by (x > 0), so that the gradient at 0 is 0 as in PyTorch (Gorgonia's Rectify has 1 there).
func (b *headBuilder) relu(x *G.Node) *G.Node {
	if b.err != nil {
		return x
	}
	positive := b.op(G.Gt(x, G.NewConstant(float32(0)), true))
	if b.err != nil {
		return x
	}
	return b.op(G.HadamardProd(x, positive))
}

// Close frees the graphs' machines.
func (h *Gorgonia) Close() error {
	var err error
	for _, g := range h.graphs {
		err = errors.Join(err, g.machine.Close())
	}
	return err
}

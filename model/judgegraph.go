package model

import (
	"fmt"

	"assay/onnx"
)

// Names of the graphs of format 2.
const (
	inGradient = "score_gradient" // [examples, heads]: d score / d dimension, heads sorted by name
	outSaid    = "said"           // [examples] int64: the likeliest next token behind the state that is read
	ofHead     = "head."          // + name, [examples, outputs]
	ofScore    = "score01."       // + name, [examples]: the dimension
)

// judgeSpec says what a graph of format 2 gives besides heads and dimensions.
type judgeSpec struct {
	State  bool // the states that are read
	Say    bool // the next token
	Pixels bool // d (gradient . dimensions) / d pixel_values; the vision tower is in the graph
}

// judgeGraph is a forward pass of format 2: all heads read every state, so that passes share batches and a session.
func (n *network) judgeGraph(s judgeSpec) (name string, build buildFunc) {
	return fmt.Sprintf("judge %+v", s), n.prepacked(func(g *Graph) (*built, error) { return buildJudge(g, n, s) })
}

func buildJudge(g *Graph, n *network, s judgeSpec) (*built, error) {
	keys := n.backbone.Keys()
	h, read := n.judgeStates(g, 1, s.Pixels || n.visionTrained())
	var dimensions []string
	for _, name := range n.config.heads() {
		head := n.config.Heads[name]
		z, d := head.build(g, name, h)
		z, d = read(z), read(d)
		g.Output(ofHead+name, z, onnx.Float, onnx.Dims("examples", head.width()))
		g.Output(ofScore+name, d, onnx.Float, onnx.Dims("examples"))
		dimensions = append(dimensions, g.Op("Unsqueeze", d, g.Ints(1)))
	}
	if s.State {
		g.Output(outHidden, read(h), onnx.Float, onnx.Dims("examples", n.backbone.Decoder().Hidden))
	}
	if s.Say {
		g.Output(outSaid, read(g.nextToken(keys, h)), onnx.Int64, onnx.Dims("examples"))
	}
	if s.Pixels {
		gradient := g.Input(inGradient, onnx.Float, onnx.Dims("examples", len(dimensions)))
		all := g.Op("Mul", g.OpA("Concat", onnx.Attrs{"axis": 1}, dimensions...), gradient)
		all = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, all, g.Ints(0, 1))
		g.Output(outLoss, g.Op("Reshape", all, g.Ints(1)), onnx.Float, onnx.Dims(1))
	}
	if g.err != nil {
		return nil, g.err
	}
	out := &built{Model: g.M, Params: g.Params, Grads: map[string]string{}}
	if !s.Pixels {
		return out, nil
	}
	var err error
	out.Grads, err = g.Backward(outLoss, inPixels)
	return out, err
}

// judgeStates are the states of all selected rows [selected, hidden] of a batch of that many groups of one length, and
// what takes those out that are read.
func (n *network) judgeStates(g *Graph, groups int, vision bool) (h string, read func(x string) string) {
	b := n.backbone
	dec, keys := b.Decoder(), b.Keys()
	ids := g.Input(inTextIDs, onnx.Int64, onnx.Dims("text_tokens"))
	order := g.Input(inOrder, onnx.Int64, onnx.Dims("rows"))
	p := newPacking(g, groups, true)
	rows := g.Input(inScoreRows, onnx.Int64, onnx.Dims("examples"))
	features := inFeatures
	if vision {
		g.Scoped("vision", func() { features = b.Vision(g) })
	} else {
		g.Input(inFeatures, onnx.Float, onnx.Dims("image_tokens", dec.FeatureWidth()))
	}
	x := g.embed(keys, dec, p, ids, order, "", features)
	h = dec.Forward(g, x, dec.Rotary(g), p) // [selected, hidden]
	read = func(x string) string {          // heads see all selected rows: see packing.span
		y := g.OpA("Gather", onnx.Attrs{"axis": 0}, x, rows)
		g.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
		return y
	}
	return h, read
}

// nextToken is the likeliest token behind each state, [rows]; the first one on a tie.
func (g *Graph) nextToken(keys Keys, h string) string {
	logits := g.wide(g.OpA("Gemm", onnx.Attrs{"transB": 1}, g.narrow(h), g.param(keys.Output, g.compute)))
	return g.OpA("ArgMax", onnx.Attrs{"axis": 1, "keepdims": 0}, logits)
}

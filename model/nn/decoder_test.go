package nn_test

import (
	"fmt"
	"testing"

	"assay/model/backbone"
	_ "assay/model/families"
	"assay/model/nn"
	"assay/onnx"
)

// normed is a query with a norm for each head, as families beyond Qwen2 have.
type normed struct {
	nn.Module
	key string
	dim int
	eps float64
}

func (n *normed) Forward(g *nn.Graph, x string) string {
	y := g.Op("Reshape", n.Module.Forward(g, x), g.Ints(-1, int64(n.dim)))
	return g.Op("Reshape", g.RMSNorm(y, n.key, n.eps), g.Shape(g.SizeOf(x, 0), -1))
}

// injected adds features to a layer's output.
type injected struct {
	nn.Layer
	features string
}

func (l injected) Forward(g *nn.Graph, x nn.Residual, v *nn.View) nn.Residual {
	return nn.Residual{Sum: g.Op("Add", l.Layer.Forward(g, x, v).Whole(g), l.features)}
}

// A family replaces one part of a layer, or wraps it, and everything else stays as it is: the graph without the new
// nodes is the standard one.
func TestFamilyReplacesParts(t *testing.T) {
	b, err := backbone.OpenBackbone("../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := *b.Decoder()
	build := func() (ops []string) {
		g := nn.NewGraph("decoder", b.Weights)
		x := g.Input("x", onnx.Float, onnx.Dims("rows", d.Hidden))
		g.Input("features", onnx.Float, onnx.Dims("rows", d.Hidden))
		p := nn.NewPacking(g, 1, false)
		g.Output("y", d.Forward(g, x, d.Rotary(g), p), onnx.Float, onnx.Dims("rows", d.Hidden))
		if err := g.Err(); err != nil {
			t.Fatal(err)
		}
		for _, n := range g.M.Nodes {
			ops = append(ops, n.Op)
		}
		return ops
	}
	standard := build()

	query := &normed{dim: d.HeadDim, eps: d.Eps, key: d.Key + "norm"} // any weight of the checkpoint will do
	d.Layer = func(i int, l *nn.DecoderLayer) nn.Layer {
		if i != 1 {
			return l
		}
		query.Module, l.Attention.Query = l.Attention.Query, query
		return injected{l, "features"}
	}
	changed := build()
	added := []string{"Reshape", "RMSNormalization", "Shape", "Concat", "Reshape", "Add"}
	count := func(ops []string) map[string]int {
		n := map[string]int{}
		for _, op := range ops {
			n[op]++
		}
		return n
	}
	want, got := count(standard), count(changed)
	for _, op := range added {
		want[op]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("nodes by operator: %v, want %v", got, want)
	}
}

package nn

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gorgonia.org/tensor"

	"assay/lora"
	"assay/onnx"
	"assay/ort"
)

// TestOmitUnread: a fused operator has no optional output that nothing reads, be it a node, the body of one, or the
// caller. Other outputs stay.
func TestOmitUnread(t *testing.T) {
	b := onnx.NewBuilder("outputs", Opset)
	x, w := b.Input("x", onnx.Float, onnx.Dims("rows", 8)), b.Input("w", onnx.Float, onnx.Dims(8))
	segments := b.Input("segments", onnx.Int32, onnx.Dims("n", 5))
	var got [][]string
	node := func(op string, outputs int, at onnx.Attrs, in ...string) []string {
		y := b.Node(onnx.FusedDomain, op, outputs, at, in...)
		got = append(got, b.Last().Outputs)
		return y
	}
	first := node("AddRMSNorm", 3, nil, x, x, w)
	parts := node("RopeSplit", 3, onnx.Attrs{"heads": 2}, b.OpA("Concat", onnx.Attrs{"axis": 1}, first[1], x, x), x, x)
	seen := node("FlashAttention", 2, onnx.Attrs{"heads": 2}, parts[0], parts[0], parts[0], segments)
	second := node("AddRMSNorm", 3, nil, first[0], seen[0], w)
	b.Output("sum", second[0], onnx.Float, nil)
	OmitUnread(b.M)
	want := [][]string{{first[0], first[1], ""}, parts, {seen[0], ""}, {second[0], "", ""}}
	for _, n := range b.M.Nodes { // the builder may have renamed outputs
		if n.Domain == onnx.FusedDomain && n.Op == "AddRMSNorm" && n.Outputs[0] == "sum" {
			want[3][0] = "sum"
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

// matrices are a checkpoint of float32 matrices.
type matrices map[string]*onnx.Tensor

func (m matrices) Has(name string) bool                     { return m[name] != nil }
func (m matrices) Tensor(name string) (*onnx.Tensor, error) { return m[name], nil }
func (m matrices) Dense(name string) (*tensor.Dense, error) { return nil, errors.New("not read") }

func random(rng *rand.Rand, n, k int64) *tensor.Dense {
	x := make([]float32, n*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return tensor.New(tensor.WithShape(int(n), int(k)), tensor.WithBacking(x))
}

func runModel(t *testing.T, m *onnx.Model, in map[string]*tensor.Dense) map[string]*tensor.Dense {
	t.Helper()
	s, err := ort.Open(m, ort.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestJoinedDropout: layers that are one product have the outputs and gradients of separate ones, with dropout of each
// adapter's rows, too.
func TestJoinedDropout(t *testing.T) {
	const rows, in = 5, 12
	widths, ranks := map[string]int64{"q": 6, "k": 3, "v": 4}, map[string]int64{"q": 2, "v": 3}
	for _, rate := range []float64{0, 0.4} {
		var results []map[string]*tensor.Dense
		for _, join := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(1, 2))
			weights := matrices{}
			adapter := &lora.Adapter{Config: &lora.Config{Dropout: rate}}
			g := NewGraph("joined", weights)
			feeds := map[string]*tensor.Dense{"x": random(rng, rows, in)}
			g.Kernels, g.Adapter, g.Tensors = Fused, adapter, feeds
			g.TrainsTensor = func(string) bool { return true }
			if rate > 0 {
				g.UseDropout(rate)
				feeds[InDropoutSeed] = tensor.New(tensor.WithShape(1), tensor.WithBacking([]int64{77}))
			}
			var layers []Module
			for _, name := range []string{"q", "k", "v"} {
				w := random(rng, widths[name], in)
				weights[name+".weight"] = &onnx.Tensor{Name: name + ".weight", Type: onnx.Float,
					Shape: []int64{widths[name], in}, Data: onnx.Float32Bytes(w.Float32s())}
				layers = append(layers, &Linear{Key: name, Module: name})
				r := ranks[name]
				if r == 0 {
					continue
				}
				adapter.Targets = append(adapter.Targets, lora.Target{Module: name, Rank: int(r), Scale: 1.5})
				feeds[lora.NameA(name)], feeds[lora.NameB(name)] = random(rng, r, in), random(rng, widths[name], r)
			}
			x := g.Input("x", onnx.Float, onnx.Dims("rows", in))
			var y string
			if join {
				y = g.joined(x, layers...)
			} else {
				var outs []string
				for _, l := range layers {
					outs = append(outs, l.Forward(g, x))
				}
				y = g.OpA("Concat", onnx.Attrs{"axis": 1}, outs...)
			}
			g.Output("y", y, onnx.Float, nil)
			wrt := []string{"x"}
			for _, p := range g.Params {
				wrt = append(wrt, p.Name)
			}
			if _, err := g.Backward(g.Op("Mul", y, y), wrt...); err != nil || g.Err() != nil {
				t.Fatal(err, g.Err())
			}
			results = append(results, runModel(t, g.M, feeds))
		}
		if len(results[0]) != 6 {
			t.Errorf("got %d outputs, want y and 5 gradients", len(results[0]))
		}
		for name, want := range results[0] {
			got := results[1][name]
			if diff := cmp.Diff(want.Data(), got.Data(), cmpopts.EquateApprox(1e-5, 1e-5)); diff != "" {
				t.Errorf("rate %g, %s (-separate +joined):\n%s", rate, name, diff)
			}
		}
	}
}

package grad

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/packed"
	"assay/onnx"
	"assay/ort"
)

// TestAttentionIsTheOperator: the decomposition of Attention returns the values of the onnx package's reference
// evaluator (see tools/oracle/onnx_attention.py), which the runtime's kernel does not always: rows that see no key,
// windows, padding. Its gradients are finite and correct.
func TestAttentionIsTheOperator(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(packed.Unpack(t, "testdata/attention.zip"), "*.onnx"))
	if err != nil || len(files) < 15 {
		t.Fatalf("got %d files, %v, want at least 15", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".onnx"), func(t *testing.T) {
			m, err := onnx.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			feeds, want := map[string]*tensor.Dense{}, map[string][]float64{}
			weights := m.Initializers
			m.Initializers = nil
			for _, w := range weights {
				name, expected := strings.CutPrefix(w.Name, "want/")
				switch {
				case expected:
					want[name] = onnx.Floats(w)
				case w.Type == onnx.Float:
					feeds[w.Name] = dense(onnx.Float, ints(w.Shape), onnx.Floats(w))
				default: // boolean masks and lengths
					m.Initializers = append(m.Initializers, w)
				}
			}
			kept := m.Inputs[:0:0]
			for _, in := range m.Inputs {
				if feeds[in.Name] != nil {
					kept = append(kept, in)
				}
			}
			m.Inputs = kept
			checkAttention(t, m, feeds, want)
		})
	}
}

func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = int(d)
	}
	return out
}

// checkAttention replaces the model's only node by the decomposition, and differentiates that.
func checkAttention(t *testing.T, m *onnx.Model, feeds map[string]*tensor.Dense, want map[string][]float64) {
	node := m.Nodes[0]
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(m, types)
	c := &call{
		Builder:   e.b,
		e:         e,
		n:         node,
		x:         node.Inputs,
		y:         node.Outputs,
		dy:        node.Outputs,
		needsGrad: make([]bool, len(node.Inputs)),
	}
	ys := attention(c)
	if c.err != nil || e.sync() != nil {
		t.Fatalf("got errors %v, %v, want none", c.err, e.err)
	}
	m.Nodes, m.Outputs = m.Nodes[1:], nil
	o := Options{}
	for _, in := range m.Inputs {
		o.Wrt = append(o.Wrt, in.Name)
	}
	for i, y := range node.Outputs {
		if y != "" {
			m.Nodes = append(
				m.Nodes,
				&onnx.Node{Name: y, Op: "Identity", Inputs: []string{ys[i]}, Outputs: []string{y}},
			)
			m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: y, Type: onnx.Float})
		}
	}
	// The loss is the sum of squares of the first output, which is zero in rows that see no key.
	b := onnx.Extend(m)
	square := b.OpA("ReduceSumSquare", onnx.Attrs{"keepdims": 0}, node.Outputs[0])
	o.Outputs = []string{square}
	grads, err := Append(m, o)
	if err != nil {
		t.Fatal(err)
	}
	m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: square, Type: onnx.Float})
	for _, g := range grads {
		m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: g, Type: onnx.Float})
	}
	s, err := ort.Open(m, ort.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := func(feeds map[string]*tensor.Dense) map[string]*tensor.Dense {
		out, err := s.Run(context.Background(), feeds)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run(feeds)
	for y, w := range want {
		for i, v := range floats(out[y]) {
			if !(v == w[i] || math.Abs(v-w[i]) <= 1e-5*(1+math.Abs(w[i]))) {
				t.Fatalf("%s[%d]: got %g, want the reference's %g", y, i, v, w[i])
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	moved := func(x string, dir []float64, h float64) float64 {
		at := map[string]*tensor.Dense{}
		for k, v := range feeds {
			at[k] = v
		}
		v := floats(feeds[x])
		for i := range v {
			v[i] += h * dir[i]
		}
		at[x] = dense(onnx.Float, shapeOf(feeds[x]), v)
		return floats(run(at)[square])[0]
	}
	for _, x := range o.Wrt {
		g := floats(out[grads[x]])
		dir, got := make([]float64, len(g)), 0.0
		for i := range g {
			dir[i] = rng.NormFloat64()
			got += g[i] * dir[i]
		}
		const h = 5e-3
		if numeric := (moved(x, dir, h) - moved(x, dir,
			-h)) / (2 * h); !(math.Abs(numeric-got) <= 1e-2*(1+math.Abs(numeric))) {
			t.Errorf("derivative with respect to %s: got %g, want the finite difference %g", x, got, numeric)
		}
	}
}

package grad_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/onnx"
	"assay/onnx/grad"
	"assay/ort"
)

// attention is a case of FlashAttention: rows of queries and keys, which attends to which, and heads.
type attention struct {
	queries, keys   int
	segments        [][5]int // q0, qn, k0, kn, offset
	heads, kv, size int
	window          int
	scale           float64
}

// visible reports whether query i attends to key j.
func (a attention) visible(i, j int) bool {
	for _, s := range a.segments {
		q, k := i-s[0], j-s[2]
		if q < 0 || q >= s[1] || k < 0 || k >= s[3] || k > s[4]+q || a.window > 0 && s[4]+q-k >= a.window {
			continue
		}
		return true
	}
	return false
}

// pack makes a case of concatenated sequences; the sequences of a group share the rows of a prefix.
func pack(prefixes []int, lengths [][]int, a attention) attention {
	for i, prefix := range prefixes {
		start := a.queries
		if prefix > 0 {
			a.segments = append(a.segments, [5]int{start, prefix, start, prefix, 0})
			a.queries += prefix
		}
		for _, n := range lengths[i] {
			a.segments = append(a.segments, [5]int{a.queries, n, start, prefix, prefix}, [5]int{a.queries, n, a.queries, n, 0})
			a.queries += n
		}
	}
	a.keys = a.queries
	return a
}

func attentionCases() map[string]attention {
	causal := func(n int, a attention) attention { return pack([]int{0}, [][]int{{n}}, a) }
	out := map[string]attention{
		"one row":          causal(1, attention{heads: 2, kv: 2, size: 8}),
		"31 rows":          causal(31, attention{heads: 3, kv: 3, size: 5}),
		"64 rows, grouped": causal(64, attention{heads: 8, kv: 2, size: 16, scale: 0.3}),
		"77 rows, window":  causal(77, attention{heads: 7, kv: 1, size: 12, window: 9}),
		"packed":           pack([]int{0, 0, 0}, [][]int{{5}, {17}, {1}}, attention{heads: 2, kv: 1, size: 8}),
		"one prefix":       pack([]int{45}, [][]int{{7, 3, 12}}, attention{heads: 4, kv: 2, size: 8}),
		"prefixes": pack([]int{1, 20, 0}, [][]int{{4, 4}, {1, 2, 3}, {9}},
			attention{heads: 2, kv: 2, size: 80, window: 16}),
		"encoder windows": {queries: 24, keys: 24, heads: 2, kv: 2, size: 9,
			segments: [][5]int{{0, 16, 0, 16, 16}, {16, 8, 16, 8, 8}}},
		"cross": {queries: 6, keys: 10, heads: 2, kv: 1, size: 4, segments: [][5]int{{0, 3, 2, 8, 8}, {4, 2, 0, 5, 3}}},
	}
	return out
}

// graph computes attention of inputs q, k, v with the fused operator or with plain ones, and gradients for a
// cotangent g.
func (a attention) graph(t *testing.T, fused bool) *onnx.Model {
	t.Helper()
	if fused {
		grad.WantsFused(t)
	}
	b := onnx.NewBuilder("attention", 23)
	dims := func(rows, heads int) []onnx.Dim { return onnx.Dims(int64(rows), int64(heads*a.size)) }
	q := b.Input("q", onnx.Float, dims(a.queries, a.heads))
	k := b.Input("k", onnx.Float, dims(a.keys, a.kv))
	v := b.Input("v", onnx.Float, dims(a.keys, a.kv))
	g := b.Input("g", onnx.Float, dims(a.queries, a.heads))
	var o string
	if fused {
		o = a.fused(b, q, k, v)
	} else {
		o = a.plain(b, q, k, v)
	}
	grads, err := grad.Append(b.M, grad.Options{
		Outputs: []string{o}, Cotangents: map[string]string{o: g}, Wrt: []string{"q", "k", "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	addOutput(t, b.M, "o", o)
	for x, g := range grads {
		addOutput(t, b.M, "d"+x, g)
	}
	return b.M
}

func (a attention) fused(b *onnx.Builder, q, k, v string) string {
	var table []float64
	for _, s := range a.segments {
		for _, n := range s {
			table = append(table, float64(n))
		}
	}
	segments := b.Numbers(onnx.Int32, []int64{int64(len(a.segments)), 5}, table...)
	at := onnx.Attrs{
		"heads": int64(a.heads), "kv_heads": int64(a.kv), "window": int64(a.window), "scale": float32(a.scale),
	}
	return b.Node(onnx.FusedDomain, "FlashAttention", 2, at, q, k, v, segments)[0]
}

func (a attention) plain(b *onnx.Builder, q, k, v string) string {
	scale := a.scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(a.size))
	}
	heads := func(x string, n int) string { // [heads, rows, size]
		x = b.Op("Reshape", x, b.Ints(-1, int64(n), int64(a.size)))
		x = b.OpA("Transpose", onnx.Attrs{"perm": []int64{1, 0, 2}}, x)
		if n == a.heads {
			return x
		}
		var each []float64
		for h := range a.heads {
			each = append(each, float64(h/(a.heads/a.kv)))
		}
		return b.Op("Gather", x, b.Numbers(onnx.Int64, []int64{int64(a.heads)}, each...))
	}
	var mask, alive []float64
	for i := range a.queries {
		some := 0.0
		for j := range a.keys {
			m := -1e30
			if a.visible(i, j) {
				m, some = 0, 1
			}
			mask = append(mask, m)
		}
		alive = append(alive, some)
	}
	s := b.Op("MatMul", b.Op("Mul", heads(q, a.heads), b.Scalar(onnx.Float, scale)),
		b.OpA("Transpose", onnx.Attrs{"perm": []int64{0, 2, 1}}, heads(k, a.kv)))
	s = b.Op("Add", s, b.Numbers(onnx.Float, []int64{int64(a.queries), int64(a.keys)}, mask...))
	p := b.OpA("Softmax", onnx.Attrs{"axis": int64(-1)}, s)
	p = b.Op("Mul", p, b.Numbers(onnx.Float, []int64{int64(a.queries), 1}, alive...))
	o := b.OpA("Transpose", onnx.Attrs{"perm": []int64{1, 0, 2}}, b.Op("MatMul", p, heads(v, a.kv)))
	return b.Op("Reshape", o, b.Ints(-1, int64(a.heads*a.size)))
}

// TestFlashAttentionIsPlainAttention compares values and gradients of the fused operator with plain products, masks and
// a softmax: causal and not, packed sequences, shared prefixes, windows, grouped heads, rows that attend to nothing.
func TestFlashAttentionIsPlainAttention(t *testing.T) {
	for name, a := range attentionCases() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(a.queries)))
			in := map[string]*tensor.Dense{
				"q": random(rng, a.queries, a.heads*a.size), "k": random(rng, a.keys, a.kv*a.size),
				"v": random(rng, a.keys, a.kv*a.size), "g": random(rng, a.queries, a.heads*a.size),
			}
			got, want := runModel(t, a.graph(t, true), in), runModel(t, a.graph(t, false), in)
			for _, name := range []string{"o", "dq", "dk", "dv"} {
				compare(t, name, got[name], want[name], 1e-4, 2e-6)
			}
		})
	}
}

func random(rng *rand.Rand, rows, columns int) *tensor.Dense {
	v := make([]float32, rows*columns)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(v))
}

// TestFusedGradientsRepeat: the same bytes with one thread and with several, in every run.
func TestFusedGradientsRepeat(t *testing.T) {
	a := attentionCases()["one prefix"]
	rng := rand.New(rand.NewPCG(3, 3))
	in := map[string]*tensor.Dense{
		"q": random(rng, a.queries, a.heads*a.size), "k": random(rng, a.keys, a.kv*a.size),
		"v": random(rng, a.keys, a.kv*a.size), "g": random(rng, a.queries, a.heads*a.size),
	}
	m := a.graph(t, true)
	want := runModel(t, m, in)
	for threads := range 4 {
		s, err := ort.Open(m, ort.Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for name := range want {
			g, w := onnx.Float32Bytes(got[name].Data().([]float32)), onnx.Float32Bytes(want[name].Data().([]float32))
			if !bytes.Equal(g, w) {
				t.Errorf("%s with %d threads: the bytes differ from those of one thread", name, threads)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlashAttentionRefuses: a table that points outside of the rows is an error, not an out-of-bounds read.
func TestFlashAttentionRefuses(t *testing.T) {
	for want, change := range map[string]func(a *attention){
		"segment 0 is outside of 3 queries and 3 keys": func(a *attention) { a.segments[0][1] = 4 },
		"segment 1 is outside of 3 queries and 3 keys": func(a *attention) { a.segments[1][2] = -1 },
	} {
		t.Run(want, func(t *testing.T) {
			a := pack([]int{1}, [][]int{{2}}, attention{heads: 1, kv: 1, size: 4})
			change(&a)
			rng := rand.New(rand.NewPCG(1, 1))
			s, err := ort.Open(a.graph(t, true), ort.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Run(t.Context(), map[string]*tensor.Dense{
				"q": random(rng, 3, 4), "k": random(rng, 3, 4), "v": random(rng, 3, 4), "g": random(rng, 3, 4),
			})
			if err == nil || !bytes.Contains([]byte(fmt.Sprint(err)), []byte(want)) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		})
	}
}

// TestNormGradientByName: a library of before the norm's gradient read the normed rows knows only AddRMSNormGrad, which
// read the sum, and would take one for the other. Each library refuses the other's operator.
func TestNormGradientByName(t *testing.T) {
	b := onnx.NewBuilder("an old gradient", 17)
	x := b.Input("x", onnx.Float, onnx.Dims("rows", 8))
	w, rstd := b.Input("w", onnx.Float, onnx.Dims(8)), b.Input("rstd", onnx.Float, onnx.Dims("rows"))
	b.Output("dx", b.Node(onnx.FusedDomain, "AddRMSNormGrad", 1, nil, x, "", x, w, rstd)[0], onnx.Float, nil)
	s, err := ort.Open(b.M, ort.Options{})
	if err == nil {
		s.Close()
	}
	if want := "AddRMSNormGrad"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

package exec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// fusedLimit is the largest relative error, by norm, of a GPU's bfloat16 kernels against the CPU's float32 loops.
// Rounding alone causes 0.2 to 0.6 %.
const fusedLimit = 0.02

// checkFused compares the fused operators on a GPU with the CPU's, once per process for each device and head size: a
// kernel that is wrong there, or was built for another driver, causes an error instead of a wrong number.
func checkFused(device string, sizes []int) error {
	for _, size := range sizes {
		at, _ := fusedChecks.LoadOrStore(fmt.Sprint(device, " ", size), sync.OnceValue(func() error {
			return checkFusedHeads(device, size)
		}))
		if err := at.(func() error)(); err != nil {
			return err
		}
	}
	return nil
}

// unchecked is set by `make stub` when it links: on a stub of CUDA, which computes nothing, the comparison would fail.
var unchecked string

// checkFusedHeads checks the fused operators for one head size.
func checkFusedHeads(device string, size int) error {
	n, err := ort.FusedKernels(device)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("libassay_ops.so has no kernels for the GPU %s: a release, and `make "+
			"cuda-ops` in a checkout, have them for compute capability 8.x, 9.0 and 10.0", device)
	}
	if unchecked != "" {
		return nil
	}
	return compareFused(size, func(m *onnx.Model, half bool, in map[string]*tensor.Dense) (
		map[string]*tensor.Dense, error) {
		o := ort.Options{Device: "cpu"}
		if half {
			o.Device = device
		}
		s, err := ort.Open(m, o)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		return s.Run(context.Background(), in)
	})
}

// errWrongKernels is the reason for not using fused operators that compute wrong values.
var errWrongKernels = errors.New("libassay_ops.so is wrong on this GPU")

var fusedChecks sync.Map // device and head size: func() error

// runFused runs a model, in bfloat16 on the device under test or in float32 on the CPU.
type runFused func(m *onnx.Model, half bool, in map[string]*tensor.Dense) (map[string]*tensor.Dense, error)

// compareFused runs all fused operators and their gradients.
func compareFused(size int, run runFused) error {
	wide, in := fusedTrial(size, onnx.Float)
	narrow, _ := fusedTrial(size, onnx.BFloat16)
	want, err := run(wide, false, in)
	if err != nil {
		return err
	}
	got, err := run(narrow, true, in)
	if err != nil {
		return err
	}
	var wrong []string
	for _, o := range wide.Outputs {
		if d := distance(got[o.Name].Float32s(), want[o.Name].Float32s()); !(d <= fusedLimit) {
			op, value, _ := strings.Cut(o.Name, ".")
			wrong = append(wrong, fmt.Sprintf("%s of heads of %d: %s is %.2g of its norm away from the CPU's",
				op, size, value, d))
		}
	}
	if wrong != nil {
		return fmt.Errorf("%w: %s; want at most %g", errWrongKernels, strings.Join(wrong, "; "), fusedLimit)
	}
	return nil
}

// distance is |a - b| / |b|.
func distance(a, b []float32) float64 {
	var difference, norm float64
	for i, w := range b {
		d := float64(a[i] - w)
		difference, norm = difference+d*d, norm+float64(w)*float64(w)
	}
	return math.Sqrt(difference / norm)
}

// fusedTrial returns a model of all fused operators for a head size, and its inputs: a prefix of 20 rows that two
// sequences follow, the second of them longer than a tile.
func fusedTrial(size int, t onnx.DType) (*onnx.Model, map[string]*tensor.Dense) {
	const heads, kv, width = 4, 2, 1300
	var table nn.SegmentTable
	table.Add(0, 20, 0, 20, 0)
	table.Add(20, 30, 0, 20, 20)
	table.Add(20, 30, 20, 30, 0)
	table.Add(50, 150, 0, 20, 20)
	table.Add(50, 150, 50, 150, 0)
	const rows = 200
	b, in := onnx.NewBuilder("fused operators", nn.Opset), map[string]*tensor.Dense{}
	random := rand.New(rand.NewPCG(1, uint64(size)))
	wide := func(name string, shape ...int) string { // exact in bfloat16
		v := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
		for i := range v.Float32s() {
			v.Float32s()[i] = float32(math.Round(random.NormFloat64()*32) / 32)
		}
		in[name] = v
		dims := make([]onnx.Dim, len(shape))
		for i, n := range shape {
			dims[i] = onnx.Fixed(int64(n))
		}
		return b.Input(name, onnx.Float, dims)
	}
	narrow := func(name string, shape ...int) string {
		return b.OpA("Cast", onnx.Attrs{"to": t}, wide(name, shape...))
	}
	op := func(name string, at onnx.Attrs, outputs string, inputs ...string) []string {
		names := strings.Fields(outputs)
		y := b.Node(onnx.FusedDomain, name, len(names), at, inputs...)
		for i, v := range y {
			b.Output(name+"."+names[i], b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, v), onnx.Float, nil)
		}
		return y
	}
	in["segments"] = table.Tensor()
	segments := b.Input("segments", onnx.Int32, []onnx.Dim{onnx.Fixed(int64(len(table) / 5)), onnx.Fixed(5)})
	at := onnx.Attrs{"heads": heads, "kv_heads": kv}
	cos, sin := wide("cos", rows, size/2), wide("sin", rows, size/2)
	x := op("RopeSplit", at, "q k v", narrow("qkv", rows, (heads+2*kv)*size), cos, sin)
	y := op("FlashAttention", at, "o lse", append(x, segments)...)
	g := []string{narrow("g", rows, heads*size), x[0], x[1], x[2], segments, y[0], y[1]}
	op("RopeSplitGrad", at, "dqkv", append(op("FlashAttentionGrad", at, "dq dk dv", g...), cos, sin)...)
	w := wide("w", width)
	for i, x := range in[w].Float32s() {
		if x == 0 {
			in[w].Float32s()[i] = 1
		}
	}
	n := op("AddRMSNorm", nil, "sum n rstd", wide("x", rows, width), narrow("y", rows, width), w)
	op("RMSNormGrad", nil, "dx dy", narrow("dn", rows, width), wide("dsum", rows, width), n[1], w, n[2])
	in["seed"] = tensor.New(tensor.WithShape(1), tensor.WithBacking([]int64{1<<40 + 7}))
	op("Dropout", onnx.Attrs{"rate": 0.25, "site": 3}, "y", narrow("dropped", rows, width),
		b.Input("seed", onnx.Int64, []onnx.Dim{onnx.Fixed(1)}), n[1])
	both := narrow("gate_up", rows, 2*width)
	op("SwiGLU", nil, "y", both)
	op("SwiGLUGrad", nil, "dx", narrow("dy", rows, width), both)
	// Gradients of k and v are summed by another kernel if each key head has one query head.
	for _, c := range []struct {
		name string
		kv   int
		at   onnx.Attrs
	}{
		{", a head of keys each", heads, onnx.Attrs{"heads": heads, "kv_heads": heads}},
		{", window", kv, onnx.Attrs{"heads": heads, "kv_heads": kv, "window": 30}},
	} {
		q := narrow("q"+c.name, rows, heads*size)
		k, v := narrow("k"+c.name, rows, c.kv*size), narrow("v"+c.name, rows, c.kv*size)
		y := b.Node(onnx.FusedDomain, "FlashAttention", 2, c.at, q, k, v, segments)
		d := b.Node(onnx.FusedDomain, "FlashAttentionGrad", 3, c.at, g[0], q, k, v, segments, y[0], y[1])
		for i, name := range []string{"o", "lse", "dq", "dk", "dv"} {
			of := "FlashAttention" + c.name + "." + name
			b.Output(of, b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, append(slices.Clone(y), d...)[i]), onnx.Float, nil)
		}
	}
	return b.M, in
}

package ort

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// storedWeights writes a file of random numbers of several types, and returns their declarations.
func storedWeights(t *testing.T, rows, columns int64) (folder string, stored map[string]*onnx.Tensor) {
	t.Helper()
	folder, stored = t.TempDir(), map[string]*onnx.Tensor{}
	r := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for _, typ := range []onnx.DType{onnx.Float, onnx.Float16, onnx.BFloat16} {
		at := len(data)
		for range rows * columns {
			v := float32(r.NormFloat64() * math.Exp2(float64(r.IntN(40)-20)))
			switch typ {
			case onnx.Float:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			case onnx.Float16:
				data = binary.LittleEndian.AppendUint16(data, onnx.Float16Bits(v))
			default:
				data = binary.LittleEndian.AppendUint16(data, onnx.BFloat16Bits(v))
			}
		}
		name := strings.ToLower(typ.String())
		stored[name] = &onnx.Tensor{Name: name, Type: typ, Shape: []int64{rows, columns},
			External: &onnx.External{Location: "weights", Offset: int64(at), Length: int64(len(data) - at)}}
	}
	if err := os.WriteFile(filepath.Join(folder, "weights"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, stored
}

// castModel multiplies x with casts of the stored tensors, joined with others, and with constants that are computed in
// other ways.
func castModel(stored map[string]*onnx.Tensor) *onnx.Model {
	b := onnx.NewBuilder("casts", 21)
	x := b.Input("x", onnx.Float, onnx.Dims(1))
	for _, name := range []string{"float", "float16", "bfloat16"} {
		b.M.Initializers = append(b.M.Initializers, stored[name])
	}
	for _, from := range []string{"float", "float16", "bfloat16"} {
		for _, to := range []onnx.DType{onnx.Float16, onnx.BFloat16} {
			y := b.OpA("Cast", onnx.Attrs{"to": int64(to)}, from)
			y = b.OpA("Cast", onnx.Attrs{"to": int64(onnx.Float)}, y)
			z := b.OpA("Cast", onnx.Attrs{"to": int64(onnx.Float)}, "bfloat16")
			w := b.OpA("Concat", onnx.Attrs{"axis": 0}, y, "float", z)
			b.Output(fmt.Sprint(from, " ", to), b.Op("Mul", w, x), onnx.Float, onnx.Dims("rows", "columns"))
		}
	}
	b.Output("stored", b.Op("Mul", "float", x), onnx.Float, onnx.Dims("rows", "columns"))
	w := b.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0}}, b.OpA("Cast", onnx.Attrs{"to": int64(onnx.Float)}, "float16"))
	b.Output("transposed", b.Op("Mul", w, x), onnx.Float, onnx.Dims("columns", "rows"))
	side := b.OpA("Concat", onnx.Attrs{"axis": 1}, "float", "float")
	b.Output("beside", b.Op("Mul", side, x), onnx.Float, onnx.Dims("rows", "columns"))
	return b.M
}

// TestDeviceWeights: sessions compute from tensors in a device's memory, which they share, what ONNX Runtime computes
// from the file. The CPU takes the place of the device.
func TestDeviceWeights(t *testing.T) {
	folder, stored := storedWeights(t, 192, 256)
	plain := castModel(stored)
	in := map[string]*tensor.Dense{"x": floats([]int{1}, 1)}
	want := runTest(t, openTest(t, plain, Options{Folder: folder}), in)
	var leases []deviceLease
	var s *Session
	for range 2 {
		m := *plain
		l, err := shareOn(cpu, &m, folder)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
		names := slices.Sorted(maps.Keys(l))
		if len(names) != 7 || l["float"] == nil {
			t.Errorf("got %q on the device, want float and six of its joins", names)
		}
		for _, n := range m.Nodes {
			if n.Op == "Concat" && n.Int("axis", 0) == 0 {
				t.Errorf("%s still joins %q", n.Outputs[0], n.Inputs)
			}
		}
		s = openOver(t, &m, folder, cpu, &lease{device: l})
		for name, got := range runTest(t, s, in) {
			if diff := cmp.Diff(want[name].Data(), got.Data()); diff != "" {
				t.Errorf("%s: from memory (-file +memory):\n%.300s", name, diff)
			}
		}
	}
	clear(leases[0]["float"].memory.host)
	for _, v := range runTest(t, s, in)["stored"].Float32s() {
		if v != 0 {
			t.Fatalf("a weight that was set to 0 in memory: got %v", v)
		}
	}
	for name, w := range leases[0] {
		if w != leases[1][name] || w.users != 2 {
			t.Errorf("%s: got two copies, or %d users", name, w.users)
		}
	}
	for i, l := range leases {
		if err := l.release(); err != nil {
			t.Error(err)
		}
		if n := len(devicePool.weights); n != 7*(1-i) {
			t.Errorf("%d tensors in memory after %d of 2 sessions were closed", n, i+1)
		}
	}
}

// sameOver compares a model over shared tensors, as on the CPU and as on a device, with the same model over tensors in
// memory, which the runtime may not change. shared is the number of tensors that a device would share.
func sameOver(t *testing.T, m *onnx.Model, folder string, in map[string]*tensor.Dense, shared int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "weights"))
	if err != nil {
		t.Fatal(err)
	}
	plain, on := *m, *m
	plain.Initializers = nil
	for _, w := range m.Initializers {
		if e := w.External; e != nil {
			w = &onnx.Tensor{Name: w.Name, Type: w.Type, Shape: w.Shape, Data: data[e.Offset:][:e.Length]}
		}
		plain.Initializers = append(plain.Initializers, w)
	}
	l, err := shareOn(cpu, &on, folder)
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	if len(l) != shared {
		t.Errorf("got %q on the device, want %d tensors", slices.Sorted(maps.Keys(l)), shared)
	}
	want := runTest(t, openTest(t, &plain, Options{Optimize: OptimizeNothing}), in)
	for over, s := range map[string]*Session{
		"mapped": openTest(t, m, Options{Folder: folder}),
		"device": openOver(t, &on, folder, cpu, &lease{device: l}),
	} {
		for name, got := range runTest(t, s, in) {
			if diff := cmp.Diff(want[name].Data(), got.Data()); diff != "" {
				t.Errorf("%s, %s (-memory +shared):\n%.300s", over, name, diff)
			}
		}
	}
}

// TestTransposedWeights: the runtime transposes a constant instead of what it is added to.
func TestTransposedWeights(t *testing.T) {
	folder, stored := storedWeights(t, 192, 192)
	in := map[string]*tensor.Dense{"x": ramp(1, 192, 192)}
	turn := onnx.Attrs{"perm": []int{0, 2, 1}}
	for _, from := range []string{"float", "float16"} {
		b := onnx.NewBuilder("turned", 21)
		x := b.Input("x", onnx.Float, onnx.Dims(1, 192, 192))
		for _, op := range []string{"Add", "Where", "Concat"} {
			w := *stored[from]
			w.Name += op
			w.Shape = []int64{1, 192, 192}
			b.M.Initializers = append(b.M.Initializers, &w)
			y, name := b.OpA("Transpose", turn, x), w.Name
			if w.Type != onnx.Float {
				name = b.OpA("Cast", onnx.Attrs{"to": int64(onnx.Float)}, name)
			}
			switch op {
			case "Where":
				y = b.Op(op, b.Op("Less", y, b.Scalar(onnx.Float, 0)), y, name)
			case "Concat":
				y = b.OpA(op, onnx.Attrs{"axis": 1}, y, name)
			default:
				y = b.Op(op, y, name)
			}
			b.Output(from+" "+op, b.OpA("Transpose", turn, y), onnx.Float, onnx.Dims("a", "b", "c"))
		}
		sameOver(t, b.M, folder, in, 0)
	}
}

// TestFoldedCasts: the runtime reads casts of weights when a session opens, so it computes them.
func TestFoldedCasts(t *testing.T) {
	folder, stored := storedWeights(t, 192, 192)
	stored["float16"].Shape = []int64{192, 64, 3, 1}
	b := onnx.NewBuilder("folded", 21)
	b.M.Initializers = append(b.M.Initializers, stored["float16"], stored["bfloat16"])
	wide := onnx.Attrs{"to": int64(onnx.Float)}
	x := b.Input("x", onnx.Float, onnx.Dims(1, 64, 3, 1))
	y := b.OpA("Conv", onnx.Attrs{"kernel_shape": []int{3, 1}}, x, b.OpA("Cast", wide, "float16"))
	y = b.Op("Mul", y, b.Floats([]int64{1, 192, 1, 1}, ramp(192).Float32s()...))
	b.Output("largest", b.OpA("ArgMax", onnx.Attrs{"axis": 1}, y), onnx.Int64, onnx.Dims(1, 1, 1, 1))
	rows := b.OpA("Constant", onnx.Attrs{"value_ints": []int64{-1, 64}})
	w := b.Op("Reshape", b.OpA("Cast", wide, "bfloat16"), rows)
	b.Output("rows", b.Op("Mul", w, b.OpA("ReduceMax", onnx.Attrs{"keepdims": 0}, x)), onnx.Float, onnx.Dims(576, 64))
	sameOver(t, b.M, folder, map[string]*tensor.Dense{"x": ramp(1, 64, 3, 1)}, 0)
}

// TestWrongLength: a tensor whose bytes are too few or too many is an error.
func TestWrongLength(t *testing.T) {
	folder, stored := storedWeights(t, 192, 256)
	for _, more := range []int64{-512, 512} {
		w := *stored["float16"]
		w.External = &onnx.External{Location: "weights", Length: w.External.Length + more}
		b := onnx.NewBuilder("length", 21)
		b.M.Initializers = append(b.M.Initializers, &w)
		x := b.Input("x", onnx.Float16, onnx.Dims(1))
		b.Output("y", b.Op("Mul", w.Name, x), onnx.Float16, onnx.Dims("rows", "columns"))
		l, err := shareOn(cpu, b.M, folder)
		if err != nil || len(l) > 0 {
			t.Errorf("%+d bytes: got %d tensors and %v, want it left to the runtime", more, len(l), err)
		}
		if _, err := Open(b.M, Options{Folder: folder}); err == nil {
			t.Errorf("%+d bytes: got a session, want an error", more)
		}
	}
}

// ramp returns numbers around 0.
func ramp(shape ...int) *tensor.Dense {
	values := make([]float32, tensor.Shape(shape).TotalSize())
	for i := range values {
		values[i] = float32(i%37)/8 - 2
	}
	return floats(shape, values...)
}

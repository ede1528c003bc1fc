package ort

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/internal/long"
	"assay/onnx"
)

func floats(shape []int, v ...float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))
}

func openTest(t *testing.T, m *onnx.Model, o Options) *Session {
	t.Helper()
	s, err := Open(m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func runTest(t *testing.T, s *Session, in map[string]*tensor.Dense) map[string]*tensor.Dense {
	t.Helper()
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sum is a model of one addition.
func sum(t onnx.DType, shape []onnx.Dim, declared []onnx.Dim) *onnx.Model {
	b := onnx.NewBuilder("sum", 18)
	a, c := b.Input("a", t, shape), b.Input("b", t, shape)
	b.Output("y", b.Op("Add", a, c), t, declared)
	return b.M
}

func TestShapes(t *testing.T) {
	tests := []struct {
		name            string
		shape, declared []onnx.Dim // declared nil: rank unknown
		in              []int
	}{
		{"fixed", onnx.Dims(2, 2), onnx.Dims(2, 2), []int{2, 2}},
		{"dynamic", onnx.Dims("n", 2), onnx.Dims("n", 2), []int{2, 2}},
		{"unknown rank", onnx.Dims("n", 2), nil, []int{2, 2}},
		{"one element", onnx.Dims(1), onnx.Dims("m"), []int{1}},
		{"empty", onnx.Dims("n", 2), onnx.Dims("n", 2), []int{0, 2}},
		{"empty, fixed", onnx.Dims(0, 2), onnx.Dims(0, 2), []int{0, 2}},
		{"empty, unknown rank", onnx.Dims("n", 2), nil, []int{0, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openTest(t, sum(onnx.Float, tt.shape, tt.declared), Options{})
			n := tensor.Shape(tt.in).TotalSize()
			a, b, want := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range a {
				a[i], b[i], want[i] = float32(i), 10, float32(i+10)
			}
			y := runTest(t, s, map[string]*tensor.Dense{"a": floats(tt.in, a...), "b": floats(tt.in, b...)})["y"]
			if !y.Shape().Eq(tensor.Shape(tt.in)) {
				t.Fatalf("shape %v, want %v", y.Shape(), tt.in)
			}
			if n > 0 && !cmp.Equal(y.Data(), any(want)) {
				t.Errorf("got %v, want %v", y.Data(), want)
			}
		})
	}
}

func TestScalars(t *testing.T) {
	for name, declared := range map[string][]onnx.Dim{"rank 0": {}, "unknown rank": nil} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, sum(onnx.Float, onnx.Dims(), declared), Options{})
			in := map[string]*tensor.Dense{
				"a": tensor.New(tensor.FromScalar(float32(3))),
				"b": tensor.New(tensor.FromScalar(float32(4))),
			}
			y := runTest(t, s, in)["y"]
			if !y.IsScalar() || y.ScalarValue() != float32(7) {
				t.Errorf("got %v of shape %v, want scalar 7", y, y.Shape())
			}
		})
	}
}

func TestHalfPrecisionIsFloatOnTheHost(t *testing.T) {
	for _, typ := range []onnx.DType{onnx.Float16, onnx.BFloat16} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			b := onnx.NewBuilder("neg", 18)
			x := b.Input("x", typ, onnx.Dims("n"))
			neg := b.Op("Neg", b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, x))
			b.Output("y", b.OpA("Cast", onnx.Attrs{"to": typ}, neg), typ, onnx.Dims("n"))
			b.Output("z", "y", typ, nil) // of unknown rank
			s := openTest(t, b.M, Options{})
			out := runTest(t, s, map[string]*tensor.Dense{"x": floats([]int{2}, 1.5, -0.25)})
			for _, name := range []string{"y", "z"} {
				if diff := cmp.Diff([]float32{-1.5, 0.25}, out[name].Data()); diff != "" {
					t.Errorf("%v %s (-want +got):\n%s", typ, name, diff)
				}
			}
			if got := s.Inputs()[0]; got.Name != "x" || got.Type != onnx.Float || s.Outputs()[0].Type != onnx.Float {
				t.Errorf("host types: got %+v, want float32 x", got)
			}
		})
	}
}

// seven is 7 in every type.
var seven = map[tensor.Dtype]any{
	tensor.Float32: float32(7),
	tensor.Float64: 7.0,
	tensor.Int8:    int8(7),
	tensor.Int16:   int16(7),
	tensor.Int32:   int32(7),
	tensor.Int64:   int64(7),
	tensor.Uint8:   uint8(7),
	tensor.Uint16:  uint16(7),
	tensor.Uint32:  uint32(7),
	tensor.Uint64:  uint64(7),
}

func TestEveryType(t *testing.T) {
	for typ, k := range kinds {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			b := onnx.NewBuilder("id", 18)
			b.Output("y", b.Input("x", typ, onnx.Dims("n", 3)), typ, onnx.Dims("n", 3))
			x := tensor.New(tensor.WithShape(2, 3), tensor.Of(k.dtype))
			if k.dtype == tensor.Bool {
				x.SetAt(true, 1, 2)
			} else if err := x.SetAt(seven[k.dtype], 1, 2); err != nil {
				t.Fatal(err)
			}
			in, room := map[string]*tensor.Dense{"x": x}, map[string]*tensor.Dense{}
			var o Options
			if isHalf(typ) {
				o.Bound = map[string]bool{"x": true, "y": true}
				room["y"] = tensor.New(tensor.WithShape(2, 3), tensor.Of(k.dtype))
			}
			out, err := openTest(t, b.M, o).RunWith(t.Context(), in, room, Views{})
			if err != nil {
				t.Fatal(err)
			}
			y := out["y"]
			if y == nil {
				y = room["y"]
			}
			if diff := cmp.Diff(x.Data(), y.Data()); diff != "" {
				t.Errorf("%v (-want +got):\n%s", typ, diff)
			}
		})
	}
}

// TestHalfBits: arrays of a bound input and output in half precision have its bits. Those that cannot be passed are
// errors.
func TestHalfBits(t *testing.T) {
	for typ, bits := range map[onnx.DType]func(float32) uint16{
		onnx.Float16: onnx.Float16Bits, onnx.BFloat16: onnx.BFloat16Bits,
	} {
		b := onnx.NewBuilder("half", 21)
		wide := b.OpA("Cast", onnx.Attrs{"to": int64(onnx.Float)}, b.Input("x", typ, onnx.Dims("r", "c")))
		twice := b.Op("Add", wide, wide)
		b.Output("twice", twice, onnx.Float, onnx.Dims("r", "c"))
		y := b.OpA("Cast", onnx.Attrs{"to": int64(typ)}, twice)
		b.Output("y", y, typ, onnx.Dims("r", "c"))
		s := openTest(t, b.M, Options{Bound: map[string]bool{"x": true, "y": true}})
		all := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]uint16{bits(-1.5), bits(7), 0, bits(96), 0, 0}))
		x, err := all.Slice(nil, tensor.S(0, 2))
		if err != nil {
			t.Fatal(err)
		}
		in, y2 := map[string]*tensor.Dense{"x": x.(*tensor.Dense)}, make([]uint16, 4)
		room := map[string]*tensor.Dense{"y": tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(y2))}
		out, err := s.RunWith(t.Context(), in, room, Views{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{-3, 14, 192, 0}, out["twice"].Data()); diff != "" || len(out) != 1 {
			t.Errorf("%v: %d results (-want +got):\n%s", typ, len(out), diff)
		}
		if diff := cmp.Diff([]uint16{bits(-3), bits(14), bits(192), 0}, y2); diff != "" {
			t.Errorf("%v (-want +got):\n%s", typ, diff)
		}
		for want, of := range map[string]*tensor.Dense{
			"its view or room is missing": nil,
			"its room has type float32":   tensor.New(tensor.WithShape(2, 2), tensor.Of(tensor.Float32)),
		} {
			room := map[string]*tensor.Dense{}
			if of != nil {
				room["y"] = of
			}
			if _, err := s.RunWith(t.Context(), in, room, Views{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got error %v, want %q", typ, err, want)
			}
		}
		in["x"] = tensor.New(tensor.WithShape(0, 2), tensor.WithBacking([]uint16{}))
		if _, err := s.RunWith(t.Context(), in, room, Views{}); err == nil {
			t.Errorf("%v: got no error for an array without elements", typ)
		}
	}
}

func TestViewsAreReadInRowMajorOrder(t *testing.T) {
	b := onnx.NewBuilder("id", 18)
	b.Output("y", b.Input("x", onnx.Float, onnx.Dims("r", "c")), onnx.Float, onnx.Dims("r", "c"))
	s := openTest(t, b.M, Options{})
	x := floats([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	part, err := x.Slice(nil, tensor.S(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	turned := x.Clone().(*tensor.Dense)
	if err := turned.T(); err != nil {
		t.Fatal(err)
	}
	fortran := tensor.New(tensor.AsFortran([]float32{1, 4, 2, 5, 3, 6}), tensor.WithShape(2, 3))
	tests := []struct {
		x    *tensor.Dense
		want []float32
	}{
		{x, []float32{1, 2, 3, 4, 5, 6}},
		{part.(*tensor.Dense), []float32{2, 3, 5, 6}},
		{turned, []float32{1, 4, 2, 5, 3, 6}},
		{fortran, []float32{1, 2, 3, 4, 5, 6}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.want), func(t *testing.T) {
			if diff := cmp.Diff(tt.want, runTest(t, s, map[string]*tensor.Dense{"x": tt.x})["y"].Data()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConstants(t *testing.T) {
	b := onnx.NewBuilder("constants", 18)
	b.Output("y", b.Op("Neg", b.Floats([]int64{2}, 1, 2)), onnx.Float, onnx.Dims(2))
	b.M.Inputs = []onnx.ValueInfo{{Name: b.M.Initializers[0].Name, Type: onnx.Float, Shape: onnx.Dims(2), Ranked: true}}
	b.M.IRVersion = 3
	s := openTest(t, b.M, Options{})
	if diff := cmp.Diff([]float32{-1, -2}, runTest(t, s, nil)["y"].Data()); diff != "" || len(s.Inputs()) != 0 {
		t.Errorf("got inputs %v, want none; y (-want +got):\n%s", s.Inputs(), diff)
	}
}

func TestExternalWeights(t *testing.T) {
	dir := t.TempDir()
	data := append([]byte("xxx"), onnx.ScalarBytes(onnx.Float, 2.5)...)
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	model := func(offset int64) *onnx.Model {
		b := onnx.NewBuilder("external", 18)
		w := b.Weight(
			&onnx.Tensor{
				Name:     "w",
				Type:     onnx.Float,
				Shape:    []int64{1},
				External: &onnx.External{Location: "w.bin", Offset: offset, Length: 4},
			},
		)
		b.Output("y", b.Op("Mul", b.Input("x", onnx.Float, onnx.Dims(1)), w), onnx.Float, onnx.Dims(1))
		return b.M
	}
	s := openTest(t, model(3),
		Options{Folder: dir, LowMemory: true, NoArena: true, NoSpin: true, Threads: 1, Optimize: OptimizeBasic})
	if y := runTest(t, s, map[string]*tensor.Dense{"x": floats([]int{1}, 2)})["y"]; y.Data().([]float32)[0] != 5 {
		t.Errorf("got %v, want 5", y)
	}
	if _, err := Open(model(90), Options{Folder: dir}); err == nil || !strings.Contains(err.Error(), "open external") {
		t.Errorf("offset after the end of the file: got error %v, want one with %q", err, "open external")
	}
}

func TestWrongInputs(t *testing.T) {
	s := openTest(t, sum(onnx.Float, onnx.Dims("n", 2), onnx.Dims("n", 2)), Options{})
	_, err := s.Run(context.Background(), map[string]*tensor.Dense{
		"a": floats([]int{2, 3}, 1, 2, 3, 4, 5, 6), "c": floats([]int{1}, 1)})
	for _, want := range []string{
		`run sum:`,
		`input "a" has shape [2, 3], want [n, 2]`,
		`input "b" (float [n, 2]) is missing`,
		`there is no input "c": the model's inputs are a, b`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	_, err = s.Run(context.Background(), map[string]*tensor.Dense{
		"a": tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]int64{1, 2})), "b": floats([]int{2}, 1, 2)})
	for _, want := range []string{`input "a" has type int64, want float32`, `input "b" has shape [2], want [n, 2]`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	_, err = s.Run(context.Background(),
		map[string]*tensor.Dense{"a": floats([]int{2, 2}, 1, 2, 3, 4), "b": floats([]int{3, 2}, 1, 2, 3, 4, 5, 6)})
	if err == nil || !strings.Contains(err.Error(), "Add") {
		t.Errorf("an error of the runtime names its node: got error %v, want one with %q", err, "Add")
	}
}

func TestWrongModels(t *testing.T) {
	b := onnx.NewBuilder("odd", 18)
	b.Output("y", b.Op("NoSuchOp", b.Input("x", onnx.Float, onnx.Dims(1))), onnx.Float, onnx.Dims(1))
	if _, err := Open(b.M, Options{}); err == nil || !strings.Contains(err.Error(), "NoSuchOp") {
		t.Errorf("unknown op: got error %v, want one with %q", err, "NoSuchOp")
	}
	b = onnx.NewBuilder("text", 18)
	b.Output("y", b.Input("x", onnx.String, onnx.Dims(1)), onnx.String, onnx.Dims(1))
	if _, err := Open(b.M, Options{}); err == nil || !strings.Contains(err.Error(), `input "x" has type string`) {
		t.Errorf("strings: got error %v, want one with %q", err, `input "x" has type string`)
	}
	if _, err := Open(&onnx.Model{IRVersion: 8, Opsets: map[string]int64{"": 18}}, Options{}); err == nil ||
		!strings.Contains(err.Error(), "no outputs") {
		t.Errorf("no outputs: got error %v, want one with %q", err, "no outputs")
	}
}

func TestDevices(t *testing.T) {
	m := sum(onnx.Float, onnx.Dims(1), onnx.Dims(1))
	for name, want := range map[string]string{
		"cuda:x": "unknown",
		"gpu":    "want cpu, auto, or cuda:N",
		"cuda:0": cudaProvider,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(m, Options{Device: name}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("device %s: error %v lacks %q", name, err, want)
			}
			if err := CheckDevice(name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("device %s: error %v lacks %q", name, err, want)
			}
		})
	}
	for _, name := range []string{"", "cpu", "auto"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			if s := openTest(t, m, Options{Device: name}); s.Device() != "cpu" {
				t.Errorf("device %q: got %q, want cpu", name, s.Device())
			}
		})
	}
}

// slow is a model that counts to its input n.
func slow() *onnx.Model {
	body := &onnx.Graph{Name: "body",
		Inputs: []onnx.ValueInfo{
			{Name: "i", Type: onnx.Int64, Ranked: true},
			{Name: "go_on", Type: onnx.Bool, Ranked: true},
			{Name: "v", Type: onnx.Float, Ranked: true},
		},
		Nodes: []*onnx.Node{{Op: "Identity", Inputs: []string{"go_on"}, Outputs: []string{"go_on_out"}},
			{Op: "Add", Inputs: []string{"v", "one"}, Outputs: []string{"v_out"}}},
		Outputs: []onnx.ValueInfo{
			{Name: "go_on_out", Type: onnx.Bool, Ranked: true},
			{Name: "v_out", Type: onnx.Float, Ranked: true},
		}}
	b := onnx.NewBuilder("slow", 18)
	n := b.Input("n", onnx.Int64, onnx.Dims())
	b.Weight(&onnx.Tensor{Name: "one", Type: onnx.Float, Data: onnx.ScalarBytes(onnx.Float, 1)})
	y := b.OpA("Loop", onnx.Attrs{"body": body}, n, "", b.Scalar(onnx.Float, 0))
	b.Output("y", y, onnx.Float, onnx.Dims())
	return b.M
}

func TestCancel(t *testing.T) {
	s := openTest(t, slow(), Options{})
	n := func(v int64) map[string]*tensor.Dense {
		return map[string]*tensor.Dense{"n": tensor.New(tensor.FromScalar(v))}
	}
	if y := runTest(t, s, n(100))["y"]; y.ScalarValue() != float32(100) {
		t.Errorf("counted to %v, want 100", y)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Run(ctx, n(math.MaxInt64)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled run: got error %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := s.Run(ctx, n(1)); err != context.DeadlineExceeded { // without the graph's name, which tells users nothing
		t.Errorf("a run after the end of its context: got error %v, want %v", err, context.DeadlineExceeded)
	}
	runTest(t, s, n(1)) // the session is still usable
}

func TestConcurrentRunsAndClose(t *testing.T) {
	s := openTest(t, sum(onnx.Float, onnx.Dims("n"), onnx.Dims("n")), Options{})
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 50 {
				x := floats([]int{2}, float32(g), float32(i))
				out, err := s.Run(context.Background(), map[string]*tensor.Dense{"a": x, "b": x})
				if err != nil || !cmp.Equal(out["y"].Data(), any([]float32{float32(2 * g), float32(2 * i)})) {
					t.Errorf("run %d.%d: got %v, %v, want %d, %d", g, i, out, err, 2*g, 2*i)
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Run(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("run after close: got error %v, want one with %q", err, "closed")
	}
}

func TestProfile(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "trace")
	s := openTest(t, sum(onnx.Float, onnx.Dims(1), onnx.Dims(1)), Options{Profile: prefix})
	runTest(t, s, map[string]*tensor.Dense{"a": floats([]int{1}, 1), "b": floats([]int{1}, 1)})
	s.Close()
	if files, err := filepath.Glob(prefix + "*.json"); err != nil || len(files) != 1 {
		t.Errorf("traces: got %v, %v, want one", files, err)
	}
}

// resident returns the resident memory of this process in MB. How much garbage of Go there is depends on chance, so it
// is freed first.
func resident(t *testing.T) int {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

func TestNoMemoryIsLost(t *testing.T) {
	long.Test(t)
	const n = 1 << 18 // 1 MB an array
	x := map[string]*tensor.Dense{
		"a": floats([]int{n}, make([]float32, n)...),
		"b": floats([]int{n}, make([]float32, n)...),
	}
	for _, declared := range [][]onnx.Dim{onnx.Dims(n), onnx.Dims("n"), nil} {
		t.Run(fmt.Sprint(declared), func(t *testing.T) {
			m := sum(onnx.Float, onnx.Dims("n"), declared)
			s := openTest(t, m, Options{})
			var before int
			for i := range 400 {
				if i == 100 {
					before = resident(t)
				}
				runTest(t, s, x)
			}
			if grown := resident(t) - before; grown > 60 {
				t.Errorf("300 runs of 1 MB outputs (declared %v): the process grew by %d MB, want at most 60",
					fmt.Sprint(declared), grown)
			}
		})
	}
	m := sum(onnx.Float, onnx.Dims("n"), nil)
	var before int
	for i := range 200 {
		if i == 50 {
			before = resident(t)
		}
		s, err := Open(m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if grown := resident(t) - before; grown > 30 {
		t.Errorf("150 sessions: the process grew by %d MB, want at most 30", grown)
	}
}

// TestRoom: an output is written to its room, which may be an input of the same run.
func TestRoom(t *testing.T) {
	b := onnx.NewBuilder("double", 21)
	x := b.Input("x", onnx.Float, onnx.Dims("n"))
	b.Output("twice", b.Op("Add", x, x), onnx.Float, onnx.Dims("n"))
	b.Output("square", b.Op("Mul", x, x), onnx.Float, onnx.Dims("n"))
	s := openTest(t, b.M, Options{})
	ctx, in, room := context.Background(), floats([]int{3}, 1, 2, 3), floats([]int{3}, 0, 0, 0)
	for range 2 { // the room is reused
		out, err := s.RunWith(ctx, map[string]*tensor.Dense{"x": in}, map[string]*tensor.Dense{"twice": room}, Views{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{2, 4, 6}, room.Data()); diff != "" || len(out) != 1 {
			t.Errorf("got %d outputs, want one (-want +got):\n%s", len(out), diff)
		}
	}
	for _, wrong := range []map[string]*tensor.Dense{
		{"nothing": room},
		{"twice": tensor.New(tensor.WithShape(3), tensor.WithBacking([]int64{1, 2, 3}))},
		{"twice": floats([]int{4}, 0, 0, 0, 0)},
	} {
		if _, err := s.RunWith(ctx, map[string]*tensor.Dense{"x": in}, wrong, Views{}); err == nil {
			t.Errorf("room %v: got error %v, want one", wrong, err)
		}
	}
}

// TestNoKernel: the error for an operator without a kernel for its type says where and what to do.
func TestNoKernel(t *testing.T) {
	m := &onnx.Model{IRVersion: 8, Opsets: map[string]int64{"": 13}}
	m.Name = "squash"
	m.Inputs = []onnx.ValueInfo{{Name: "x", Type: onnx.BFloat16, Shape: onnx.Dims(2), Ranked: true}}
	m.Outputs = []onnx.ValueInfo{{Name: "y", Type: onnx.BFloat16, Shape: onnx.Dims(2), Ranked: true}}
	m.Nodes = []*onnx.Node{{Name: "head/Tanh", Op: "Tanh", Inputs: []string{"x"}, Outputs: []string{"y"}}}
	_, err := Open(m, Options{})
	for _, want := range []string{"open squash", "head/Tanh", "cpu has no kernel", "store the model in float32"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

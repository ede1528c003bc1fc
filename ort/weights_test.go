package ort

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/onnx"
)

const wide = 256 // rows and columns of the weights below: 128 KiB in half precision

// numbers are the values of a weight, exact in every type.
func numbers() []float32 {
	out := make([]float32, wide*wide)
	for i := range out {
		out[i] = float32(i*7919%61-30) / 8
	}
	return out
}

// weightFile writes the numbers in a type, after some unrelated bytes.
func weightFile(t *testing.T, path string, typ onnx.DType, values []float32) *onnx.Tensor {
	t.Helper()
	data := make([]byte, 24)
	for _, v := range values {
		switch typ {
		case onnx.Float:
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		case onnx.BFloat16:
			data = binary.LittleEndian.AppendUint16(data, onnx.BFloat16Bits(v))
		case onnx.Float16:
			data = binary.LittleEndian.AppendUint16(data, onnx.Float16Bits(v))
		}
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	e := &onnx.External{Location: filepath.Base(path), Offset: 24, Length: int64(len(data) - 24)}
	return &onnx.Tensor{Name: "w", Type: typ, Shape: []int64{wide, wide}, External: e}
}

// product multiplies x [n, wide] by the weight as float32.
func product(w *onnx.Tensor) *onnx.Model {
	b := onnx.NewBuilder("product", 21)
	x := b.Input("x", onnx.Float, onnx.Dims("n", wide))
	v := b.Weight(w)
	if w.Type != onnx.Float {
		v = b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, v)
	}
	b.Output("y", b.Op("MatMul", x, v), onnx.Float, onnx.Dims("n", wide))
	return b.M
}

func run(t *testing.T, s *Session) []float32 {
	t.Helper()
	x := make([]float32, 2*wide)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	out, err := s.Run(context.Background(),
		map[string]*tensor.Dense{"x": tensor.New(tensor.WithShape(2, wide), tensor.WithBacking(x))})
	if err != nil {
		t.Fatal(err)
	}
	return out["y"].Data().([]float32)
}

func TestSessionsShareWeights(t *testing.T) {
	inline := weightFile(t, filepath.Join(t.TempDir(), "w"), onnx.Float, numbers())
	inline.External, inline.Data = nil, onnx.Float32Bytes(numbers())
	plain, err := Open(product(inline), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	want := run(t, plain)
	for _, typ := range []onnx.DType{onnx.Float, onnx.BFloat16, onnx.Float16} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			dir := t.TempDir()
			w := weightFile(t, filepath.Join(dir, "model.safetensors"), typ, numbers())
			var open []*Session
			for _, low := range []bool{true, false, true} {
				s, err := Open(product(w), Options{Folder: dir, LowMemory: low})
				if err != nil {
					t.Fatalf("%v: got error %v, want none", typ, err)
				}
				open = append(open, s)
				if len(pool.weights) != 1 {
					t.Errorf("%v: got %d copies of one weight in %d sessions, want 1", typ, len(pool.weights), len(open))
				}
			}
			for i, s := range open {
				if diff := cmp.Diff(want, run(t, s)); diff != "" {
					t.Errorf("%v, session %d (-want +got):\n%s", typ, i, diff)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if len(pool.weights) != 0 {
				t.Errorf("%v: got %d weights left when all sessions are closed, want none", typ, len(pool.weights))
			}
		})
	}
}

// A checkpoint that is rewritten while a session of the old one is open counts as another checkpoint.
func TestReplacedWeightsAreNotShared(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	w := weightFile(t, path, onnx.BFloat16, numbers())
	before, err := Open(product(w), Options{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	was := run(t, before)
	twice := numbers()
	for i := range twice {
		twice[i] *= 2
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	weightFile(t, path, onnx.BFloat16, twice)
	after, err := Open(product(w), Options{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	for i, y := range run(t, after) {
		if y != 2*was[i] {
			t.Fatalf("value %d with doubled weights: got %v, want %v", i, y, 2*was[i])
		}
	}
	if diff := cmp.Diff(was, run(t, before)); diff != "" {
		t.Errorf("the open session (-want +got):\n%s", diff)
	}
}

func TestWeightsCutShort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	w := weightFile(t, path, onnx.BFloat16, numbers())
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	_, err := Open(product(w), Options{Folder: dir})
	if err == nil || !strings.Contains(err.Error(), `tensor "w"`) || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a file cut short: got error %v, want one with the tensor and %q", err, "cut short")
	}
	if len(pool.weights) != 0 {
		t.Errorf("got %d weights left behind, want none", len(pool.weights))
	}
}

// TestConvolutionsOfHalfPrecision: the runtime reads the weights of a convolution when it opens a session, to repack
// them. It packs the weights of a transposed convolution later, from the memory that sessions share.
func TestConvolutionsOfHalfPrecision(t *testing.T) {
	const channels, inputs, side = 16, 256, 12
	for _, c := range []struct {
		op    string
		shape []int64 // of the weights
		out   int     // side of the result
	}{
		{"Conv", []int64{channels, inputs, 3, 3}, side - 2},
		{"ConvTranspose", []int64{inputs, channels, 3, 3}, side + 2},
	} {
		t.Run(c.op, func(t *testing.T) {
			var want []float32
			for _, typ := range []onnx.DType{onnx.Float, onnx.BFloat16, onnx.Float16} {
				dir := t.TempDir()
				w := weightFile(t, filepath.Join(dir, "model.safetensors"), typ, numbers()[:channels*inputs*3*3])
				w.Shape = c.shape
				b := onnx.NewBuilder("convolution", 21)
				x, v := b.Input("x", onnx.Float, onnx.Dims(1, inputs, side, side)), b.Weight(w)
				if typ != onnx.Float {
					v = b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, v)
				}
				b.Output("y", b.Op(c.op, x, v), onnx.Float, onnx.Dims(1, channels, c.out, c.out))
				for _, low := range []bool{true, false} {
					got := convolve(t, b.M, Options{Folder: dir, LowMemory: low}, []int{1, inputs, side, side})
					if want == nil {
						want = got
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s of %v, low memory %v (-want +got):\n%s", c.op, typ, low, diff)
					}
				}
			}
		})
	}
}

// convolve runs a model of one convolution.
func convolve(t *testing.T, m *onnx.Model, o Options, shape []int) []float32 {
	t.Helper()
	s, err := Open(m, o)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, tensor.Shape(shape).TotalSize())
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	in := map[string]*tensor.Dense{"x": tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))}
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	y := slices.Clone(out["y"].Data().([]float32))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return y
}

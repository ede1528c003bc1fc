package quant

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/onnx"
	"assay/ort"
)

// fixtures are the folders quantized/ of all fixtures.
func fixtures(t *testing.T, do func(t *testing.T, dir string)) {
	oracle.Each(t, func(t *testing.T, folder string) {
		dir := filepath.Join(folder, "quantized")
		if _, err := os.Stat(dir); err != nil {
			dir = packed.Unpack(t, dir+".zip")
			indices, _ := filepath.Glob(filepath.Join(dir, "*", "backbone", "*.index.json"))
			for _, index := range indices {
				to := filepath.Join(filepath.Dir(index), "shared.safetensors")
				if err := os.Symlink(filepath.Join(dir, "shared.safetensors"), to); err != nil {
					t.Fatal(err)
				}
			}
		}
		do(t, dir)
	})
}

// bytesOf returns the content of a lazy tensor.
func bytesOf(t *testing.T, x *onnx.Tensor) []byte {
	t.Helper()
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMatMulNBits rounds like ONNX Runtime's quantiser, byte for byte, packs for MatMulNBits, and runs it.
func TestMatMulNBits(t *testing.T) {
	fixtures(t, func(t *testing.T, dir string) {
		for _, c := range oracle.Read[[]struct {
			Folder    string
			Bits      int
			Block     int `json:"block_size"`
			Symmetric bool
			M, N, K   int
		}](t, filepath.Join(dir, "matmulnbits", "cases.json")) {
			t.Run(c.Folder, func(t *testing.T) {
				x := oracle.Tensors(t, filepath.Join(dir, "matmulnbits", c.Folder, "tensors.safetensors"))
				w := oracle.Floats(t, x, "w")
				r := Quantizer{Bits: c.Bits, Block: c.Block, Symmetric: c.Symmetric}.Round(w, c.N, c.K)
				if !slices.Equal(r.Q, x["q"].Data().([]byte)) || !slices.Equal(r.Scales, oracle.Floats(t, x, "scales")) {
					t.Fatalf("integers, scales (-want +got):\n%s%s", cmp.Diff(x["q"].Data(), any(r.Q)),
						cmp.Diff(oracle.Floats(t, x, "scales"), r.Scales))
				}
				if !c.Symmetric && !slices.Equal(r.Zeros, x["zeros"].Data().([]byte)) {
					t.Fatalf("zeros (-want +got):\n%s", cmp.Diff(x["zeros"].Data(), any(r.Zeros)))
				}
				l := r.Layer("test "+c.Folder, "", c.Symmetric)
				if l.Block != c.Block {
					t.Fatalf("blocks of %d, want %d", l.Block, c.Block)
				}
				values, err := l.Values()
				if err != nil || !slices.Equal(values, oracle.Floats(t, x, "dequantized")) {
					t.Fatalf("dequantised weights: error %v (-want +got):\n%s", err,
						cmp.Diff(oracle.Floats(t, x, "dequantized"), values))
				}
				b, scales, zeros := l.NBits("w")
				if !slices.Equal(bytesOf(t, b), x["B"].Data().([]byte)) {
					t.Errorf("B (-want +got):\n%s", cmp.Diff(x["B"].Data(), any(bytesOf(t, b))))
				}
				if zeros != nil && !slices.Equal(bytesOf(t, zeros), x["zero_points"].Data().([]byte)) {
					t.Errorf("zero_points (-want +got):\n%s", cmp.Diff(x["zero_points"].Data(), any(bytesOf(t, zeros))))
				}
				if c.Symmetric != (zeros == nil) {
					t.Errorf("zero_points: got %t, want %t: symmetric weights have none", zeros != nil, !c.Symmetric)
				}
				y := run(t, l, x["x"], b, scales, zeros)
				oracle.Close(t, "y", y, oracle.Floats(t, x, "y"), 2e-5, 0)
			})
		}
	})
}

// run computes x W' with MatMulNBits.
func run(t *testing.T, l *QuantLinear, x *tensor.Dense, initializers ...*onnx.Tensor) []float32 {
	t.Helper()
	g := onnx.NewBuilder("nbits", 21)
	g.Input("x", onnx.Float, onnx.Dims(x.Shape()[0], x.Shape()[1]))
	inputs := []string{"x"}
	for _, i := range initializers {
		if i != nil {
			plain := *i
			plain.Data, plain.Lazy = bytesOf(t, i), nil
			inputs = append(inputs, g.Weight(&plain))
		}
	}
	y := g.Node("com.microsoft", "MatMulNBits", 1,
		onnx.Attrs{"K": l.In, "N": l.Out, "bits": l.Bits, "block_size": l.Block}, inputs...)[0]
	g.Output("y", y, onnx.Float, onnx.Dims(x.Shape()[0], l.Out))
	s, err := ort.Open(g.M, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), map[string]*tensor.Dense{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	return out["y"].Data().([]float32)
}

// TestPublishedLayouts: the dequantised weights of GPTQ and AWQ, exactly.
func TestPublishedLayouts(t *testing.T) {
	fixtures(t, func(t *testing.T, dir string) {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "backbone", "config.json"))
		if len(files) == 0 {
			t.Fatalf("got %d backbones, want some", len(files))
		}
		for _, file := range files {
			backbone := filepath.Dir(file)
			t.Run(filepath.Base(filepath.Dir(backbone)), func(t *testing.T) {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				c, rest, err := Split(raw)
				if err != nil || c == nil || !json.Valid(rest) {
					t.Fatalf("Split: got %v, rest %s, %v, want a configuration and JSON", c, rest, err)
				}
				w, err := checkpoints.OpenWeights(backbone)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if err := c.Find(w); err != nil {
					t.Fatal(err)
				}
				wants := oracle.Tensors(t, filepath.Join(filepath.Dir(backbone), "dequantized.safetensors"))
				for name, want := range wants {
					got, err := w.Dense(name)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got.Data().([]float32), want.Data().([]float32)) {
						t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want.Data(), got.Data()))
					}
				}
			})
		}
	})
}

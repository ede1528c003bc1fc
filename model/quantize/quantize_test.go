package quantize_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/checkpoints"
	"assay/internal/long"
	"assay/internal/modeltest"
	"assay/internal/oracle"
	"assay/internal/quant"
	"assay/model"
	"assay/model/backbone"
	_ "assay/model/families"
	"assay/model/quantize"
)

// TestOracle rounds a backbone as quantization.json says: dequantised weights, scores, losses and QLoRA's gradients
// equal PyTorch's.
func TestOracle(t *testing.T) {
	long.Test(t)
	for name, dir := range modeltest.PackedFolders(t) {
		file := filepath.Join(dir, "quantization.json")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			q := oracle.Read[struct {
				Bits, Block int
				Symmetric   bool
			}](t, file)
			root := t.TempDir()
			if err := os.CopyFS(filepath.Join(root, "case"), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			state, err := model.LoadScorerState(filepath.Join(dir, "scorer"))
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(root, "backbone")
			r, err := quantize.Run(context.Background(), quantize.Options{Backbone: state.Config.Backbone, Out: out,
				Bits: q.Bits, Block: q.Block, Symmetric: q.Symmetric})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range r.Layers {
				if l.Kept != "" || !(l.Relative > 0 && l.Relative < 0.2 && l.Largest > 0) {
					t.Errorf("layer %+v", l)
				}
			}
			pointTo(t, filepath.Join(root, "case", "scorer", "scorer.yaml"), out)
			sameWeights(t, out, filepath.Join(dir, "dequantized.safetensors"))
			link(t, filepath.Join(dir, "..", "..", "images"), filepath.Join(root, "images"))
			if err := os.MkdirAll(filepath.Join(root, "a"), 0o777); err != nil {
				t.Fatal(err)
			}
			moved := filepath.Join(root, "a", "case")
			if err := os.Rename(filepath.Join(root, "case"), moved); err != nil {
				t.Fatal(err)
			}
			modeltest.Packed(t, moved)
		})
	}
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

// pointTo makes a scorer refer to another backbone.
func pointTo(t *testing.T, file, backbone string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(text, []byte("\n"))
	for i, l := range lines {
		if bytes.HasPrefix(l, []byte("backbone:")) {
			lines[i] = []byte("backbone: " + backbone)
		}
	}
	if err := os.WriteFile(file, bytes.Join(lines, []byte("\n")), 0o666); err != nil {
		t.Fatal(err)
	}
}

func sameWeights(t *testing.T, dir, file string) {
	t.Helper()
	b, err := backbone.OpenBackbone(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, want := range oracle.Tensors(t, file) {
		got, err := b.Weights.Dense(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Data().([]float32), want.Data().([]float32)) {
			t.Errorf("%s: values differ", name)
		}
	}
}

// TestReadBack: written checkpoints are read back as exactly the rounded weights, with any options; everything else is
// unchanged byte for byte.
func TestReadBack(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "oracle", "qwen2_5_vl", "backbone")
	before, err := backbone.OpenBackbone(source)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	for _, o := range []quantize.Options{
		{Bits: 4, Block: 16},
		{Bits: 4, Block: 128, Symmetric: true},
		{Bits: 8, Block: 32},
		{Bits: 8, Block: 32, Symmetric: true},
		{Bits: 4, Block: 32, Scales: "float16"},
		{Bits: 4, Block: 32, Scales: "float16", Symmetric: true},
	} {
		o.Backbone, o.Out = source, filepath.Join(t.TempDir(), "out")
		r, err := quantize.Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		after, err := backbone.OpenBackbone(o.Out)
		if err != nil {
			t.Fatal(err)
		}
		defer after.Close()
		packed := map[string]bool{}
		for _, l := range r.Layers {
			packed[l.Name] = l.Kept == ""
		}
		if !slices.Equal(before.Weights.Names(), after.Weights.Names()) || len(packed) == 0 {
			t.Fatalf("tensors differ: %v", after.Weights.Names())
		}
		for _, name := range before.Weights.Names() {
			same(t, name, packed[name], before.Weights, after.Weights, o)
		}
	}
}

// same compares a tensor of two checkpoints: rounded if it is packed, byte for byte otherwise.
func same(t *testing.T, name string, packed bool, before, after *checkpoints.Weights, o quantize.Options) {
	t.Helper()
	raw, err := before.Bytes(name)
	if err != nil {
		t.Fatal(err)
	}
	if !packed {
		if kept, err := after.Bytes(name); err != nil || !bytes.Equal(raw, kept) {
			t.Errorf("%s has changed: %v", name, err)
		}
		return
	}
	info, _ := before.Info(name)
	w, err := checkpoints.Float32s(info.Type, raw)
	if err != nil {
		t.Fatal(err)
	}
	want := quant.Quantizer{Bits: o.Bits, Block: o.Block, Symmetric: o.Symmetric, Half: o.Scales == "float16"}.Round(w,
		int(info.Shape[0]), int(info.Shape[1]))
	got, err := after.Dense(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Data().([]float32) {
		if x := want.Value(i/want.In, i%want.In); v != x || math.IsNaN(float64(v)) {
			t.Fatalf("%s: value %d is %g, want %g", name, i, v, x)
		}
	}
}

// TestRefusals: invalid options, packed checkpoints and cancelled runs are errors, and nothing is written.
func TestRefusals(t *testing.T) {
	source := filepath.Join("..", "..", "testdata", "oracle", "qwen2_5_vl", "backbone")
	once := filepath.Join(t.TempDir(), "once")
	o := quantize.Options{Backbone: source, Out: once, Bits: 4, Block: 32}
	if _, err := quantize.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for name, c := range map[string]struct {
		ctx context.Context
		o   quantize.Options
	}{
		"bits":    {context.Background(), quantize.Options{Backbone: source, Bits: 3, Block: 32}},
		"block":   {context.Background(), quantize.Options{Backbone: source, Bits: 4, Block: 24}},
		"twice":   {context.Background(), quantize.Options{Backbone: once, Bits: 4, Block: 32}},
		"stopped": {stopped, quantize.Options{Backbone: source, Bits: 4, Block: 32}},
	} {
		c.o.Out = filepath.Join(t.TempDir(), "out")
		if _, err := quantize.Run(c.ctx, c.o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(c.o.Out); !os.IsNotExist(err) {
			t.Errorf("%s: something was written: %v", name, err)
		}
	}
}

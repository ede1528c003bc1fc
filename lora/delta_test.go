package lora

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/onnx"
)

// writeBackbone writes a checkpoint with one file, and opens it.
func writeBackbone(t *testing.T, dir string, tensors map[string]*tensor.Dense) *checkpoints.Weights {
	t.Helper()
	if err := checkpoints.WriteFile(filepath.Join(dir, checkpoints.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return openBackbone(t, dir)
}

func openBackbone(t *testing.T, dir string) *checkpoints.Weights {
	t.Helper()
	w, err := checkpoints.OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// contents returns the tensors of a checkpoint.
func contents(t *testing.T, w *checkpoints.Weights) map[string]flat {
	t.Helper()
	out := map[string]*tensor.Dense{}
	for _, name := range w.Names() {
		d, err := w.Dense(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = d
	}
	return flattened(out)
}

// trained returns an adapter of rank 2 with non-zero A and B, bound to the small backbone.
func trained(t *testing.T, change func(c *Config)) *Adapter {
	t.Helper()
	c := NewConfig(2, 3, Names{List: []string{"q_proj", "v_proj"}})
	change(c)
	w := smallBackbone()
	a := freshAdapter(t, c, w)
	if err := a.Bind(w); err != nil {
		t.Fatal(err)
	}
	for _, target := range a.Targets {
		for i := range a.Tensors[NameA(target.Module)].Float32s() {
			a.Tensors[NameA(target.Module)].Float32s()[i] = float32(i) - 1.5
		}
		for i := range a.Tensors[NameB(target.Module)].Float32s() {
			a.Tensors[NameB(target.Module)].Float32s()[i] = 2 - float32(i)
		}
	}
	return a
}

// merged computes a merged weight in plain loops: W + s B A, minus s B0 A0 of a start, with DoRA's rows scaled to
// norm m.
func merged(a *Adapter, module string, w *tensor.Dense) []float32 {
	matA, matB, scale, _ := a.Delta(module)
	change := product(matA, matB, scale)
	if a.InitOffset != nil {
		for i, x := range product(a.InitOffset[NameA(module)], a.InitOffset[NameB(module)], scale) {
			change[i] -= x
		}
	}
	in := w.Shape()[1]
	out := make([]float32, len(change))
	for row := 0; row < w.Shape()[0]; row++ {
		square, factor := 0.0, 1.0
		for i := row * in; i < (row+1)*in; i++ {
			change[i] += float64(w.Float32s()[i])
			square += change[i] * change[i]
		}
		if m := a.Tensors[NameM(module)]; m != nil {
			factor = float64(m.Float32s()[row]) / math.Sqrt(square)
		}
		for i := row * in; i < (row+1)*in; i++ {
			out[i] = float32(factor * change[i])
		}
	}
	return out
}

// TestMergeIsTheFormula: the weights that each kind of adapter changes match the formula, and others do not change.
func TestMergeIsTheFormula(t *testing.T) {
	const norm = "model.language_model.norm.weight"
	for name, change := range map[string]func(c *Config){
		"LoRA":   func(*Config) {},
		"rsLoRA": func(c *Config) { c.RSLoRA = true },
		"DoRA":   func(c *Config) { c.DoRA = true },
		"PiSSA":  func(c *Config) { c.Start = StartPiSSA },
		"OLoRA":  func(c *Config) { c.Start, c.RSLoRA = StartOLoRA, true },
		"whole":  func(c *Config) { c.ModulesToSave = []string{"language_model.norm"} },
		"biases": func(c *Config) { c.Bias = BiasLora },
	} {
		t.Run(name, func(t *testing.T) {
			a := trained(t, change)
			small := smallBackbone()
			w := writeBackbone(t, t.TempDir(), small)
			want := flattened(small)
			for module, key := range map[string]string{qProj: keyQ, vProj: keyV} {
				d := small[key+".weight"]
				want[key+".weight"] = flat{[]int(d.Shape()), merged(a, module, d)}
			}
			switch name {
			case "DoRA":
				a.Tensors[NameM(qProj)].Float32s()[1] = 21
				want[keyQ+".weight"] = flat{[]int{3, 2}, merged(a, qProj, small[keyQ+".weight"])}
			case "whole":
				a.Tensors[NameParameter(norm)] = vector(60, 70)
				want["model.norm.weight"] = flat{[]int{2}, []float32{60, 70}}
			case "biases":
				a.Tensors[NameParameter(qProj+".bias")] = vector(10, 20, 30)
				want[keyQ+".bias"] = flat{[]int{3}, []float32{10, 20, 30}}
			}
			out := t.TempDir()
			if err := Merge(context.Background(), w, a, out, nil); err != nil {
				t.Fatal(err)
			}
			got := contents(t, openBackbone(t, out))
			if diff := cmp.Diff(want, got, cmp.Comparer(func(x, y float32) bool {
				return math.Abs(float64(x-y)) <= 1e-5*(1+math.Abs(float64(x)))
			})); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
			if left, err := filepath.Glob(filepath.Join(out, "*")); err != nil || len(left) != 1 {
				t.Errorf("got files %v, %v, want only %s", left, err, checkpoints.SingleFile)
			}
		})
	}
}

// TestMergeInPieces merges a weight with several blocks, the last one shorter: every row gets its own change.
func TestMergeInPieces(t *testing.T) {
	const out, in, block = 1500, 1000, 4 << 20 // 6 MB: blocks of 4 MiB are 1048 rows
	values := make([]float32, out*in)
	for i := range values {
		values[i] = float32(i % 7)
	}
	small := map[string]*tensor.Dense{keyQ + ".weight": matrix(out, in, values...),
		"model.norm.weight": vector(make([]float32, block/4)...)} // one block
	w := writeBackbone(t, t.TempDir(), small)
	a, err := New(NewConfig(1, 2, Names{List: []string{"q_proj"}}), Modules(w), 1)
	if err != nil {
		t.Fatal(err)
	}
	b := a.Tensors[NameB(qProj)].Float32s()
	for i := range b {
		b[i] = float32(i)
	}
	dir := t.TempDir()
	var done, calls atomic.Int64
	if err := Merge(context.Background(), w, a, dir, func(n int64) { done.Add(n); calls.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if done.Load() != 4*out*in+block || calls.Load() != 3 {
		t.Errorf("progress: got %d bytes in %d calls, want %d in 3", done.Load(), calls.Load(), 4*out*in+block)
	}
	d, err := openBackbone(t, dir).Dense(keyQ + ".weight")
	if err != nil {
		t.Fatal(err)
	}
	matA := a.Tensors[NameA(qProj)].Float32s()
	for i, got := range d.Float32s() {
		want := float32(float64(i%7) + 2*float64(i/in)*float64(matA[i%in]))
		if got != want {
			t.Fatalf("row %d, column %d: got %v, want %v", i/in, i%in, got, want)
		}
	}
}

// TestMergeRenames: files and index have the new names of renamed weights, without hidden ones.
func TestMergeRenames(t *testing.T) {
	rename := func(stored string) (string, bool) {
		return "new." + stored, stored != "hidden" && stored != "alone"
	}
	t.Run("one file", func(t *testing.T) {
		w := writeBackbone(t, t.TempDir(), map[string]*tensor.Dense{"a": vector(1, 2), "hidden": vector(3), "z": vector(4)})
		if err := w.Rename(rename); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := Merge(context.Background(), w, nil, dir, nil); err != nil {
			t.Fatal(err)
		}
		want := map[string]flat{"new.a": {[]int{2}, []float32{1, 2}}, "new.z": {[]int{1}, []float32{4}}}
		if diff := cmp.Diff(want, contents(t, openBackbone(t, dir))); diff != "" {
			t.Errorf("weights (-want +got):\n%s", diff)
		}
		if _, err := os.Stat(filepath.Join(dir, checkpoints.IndexFile)); err == nil {
			t.Errorf("got %s, want none", checkpoints.IndexFile)
		}
	})
	for name, renamed := range map[string]bool{"several files": false, "several files, renamed": true} {
		t.Run(name, func(t *testing.T) {
			from := t.TempDir()
			index := map[string]string{}
			for file, tensors := range map[string]map[string]*tensor.Dense{
				"one.safetensors":   {"a": vector(1, 2), "hidden": vector(3), "b": vector(8)}, // not the b of the index
				"two.safetensors":   {"b": vector(4, 5, 6)},
				"three.safetensors": {"alone": vector(7)},
			} {
				if err := checkpoints.WriteFile(filepath.Join(from, file), tensors, nil); err != nil {
					t.Fatal(err)
				}
				for key := range tensors {
					index[key] = file
				}
			}
			index["b"] = "two.safetensors"
			text, err := json.Marshal(map[string]any{"weight_map": index, "mine": 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(from, checkpoints.IndexFile), text, 0o666); err != nil {
				t.Fatal(err)
			}
			w := openBackbone(t, from)
			want := map[string]flat{"a": {[]int{2}, []float32{1, 2}}, "b": {[]int{3}, []float32{4, 5, 6}},
				"hidden": {[]int{1}, []float32{3}}, "alone": {[]int{1}, []float32{7}}}
			if renamed {
				if err := w.Rename(rename); err != nil {
					t.Fatal(err)
				}
				want = map[string]flat{"new.a": want["a"], "new.b": want["b"]}
			}
			dir := t.TempDir()
			if err := Merge(context.Background(), w, nil, dir, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, contents(t, openBackbone(t, dir))); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
			got := readFile(t, dir, checkpoints.IndexFile)
			if !renamed && got != string(text) {
				t.Errorf("index: got %s, want %s", got, text)
			}
			if renamed {
				wantIndex := map[string]any{"metadata": map[string]any{"total_size": 20.0},
					"weight_map": map[string]any{"new.a": "one.safetensors", "new.b": "two.safetensors"}}
				if diff := cmp.Diff(wantIndex, parsed(t, got)); diff != "" {
					t.Errorf("index (-want +got):\n%s", diff)
				}
				one, _, err := checkpoints.ReadFile(filepath.Join(dir, "one.safetensors"))
				if err != nil || len(one) != 1 || one["new.a"] == nil {
					t.Errorf("one.safetensors: got %v, %v, want only new.a", one, err)
				}
				if _, err := os.Stat(filepath.Join(dir, "three.safetensors")); err == nil {
					t.Error("got a file of hidden tensors, want none")
				}
			}
		})
	}
}

// TestMergeRefusesTypes: integer weights cannot be merged or replaced.
func TestMergeRefusesTypes(t *testing.T) {
	for name, key := range map[string]string{"adapted": keyQ + ".weight", "whole": "model.norm.weight"} {
		t.Run(name, func(t *testing.T) {
			a := trained(t, func(c *Config) { c.ModulesToSave = []string{"language_model.norm"} })
			small := smallBackbone()
			small[key] = tensor.New(tensor.WithShape(small[key].Shape()...), tensor.Of(tensor.Int64))
			w := writeBackbone(t, t.TempDir(), small)
			err := Merge(context.Background(), w, a, t.TempDir(), nil)
			holdsError(t, "Merge", err, "only floating-point weights can be merged")
		})
	}
}

// TestMergeFails: an adapter that does not match the backbone is refused before anything is written.
func TestMergeFails(t *testing.T) {
	for name, test := range map[string]struct {
		change func(a *Adapter)
		want   string
	}{
		"check":      {func(a *Adapter) { a.Targets = a.Targets[:1] }, "missing tensor"},
		"checkWhole": {func(a *Adapter) { a.Whole = nil }, "missing tensor"},
		"bind": {func(a *Adapter) {
			a.Config.Start, a.Targets[0].Scale = StartPiSSA, -1
		}, "an alpha above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			a := trained(t, func(c *Config) { c.ModulesToSave = []string{"language_model.norm"} })
			test.change(a)
			out := t.TempDir()
			holdsError(t, "Merge", Merge(context.Background(), writeBackbone(t, t.TempDir(), smallBackbone()), a, out, nil),
				test.want)
			if left, _ := os.ReadDir(out); len(left) > 0 {
				t.Errorf("got files %v, want none", left)
			}
		})
	}
}

// TestDeltaOfRows: a piece of a weight gets the change of its own rows.
func TestDeltaOfRows(t *testing.T) {
	a := &Adapter{Config: NewConfig(1, 1, Names{}), Targets: []Target{{qProj, 1, 2, 2}},
		Tensors: map[string]*tensor.Dense{NameA(qProj): matrix(1, 2, 1, -1), NameB(qProj): matrix(3, 1, 3, 5, 7),
			NameParameter("p"): matrix(3, 2, 1, 2, 3, 4, 5, 6)}}
	for name, test := range map[string]struct {
		dtype     onnx.DType
		of        string
		old, want []float32
		offset    int64
	}{
		"all rows":       {onnx.Float, qProj, []float32{0, 0, 1, 1, 2, 2}, []float32{6, -6, 11, -9, 16, -12}, 0},
		"the last rows":  {onnx.Float, qProj, []float32{1, 1, 2, 2}, []float32{11, -9, 16, -12}, 8},
		"of half size":   {onnx.BFloat16, qProj, []float32{2, 2}, []float32{16, -12}, 8},
		"whole":          {onnx.Float, "p", []float32{0, 0, 0, 0, 0, 0}, []float32{1, 2, 3, 4, 5, 6}, 0},
		"part of it":     {onnx.Float, "p", []float32{0, 0, 0}, []float32{3, 4, 5}, 8},
		"half size part": {onnx.Float16, "p", []float32{0, 0}, []float32{5, 6}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := checkpoints.AppendFloat32s(nil, test.dtype, test.old)
			if err != nil {
				t.Fatal(err)
			}
			info := checkpoints.TensorInfo{Type: test.dtype, Shape: []int64{3, 2}}
			got, err := newDelta(a, test.of).values(info, raw, test.offset)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
			if got, want := rowBytes(info), int64(2*test.dtype.Size()); got != want {
				t.Errorf("bytes of a row: got %d, want %d", got, want)
			}
		})
	}
}

package lora

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/onnx"
	"assay/ort"
)

const backbone = "../testdata/oracle/llavanext/backbone"

func fixtureModules(t *testing.T) []Module {
	t.Helper()
	w, err := checkpoints.OpenWeights(backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return Modules(w)
}

// TestSaveIsAsPEFTSaves loads adapters that PEFT wrote and writes them again: the same tensors byte for byte, and the
// same configuration.
func TestSaveIsAsPEFTSaves(t *testing.T) {
	for _, dir := range []string{"../testdata/oracle/llavanext/scorer", "../testdata/oracle/llavanext/scorer_sequence",
		"../testdata/oracle/llavanext/scorer_adiee", "testdata/adapter"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			a, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Check(fixtureModules(t)); err != nil {
				t.Error(err)
			}
			out := t.TempDir()
			if err := a.Save(out); err != nil {
				t.Fatal(err)
			}
			if readFile(t, dir, WeightsFile) != readFile(t, out, WeightsFile) {
				t.Errorf("%s/%s: got other bytes after rewriting, want the same", dir, WeightsFile)
			}
			if diff := cmp.Diff(parsed(t, readFile(t, dir, ConfigFile)), parsed(t, readFile(t, out, ConfigFile))); diff != "" {
				t.Errorf("%s/%s (-want +got):\n%s", dir, ConfigFile, diff)
			}
		})
	}
}

// rewrite copies an adapter with its tensors renamed (dropped if rename returns "").
func rewrite(t *testing.T, from string, config func(string) string, rename func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	tensors, metadata, err := checkpoints.ReadFile(filepath.Join(from, WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*tensor.Dense{}
	for name, d := range tensors {
		if name = rename(name); name != "" {
			out[name] = d
		}
	}
	if err := checkpoints.WriteFile(filepath.Join(dir, WeightsFile), out, metadata); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(
		filepath.Join(dir, ConfigFile),
		[]byte(config(readFile(t, from, ConfigFile))),
		0o666,
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

func same(s string) string { return s }

// TestOlderSpellings reads an adapter written by PEFT with transformers before 4.52, when modules had different
// names.
func TestOlderSpellings(t *testing.T) {
	const from = "../testdata/oracle/llavanext/scorer"
	const oldRegex = `language_model\\.model\\.layers.*\\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)`
	want, err := Load(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []struct{ from, to, regex string }{
		{"model.model.language_model.layers", "model.language_model.model.layers", oldRegex},    // LLaVA
		{"model.model.language_model.layers", "model.model.layers", `model\\.layers\\..*_proj`}, // Qwen
		// with the adapter's name
		{"weight", "default.weight", `.*language_model.*\\.(q|k|v|o|gate|up|down)_proj`},
		{"model.language_model", "model.language_model", `(?P<a>.*)language_model.*(\\w|\\.)+_proj\\Z`}, // current
	} {
		t.Run(spelling.to, func(t *testing.T) {
			config := func(s string) string {
				at := strings.Index(s, `"target_modules"`)
				end := at + strings.IndexByte(s[at:], '\n')
				return s[:at] + `"target_modules": "` + spelling.regex + `",` + s[end:]
			}
			dir := rewrite(t, from, config, func(s string) string { return strings.Replace(s, spelling.from, spelling.to, 1) })
			a, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Check(fixtureModules(t)); err != nil {
				t.Errorf("%s: Check: got error %v, want none", spelling.to, err)
			}
			if diff := cmp.Diff(want.Targets, a.Targets); diff != "" {
				t.Errorf("%s: targets (-want +got):\n%s", spelling.to, diff)
			}
			for name, d := range want.Tensors {
				if got := a.Tensors[name]; got == nil || cmp.Diff(d.Data(), got.Data()) != "" {
					t.Errorf("%s: %s: got %v, want %v", spelling.to, name, got, d)
				}
			}
			out := t.TempDir()
			if err := a.Save(out); err != nil {
				t.Fatal(err)
			}
			if spelling.from != "weight" && readFile(t, dir, WeightsFile) != readFile(t, out, WeightsFile) {
				t.Errorf("%s: %s: got other bytes after rewriting, want the same", spelling.to, WeightsFile)
			}
			if again, err := Load(out); err != nil || again.Check(fixtureModules(t)) != nil {
				t.Errorf("%s: the rewritten adapter: got error %v from Load or one from Check, want none", spelling.to, err)
			}
		})
	}
}

func TestBrokenAdapters(t *testing.T) {
	const from = "../testdata/oracle/llavanext/scorer"
	const q0 = "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_"
	for name, c := range map[string]struct {
		config, rename func(string) string
		want           []string
	}{
		"no B": {same, func(s string) string { return drop(s, q0+"B.weight") },
			[]string{q0 + `B.weight" is missing`}},
		"no A": {same, func(s string) string { return drop(s, q0+"A.weight") },
			[]string{q0 + `A.weight" is missing`}},
		"no pair": {same, func(s string) string { return drop(drop(s, q0+"A.weight"), q0+"B.weight") },
			[]string{"missing tensor", q0 + `A.weight`}},
		"base weight": {same, func(s string) string { return strings.Replace(s, q0+"A", "lm_head", 1) },
			[]string{`unexpected tensor "lm_head.weight"`}},
		"DoRA": {same, func(s string) string { return strings.Replace(s, q0+"A.weight", q0+"magnitude_vector", 1) },
			[]string{"unexpected tensor", "magnitude_vector"}},
		"other rank": {func(s string) string { return strings.Replace(s, `"r": 8`, `"r": 4`, 1) }, same,
			[]string{q0 + `A.weight": shape (8, 64), but adapter_config.json says rank 4`}},
		"fewer targets": {func(s string) string { return strings.Replace(s, "q_proj|", "", 1) }, same,
			[]string{"does not select model.language_model.layers.0.self_attn.q_proj"}},
		"no such layer": {same, func(s string) string {
			return strings.Replace(s, "layers.0.self_attn.q_proj", "layers.9.self_attn.q_proj", 1)
		},
			[]string{"the backbone has no linear layer model.language_model.layers.9.self_attn.q_proj", "missing tensor"}},
		"other shape": {same, func(s string) string {
			swap := strings.NewReplacer("layers.0.mlp.gate_proj", "layers.0.mlp.down_proj", "layers.0.mlp.down_proj",
				"layers.0.mlp.gate_proj")
			return swap.Replace(s)
		}, []string{`layers.0.mlp.gate_proj.lora_A.weight": shape (8, 160), want (8, 64)`,
			`gate_proj.lora_B.weight": shape (64, 8), want (160, 8)`}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Load(rewrite(t, from, c.config, c.rename))
			if err == nil {
				err = a.Check(fixtureModules(t))
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want %q", name, err, want)
				}
			}
		})
	}
	dir := t.TempDir()
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no adapter: got error %v, want %v", err, fs.ErrNotExist)
	}
	config := []byte(readFile(t, from, ConfigFile))
	for _, file := range []struct{ name, want string }{{ConfigFile, WeightsFile + " is missing"},
		{"adapter_model.bin", "pickle"}} {
		t.Run(file.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, file.name), config, 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file.want) {
				t.Errorf("%s: got error %v, want one with %q that is not %v", file.name, err, file.want, fs.ErrNotExist)
			}
		})
	}
}

func drop(s, name string) string {
	if s == name {
		return ""
	}
	return s
}

// TestInitialValues compares new adapters with what PEFT documents: B zero, A uniform in +-1/sqrt(in).
func TestInitialValues(t *testing.T) {
	modules := fixtureModules(t)
	c := NewConfig(16, 32, Names{Regex: "ALL-LINEAR"})
	a, err := New(c, modules, 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(modules); err != nil {
		t.Error(err)
	}
	var squares, count float64
	for _, target := range a.Targets {
		matA, matB, scale, ok := a.Delta(target.Module)
		if !ok || scale != 2 || matA.Shape()[0] != 16 || matB.Shape()[1] != 16 {
			t.Fatalf("%s: got A of shape %v, B of shape %v, scale %v, want rank 16, scale 2", target.Module, matA.Shape(),
				matB.Shape(), scale)
		}
		bound := 1 / math.Sqrt(float64(matA.Shape()[1]))
		for _, v := range matA.Data().([]float32) {
			if !(math.Abs(float64(v)) <= bound) {
				t.Fatalf("%s: got %v in A, want at most %v", target.Module, v, bound)
			}
			squares += float64(v) * float64(v) / (bound * bound)
			count++
		}
		for _, v := range matB.Data().([]float32) {
			if v != 0 {
				t.Fatalf("%s: got %v in B, want 0", target.Module, v)
			}
		}
	}
	if got := squares / count; !(math.Abs(got-1.0/3) <= 0.005) { // the variance of U(-1, 1)
		t.Errorf("variance %v of the bound's square, want 1/3", got)
	}
	c = c.Clone()
	c.Targets = Names{List: []string{"q_proj"}}
	for seed, want := range map[uint64]bool{5: true, 6: false} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { // a module's values only depend on the seed and its name
			b, err := New(c, modules, seed)
			if err != nil {
				t.Fatal(err)
			}
			name := NameA("model.language_model.layers.1.self_attn.q_proj")
			if got := cmp.Equal(a.Tensors[name].Data(), b.Tensors[name].Data()); got != want {
				t.Errorf("seed %d: got the same values %t, want %t", seed, got, want)
			}
		})
	}
}

// TestApply runs y + s x A^T B^T, with x also times dropout's factors, with numbers whose product is known (numpy).
func TestApply(t *testing.T) {
	b := onnx.NewBuilder("apply", 17)
	x := b.Input("x", onnx.Float, onnx.Dims("rows", 3))
	y := b.Input("y", onnx.Float, onnx.Dims("rows", 2))
	mask := b.Input("mask", onnx.Float, onnx.Dims("rows", 3))
	matA, matB := b.Floats([]int64{2, 3}, 1, 2, 3, -1, 0, 1), b.Floats([]int64{2, 2}, 1, -2, 0.5, 3)
	b.Output("plain", Apply(b, x, y, matA, matB, 0.5), onnx.Float, onnx.Dims("rows", 2))
	b.Output("dropped", Apply(b, b.Op("Mul", x, mask), y, matA, matB, 0.5), onnx.Float, onnx.Dims("rows", 2))
	s, err := ort.Open(b.M, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	matrix := func(rows, columns int, v ...float32) *tensor.Dense {
		return tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(v))
	}
	got, err := s.Run(context.Background(), map[string]*tensor.Dense{"x": matrix(2, 3, 1, 2, 3, 4, 5, -6),
		"y": matrix(2, 2, 10, 20, 30, 40), "mask": matrix(2, 3, 2, 0, 2, 2, 2, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{"plain": {15, 26.5, 38, 24}, "dropped": {16, 31, 52, 35}} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, got[name].Data()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		})
	}
}

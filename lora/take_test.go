package lora

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
)

// TestNew: the tensors of a new adapter, with different values for each module.
func TestNew(t *testing.T) {
	w := smallBackbone()
	for name, test := range map[string]struct {
		change func(c *Config)
		more   map[string][]int
	}{
		"LoRA":  {func(*Config) {}, nil},
		"OLoRA": {func(c *Config) { c.Start = StartOLoRA }, nil},
		"DoRA":  {func(c *Config) { c.DoRA = true }, map[string][]int{NameM(qProj): {3}, NameM(vProj): {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 3, Names{List: []string{"q_proj", "v_proj"}})
			test.change(c)
			modules := Modules(w)
			slices.Reverse(modules)
			a, err := New(c, modules, 3)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]int{NameA(qProj): {2, 2}, NameB(qProj): {3, 2}, NameA(vProj): {2, 3}, NameB(vProj): {2, 2}}
			maps.Copy(want, test.more)
			got := map[string][]int{}
			for name, d := range a.Tensors {
				got[name] = d.Shape()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("shapes (-want +got):\n%s", diff)
			}
			if targets := []Target{{qProj, 2, 3, 1.5}, {vProj, 2, 3, 1.5}}; !slices.Equal(a.Targets, targets) {
				t.Errorf("got targets %+v, want %+v", a.Targets, targets)
			}
			if x, y := a.Tensors[NameA(qProj)].Float32s(), a.Tensors[NameA(vProj)].Float32s(); x[0] == y[0] {
				t.Errorf("got A of two modules that begin with %v, want others for each", x[0])
			}
		})
	}
}

// TestNewRefuses: configurations with problems, starts that only occur in files, and targets that match nothing.
func TestNewRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"invalid":      {func(c *Config) { c.Rank = 0 }, "r is 0"},
		"random start": {func(c *Config) { c.Start = startRandom }, `init_lora_weights is "false"; new adapters`},
		"other start":  {func(c *Config) { c.Start = "gaussian" }, `init_lora_weights is "gaussian"`},
		"no targets":   {func(c *Config) { c.Targets.List = []string{"x"} }, "matches none"},
		"PiSSA":        {func(c *Config) { c.Start = StartPiSSA }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 1, Names{List: []string{"q_proj"}})
			test.change(c)
			_, err := New(c, Modules(smallBackbone()), 1)
			holdsError(t, "New", err, test.want)
		})
	}
}

// TestTake sorts the tensors of a file, in the file's spelling, into targets and parameters by their current paths.
func TestTake(t *testing.T) {
	const old = "base_model.model.language_model.model."
	c := NewConfig(1, 2, Names{List: []string{"q_proj", "v_proj"}})
	c.Ranks = Overrides{{`language_model\.model\.layers\.0\.v_proj`, 2}}
	c.ModulesToSave = []string{"norm", "embed_tokens"}
	tensors := map[string]*tensor.Dense{
		old + "layers.0.v_proj.lora_A.weight": matrix(2, 1, 1, 2), old + "layers.0.v_proj.lora_B.weight": matrix(1, 2, 3, 4),
		"base_model.model.model.layers.0.q_proj.lora_A.default.weight": matrix(1, 2, 5, 6),
		"base_model.model.model.layers.0.q_proj.lora_B.default.weight": matrix(2, 1, 7, 8),
		old + "norm.weight": vector(9, 10), "base_model.model.model.embed_tokens.weight": matrix(1, 1, 11),
		"base_model.model.lm_head.lora_A.weight": matrix(1, 1, 12),
		"base_model.model.lm_head.lora_B.weight": matrix(1, 1, 13),
	}
	a := &Adapter{Config: c, Tensors: map[string]*tensor.Dense{}, spelled: map[string]string{}}
	if err := a.take(tensors); err != nil {
		t.Fatal(err)
	}
	const lm = "model.language_model."
	want := []Target{{"lm_head", 1, 2, 2}, {lm + "layers.0.q_proj", 1, 2, 2}, {lm + "layers.0.v_proj", 2, 2, 1}}
	if diff := cmp.Diff(want, a.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if whole := []string{lm + "embed_tokens.weight", lm + "norm.weight"}; !slices.Equal(a.Whole, whole) {
		t.Errorf("got whole %q, want %q", a.Whole, whole)
	}
	spelled := map[string]string{lm + "layers.0.v_proj": "language_model.model.layers.0.v_proj",
		lm + "layers.0.q_proj": "model.layers.0.q_proj", lm + "norm.weight": "language_model.model.norm.weight",
		lm + "embed_tokens.weight": "model.embed_tokens.weight"}
	if diff := cmp.Diff(spelled, a.spelled); diff != "" {
		t.Errorf("spellings (-want +got):\n%s", diff)
	}
	first := map[string]float32{}
	for name, d := range a.Tensors {
		first[name] = d.Float32s()[0]
	}
	if diff := cmp.Diff(map[string]float32{NameA(lm + "layers.0.v_proj"): 1, NameB(lm + "layers.0.v_proj"): 3,
		NameA(lm + "layers.0.q_proj"): 5, NameB(lm + "layers.0.q_proj"): 7, NameParameter(lm + "norm.weight"): 9,
		NameParameter(lm + "embed_tokens.weight"): 11, NameA("lm_head"): 12, NameB("lm_head"): 13}, first); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
}

// TestTakeNamesAllProblems: every wrong tensor is named once, and correct ones are not.
func TestTakeNamesAllProblems(t *testing.T) {
	const p = "base_model.model."
	matA, matB, m := p+"q.lora_A.weight", p+"q.lora_B.weight", p+"q.lora_magnitude_vector"
	for name, test := range map[string]struct {
		dora   bool
		change func(tensors map[string]*tensor.Dense)
		want   []string
	}{
		"fits": {false, func(map[string]*tensor.Dense) {}, nil},
		"DoRA": {true, func(x map[string]*tensor.Dense) { x[m] = vector(1, 2, 3) }, nil},
		"DoRA without m": {true, func(map[string]*tensor.Dense) {},
			[]string{fmt.Sprintf("tensor %q exists, but %q is missing: adapter_config.json has use_dora", matA, m)}},
		"m of another length": {true, func(x map[string]*tensor.Dense) { x[m] = vector(1, 2) },
			[]string{fmt.Sprintf("tensor %q: shape (2), want [3]", m)}},
		"no B": {false, func(x map[string]*tensor.Dense) { delete(x, matB) },
			[]string{fmt.Sprintf("tensor %q exists, but %q is missing", matA, matB)}},
		"no A": {false, func(x map[string]*tensor.Dense) { delete(x, matA) },
			[]string{fmt.Sprintf("tensor %q exists, but %q is missing", matB, matA)}},
		"rank of A": {false, func(x map[string]*tensor.Dense) { x[matA] = matrix(1, 2, 1, 2) },
			[]string{fmt.Sprintf("tensor %q: shape (1, 2), but adapter_config.json says rank 2", matA)}},
		"rank of B": {false, func(x map[string]*tensor.Dense) { x[matB] = matrix(2, 3, 1, 2, 3, 4, 5, 6) },
			[]string{fmt.Sprintf("tensor %q: shape (2, 3), but adapter_config.json says rank 2", matB)}},
		"twice": {false, func(x map[string]*tensor.Dense) {
			x[p+"visual.q.lora_A.weight"], x[p+"visual.q.lora_B.weight"] = x[matA], x[matB]
			x[p+"model.visual.q.lora_A.weight"] = x[matA]
		}, []string{fmt.Sprintf("tensor %q: model.visual.q already has its matrix A, under another spelling",
			p+"visual.q.lora_A.weight")}},
		"several": {false, func(x map[string]*tensor.Dense) {
			x["a"], x["b"], x[p+"c.lora_A.weight"], x[p+"d.lora_B.weight"] = vector(1), vector(1), vector(1), vector(1)
			x[p+"visual.q.lora_A.weight"], x[p+"model.visual.q.lora_A.weight"] = x[matA], x[matA]
			x[p+"visual.q.lora_B.weight"], x[p+"model.visual.q.lora_B.weight"] = x[matB], x[matB]
		}, []string{`unexpected tensor "a"`, `unexpected tensor "b"`,
			fmt.Sprintf("tensor %q: shape (1) of", p+"c.lora_A.weight"),
			fmt.Sprintf("tensor %q: shape (1) of", p+"d.lora_B.weight"),
			"already has its matrix A", "already has its matrix B"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 2, Names{List: []string{"q"}})
			c.DoRA = test.dora
			tensors := map[string]*tensor.Dense{matA: matrix(2, 2, 1, 2, 3, 4), matB: matrix(3, 2, 1, 2, 3, 4, 5, 6)}
			test.change(tensors)
			a := &Adapter{Config: c, Tensors: map[string]*tensor.Dense{}, spelled: map[string]string{}}
			var lines []string
			if err := a.take(tensors); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(test.want) {
				t.Fatalf("got %d problems %q, want %d", len(lines), lines, len(test.want))
			}
			for i, want := range test.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("problem %d: got %q, want %q", i, lines[i], want)
				}
			}
		})
	}
	for name, test := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"nothing":        {func(*Config) {}, "it has no tensors"},
		"bad expression": {func(c *Config) { c.Alphas = Overrides{{"(", 1}} }, "alpha_pattern: regular expression"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 2, Names{List: []string{"q"}})
			test.change(c)
			holdsError(t, "take", (&Adapter{Config: c}).take(nil), test.want)
		})
	}
}

// TestCheck: every module that does not match the backbone is named, and no others.
func TestCheck(t *testing.T) {
	shaped := func(module string, out, in int64) Module { return Module{Name: module, Linear: true, Out: out, In: in} }
	for name, test := range map[string]struct {
		modules []Module
		change  func(c *Config)
		want    []string
	}{
		"fits": {[]Module{shaped(qProj, 3, 2), shaped(vProj, 2, 3)}, func(*Config) {}, nil},
		"gone": {[]Module{shaped(vProj, 2, 3)}, func(*Config) {}, []string{
			fmt.Sprintf("unexpected tensor %q: the backbone has no linear layer %s", NameA(qProj), qProj)}},
		"gone, and a shape": {[]Module{shaped(vProj, 2, 4)}, func(*Config) {}, []string{
			fmt.Sprintf("unexpected tensor %q: the backbone has no linear layer %s", NameA(qProj), qProj),
			fmt.Sprintf("tensor %q: shape (1, 3), want (1, 4) for the backbone's weight [2, 4]", NameA(vProj))}},
		"out": {[]Module{shaped(qProj, 4, 2), shaped(vProj, 2, 3)}, func(*Config) {}, []string{
			fmt.Sprintf("tensor %q: shape (3, 1), want (4, 1) for the backbone's weight [4, 2]", NameB(qProj))}},
		"more": {[]Module{shaped(qProj, 3, 2), shaped(vProj, 2, 3), shaped("k.v_proj", 2, 3)}, func(*Config) {}, []string{
			fmt.Sprintf("missing tensor %q: adapter_config.json selects k.v_proj", NameA("k.v_proj"))}},
		"less": {[]Module{shaped(qProj, 3, 2), shaped(vProj, 2, 3)}, func(c *Config) { c.Targets.List = []string{"v_proj"} },
			[]string{fmt.Sprintf("unexpected tensor %q: adapter_config.json does not select %s", NameA(qProj), qProj)}},
		"none": {[]Module{shaped(qProj, 3, 2), shaped(vProj, 2, 3)}, func(c *Config) { c.Targets.List = []string{"x"} },
			[]string{`target_modules ["x"] matches none of the model's 2 linear layers (` + vProj + `, ...); 0 are excluded`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 2, Names{List: []string{"q_proj", "v_proj"}})
			a := freshAdapter(t, c, smallBackbone())
			test.change(c)
			err := a.Check(test.modules)
			if len(test.want) == 0 {
				holdsError(t, "Check", err, "")
				return
			}
			if err == nil {
				t.Fatalf("got no error, want %q", test.want)
			}
			if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("not linear", func(t *testing.T) {
		a := freshAdapter(t, NewConfig(1, 2, Names{List: []string{"q_proj", "v_proj"}}), smallBackbone())
		err := a.Check([]Module{{Name: qProj, Out: 3, In: 2}, shaped(vProj, 2, 3)})
		holdsError(t, "Check", err, "the backbone has no linear layer "+qProj)
	})
}

// TestShorten: ten problems are listed in full, more as ten and a count.
func TestShorten(t *testing.T) {
	for count, want := range map[int]string{0: "", 1: "0", 10: "0 1 2 3 4 5 6 7 8 9", 11: "0 1 2 3 4 5 6 7 8 9 and 1 more",
		25: "0 1 2 3 4 5 6 7 8 9 and 15 more"} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			var errs []error
			for i := range count {
				errs = append(errs, errors.New(fmt.Sprint(i)))
			}
			got := ""
			if err := shorten(errs); err != nil {
				got = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestTarget finds a module among the sorted ones, with its matrices.
func TestTarget(t *testing.T) {
	a := &Adapter{Targets: []Target{{"a", 1, 2, 3}, {"c", 4, 5, 6}, {"e", 7, 8, 9}}, Tensors: map[string]*tensor.Dense{
		NameA("c"): vector(1), NameB("c"): vector(2)}}
	for name, want := range map[string]Target{"a": a.Targets[0], "c": a.Targets[1], "e": a.Targets[2], "b": {}, "f": {}} {
		t.Run(name, func(t *testing.T) {
			got, ok := a.Target(name)
			if got != want || ok != (want.Rank > 0) {
				t.Errorf("got %+v, %t, want %+v", got, ok, want)
			}
			matA, matB, scale, ok := a.Delta(name)
			if scale != want.Scale || ok != (want.Rank > 0) || matA != a.Tensors[NameA(name)] || matB != a.Tensors[NameB(name)] {
				t.Errorf("Delta: got %v, %v, %v, %t, want factor %v", matA, matB, scale, ok, want.Scale)
			}
		})
	}
}

// TestFileNames: tensors are written in the spelling that was read; biases of adapted layers are named as in PEFT.
func TestFileNames(t *testing.T) {
	const p = "base_model.model."
	c := NewConfig(1, 1, Names{List: []string{"q_proj"}})
	c.Bias, c.DoRA = BiasAll, true
	a := &Adapter{Config: c, Targets: []Target{{Module: "a.q"}, {Module: qProj}}, spelled: map[string]string{
		qProj: "model.layers.0.self_attn.q_proj", qProj + ".bias": "model.layers.0.self_attn.q_proj.bias"}}
	for name, want := range map[string]string{
		NameA(qProj):                   p + keyQ + ".lora_A.weight",
		NameM(qProj):                   p + keyQ + ".lora_magnitude_vector",
		NameA("a.q"):                   p + "a.q.lora_A.weight",
		NameParameter(qProj + ".bias"): p + keyQ + ".base_layer.bias",
		NameParameter("a.q.bias"):      p + "a.q.base_layer.bias",
		NameParameter("a.v.bias"):      p + "a.v.bias",
		NameParameter("a.q.weight"):    p + "a.q.weight",
		"unheard":                      "unheard",
	} {
		t.Run(name, func(t *testing.T) {
			if got := a.fileName(name); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestSaveAndLoad: an adapter with every kind of tensor round-trips; what cannot be written is an error.
func TestSaveAndLoad(t *testing.T) {
	a := trained(t, func(c *Config) { c.DoRA, c.Bias = true, BiasLora })
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(flattened(a.Tensors), flattened(again.Tensors)); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
	if !slices.Equal(again.Targets, a.Targets) || !slices.Equal(again.Whole, a.Whole) || len(a.Whole) != 2 {
		t.Errorf("got %+v and %q, want %+v and %q", again.Targets, again.Whole, a.Targets, a.Whole)
	}
	_, metadata, err := checkpoints.ReadFile(filepath.Join(dir, WeightsFile))
	if err != nil || metadata["format"] != "pt" {
		t.Errorf("got metadata %v, %v, want the format pt", metadata, err)
	}
	if a.Save(filepath.Join(dir, WeightsFile)) == nil {
		t.Error("Save in a file: got no error, want one")
	}
	broken := &Adapter{Config: a.Config, Targets: a.Targets[:1], Tensors: a.Tensors, InitOffset: map[string]*tensor.Dense{
		NameA(a.Targets[0].Module): vector(1), NameB(a.Targets[0].Module): matrix(1, 1, 1)}}
	if broken.Save(dir) == nil {
		t.Error("Save of a start of other shapes: got no error, want one")
	}
}

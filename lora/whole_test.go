package lora

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSelected lists the full parameters of a configuration, by PEFT's rules.
func TestSelected(t *testing.T) {
	const merger = "model.visual.merger.mlp.0."
	adapted := []Target{{Module: qProj}}
	old := map[string]string{qProj: "language_model.model.layers.0.self_attn.q_proj"}
	for name, test := range map[string]struct {
		bias    string
		save    []string
		spelled map[string]string
		tied    bool
		want    map[string]string
		err     string
	}{
		"nothing": {bias: BiasNone, tied: true},
		"no word": {},
		"all biases": {bias: BiasAll, want: map[string]string{
			qProj + ".bias": keyQ + ".bias", vProj + ".bias": keyV + ".bias",
			"model.visual.blocks.0.qkv.bias": "visual.blocks.0.qkv.bias", merger + "bias": "visual.merger.mlp.0.bias"}},
		"biases of layers": {bias: BiasLora, tied: true, want: map[string]string{qProj + ".bias": keyQ + ".bias"}},
		"module of modules": {bias: BiasNone, save: []string{"merger"}, tied: true, want: map[string]string{
			merger + "weight": "visual.merger.mlp.0.weight", merger + "bias": "visual.merger.mlp.0.bias"}},
		"end of a name": {save: []string{"l.norm"}, want: map[string]string{
			"model.language_model.norm.weight": "model.norm.weight"}},
		"two": {save: []string{"lm_head", "model.norm"}, want: map[string]string{
			"model.language_model.norm.weight": "model.norm.weight", "lm_head.weight": "lm_head.weight"}},
		"one of two is none": {save: []string{"nowhere", "model.norm"}, want: map[string]string{
			"model.language_model.norm.weight": "model.norm.weight"}},
		"embedding": {save: []string{"embed_tokens"}, want: map[string]string{
			"model.language_model.embed_tokens.weight": "model.embed_tokens.weight"}},
		"tied embedding": {save: []string{"embed_tokens"}, tied: true,
			err: "embed_tokens.weight, which the output layer shares"},
		"tied output layer": {save: []string{"lm_head"}, tied: true,
			err: "modules_to_save names lm_head, which shares the embedding's table"},
		"beside a tied embedding": {save: []string{"model.norm"}, tied: true, want: map[string]string{
			"model.language_model.norm.weight": "model.norm.weight"}},
		"no module": {save: []string{"nowhere"}, err: `modules_to_save ["nowhere"] names no module of the backbone`},
		"adapted":   {save: []string{"q_proj"}, err: "modules_to_save names " + qProj + ", which also has an adapter"},
		"around an adapted one": {save: []string{"self_attn"},
			err: "modules_to_save names " + qProj + ", which also has an adapter"},
		"beside an adapted one": {save: []string{"v_proj"}, want: map[string]string{
			vProj + ".bias": keyV + ".bias", vProj + ".weight": keyV + ".weight"}},
		"older spelling": {save: []string{"language_model.model.layers.0.self_attn.q_proj"}, spelled: old,
			err: "which also has an adapter"},
		"newer spelling": {save: []string{qProj}, spelled: old, err: "names no module"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 2, Names{List: []string{"q_proj"}})
			c.Bias, c.ModulesToSave = test.bias, test.save
			w := smallBackbone()
			if test.tied {
				delete(w, "lm_head.weight")
			}
			a := &Adapter{Config: c, Targets: adapted, spelled: test.spelled}
			got, err := a.selected(w)
			holdsError(t, "selected", err, test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWholeParameters: a new adapter copies its full parameters once; other adapters copy none.
func TestWholeParameters(t *testing.T) {
	c := NewConfig(1, 2, Names{List: []string{"q_proj"}})
	c.ModulesToSave = []string{"merger", "model.norm"}
	paths := []string{"model.language_model.norm.weight", "model.visual.merger.mlp.0.bias",
		"model.visual.merger.mlp.0.weight"}
	t.Run("fresh", func(t *testing.T) {
		w := smallBackbone()
		a := freshAdapter(t, c, w)
		if err := a.Bind(w); err != nil {
			t.Fatal(err)
		}
		w["model.norm.weight"].Float32s()[0] = 99 // the adapter has a copy
		want := map[string]flat{paths[0]: {[]int{2}, []float32{6, 7}}, paths[1]: {[]int{2}, []float32{8, 9}},
			paths[2]: {[]int{2, 2}, []float32{9, 8, 7, 6}}}
		if !slices.Equal(a.Whole, paths) {
			t.Errorf("got %q, want %q", a.Whole, paths)
		}
		all := flattened(a.Tensors)
		for path, v := range want {
			if diff := cmp.Diff(v, all[NameParameter(path)]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
		if err := errors.Join(a.CheckWhole(w), a.Bind(w)); err != nil {
			t.Error(err)
		}
		if got := a.Tensors[NameParameter(paths[0])].Float32s()[0]; got != 6 {
			t.Errorf("bound again: got %v, want 6 as before", got)
		}
	})
	t.Run("read", func(t *testing.T) {
		w := smallBackbone()
		a := freshAdapter(t, c, w)
		a.fresh = false
		if err := a.Bind(w); err != nil || a.Whole != nil {
			t.Errorf("got %q, %v, want none", a.Whole, err)
		}
	})
	t.Run("without weights", func(t *testing.T) {
		w := shapes{}
		for _, name := range smallBackbone().Names() {
			info, _ := smallBackbone().Info(name)
			w[name] = info.Shape
		}
		a := freshAdapter(t, c, w)
		if err := a.Describe(w); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Whole, paths) {
			t.Errorf("got %q, want %q", a.Whole, paths)
		}
		if err := a.CheckWhole(w); err != nil {
			t.Errorf("got error %v, want none", err)
		}
		for i, want := range [][]int{{2}, {2}, {2, 2}} {
			if got := []int(a.Tensors[NameParameter(paths[i])].Shape()); !slices.Equal(got, want) {
				t.Errorf("%s: got shape %v, want %v", paths[i], got, want)
			}
		}
	})
}

// TestCheckWhole: parameters that are missing, have the wrong shape, or are unexpected are named, and no others.
func TestCheckWhole(t *testing.T) {
	const norm, bias, weight = "model.language_model.norm.weight", "model.visual.merger.mlp.0.bias",
		"model.visual.merger.mlp.0.weight"
	for name, test := range map[string]struct {
		change func(a *Adapter, w held)
		want   []string
	}{
		"missing": {func(a *Adapter, _ held) { a.Whole = []string{norm, weight} },
			[]string{fmt.Sprintf("missing tensor %q: adapter_config.json selects it", NameParameter(bias))}},
		"shape": {func(_ *Adapter, w held) { w["visual.merger.mlp.0.weight"] = matrix(2, 1, 1, 2) },
			[]string{fmt.Sprintf("tensor %q: shape (2, 2), the backbone's is [2 1]", NameParameter(weight))}},
		"dimensions": {func(_ *Adapter, w held) { w["visual.merger.mlp.0.bias"] = matrix(2, 1, 1, 2) },
			[]string{fmt.Sprintf("tensor %q: shape (2), the backbone's is [2 1]", NameParameter(bias))}},
		"too many, and a shape": {func(a *Adapter, w held) {
			a.Config.ModulesToSave = []string{"merger"}
			w["visual.merger.mlp.0.weight"] = matrix(1, 2, 1, 2)
		}, []string{fmt.Sprintf("unexpected tensor %q: adapter_config.json does not select it, or the backbone lacks it",
			NameParameter(norm)), fmt.Sprintf("tensor %q: shape (2, 2), the backbone's is [1 2]", NameParameter(weight))}},
		"no module": {func(a *Adapter, _ held) { a.Config.ModulesToSave = []string{"nowhere"} },
			[]string{`modules_to_save ["nowhere"] names no module of the backbone`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 2, Names{List: []string{"q_proj"}})
			c.ModulesToSave = []string{"merger", "model.norm"}
			w := smallBackbone()
			a := freshAdapter(t, c, w)
			if err := a.Bind(w); err != nil {
				t.Fatal(err)
			}
			test.change(a, w)
			err := a.CheckWhole(w)
			if err == nil {
				t.Fatalf("got no error, want %q", test.want)
			}
			if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

package lora

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestModulesOfKeys lists the modules of small checkpoints: linear layers, tables, containers, tied output layers.
func TestModulesOfKeys(t *testing.T) {
	const lm = "model.language_model"
	for name, test := range map[string]struct {
		keys shapes
		want []Module
	}{
		"linear with a bias": {shapes{"model.layers.0.q.bias": {3}, "model.layers.0.q.weight": {3, 2}}, []Module{
			{Name: "model"}, {Name: lm}, {Name: lm + ".layers"}, {Name: lm + ".layers.0"},
			{Name: lm + ".layers.0.q", Key: "model.layers.0.q.weight", Linear: true, Out: 3, In: 2}}},
		"bias alone": {shapes{"a.b.bias": {3}}, []Module{{Name: "a"}, {Name: "a.b"}}},
		"norm": {shapes{"a.norm.weight": {3}}, []Module{{Name: "a"},
			{Name: "a.norm", Key: "a.norm.weight"}}},
		"convolution": {shapes{"conv.weight": {3, 2, 1, 1}}, []Module{{Name: "conv", Key: "conv.weight"}}},
		"matrix of a conv": {shapes{"patch_embed.proj.weight": {3, 2}}, []Module{
			{Name: "patch_embed"}, {"patch_embed.proj", "patch_embed.proj.weight", true, 3, 2}}},
		"table": {shapes{"a.pos_embed.weight": {3, 2}}, []Module{{Name: "a"},
			{Name: "a.pos_embed", Key: "a.pos_embed.weight"}}},
		"table at the root":     {shapes{"embed.weight": {3, 2}}, []Module{{Name: "embed", Key: "embed.weight"}}},
		"parameter":             {shapes{"a.b.class_embedding": {3, 2}}, []Module{{Name: "a"}, {Name: "a.b"}}},
		"parameter at the root": {shapes{"scale": {1}, "image_newline": {4}}, []Module{{Name: "model"}}},
		"tied": {shapes{"model.embed_tokens.weight": {5, 4}}, []Module{{Name: "lm_head", Linear: true, Out: 5, In: 4},
			{Name: "model"}, {Name: lm}, {Name: lm + ".embed_tokens", Key: "model.embed_tokens.weight"}}},
		"untied": {shapes{"model.embed_tokens.weight": {5, 4}, "lm_head.weight": {6, 4}}, []Module{
			{"lm_head", "lm_head.weight", true, 6, 4},
			{Name: "model"}, {Name: lm}, {Name: lm + ".embed_tokens", Key: "model.embed_tokens.weight"}}},
		"untied, sorted later": {shapes{"language_model.model.embed_tokens.weight": {5, 4}, "lm_head.weight": {6, 4}},
			[]Module{{"lm_head", "lm_head.weight", true, 6, 4}, {Name: "model"}, {Name: lm},
				{Name: lm + ".embed_tokens", Key: "language_model.model.embed_tokens.weight"}}},
		"a table that is none": {shapes{"model.embed_tokens.weight": {5}}, []Module{
			{Name: "model"}, {Name: lm}, {Name: lm + ".embed_tokens", Key: "model.embed_tokens.weight"}}},
		"another table": {shapes{"visual.embed_tokens.weight": {5, 4}}, []Module{
			{Name: "model"}, {Name: "model.visual"},
			{Name: "model.visual.embed_tokens", Key: "visual.embed_tokens.weight"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Modules(test.keys)); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCanonical: each older prefix maps to its path in transformers 5, and such paths do not change.
func TestCanonical(t *testing.T) {
	for name, want := range map[string]string{
		"language_model.model.layers.0.mlp": "model.language_model.layers.0.mlp",
		"language_model.lm_head.weight":     "lm_head.weight",
		"model.vision_tower.vision_model.a": "model.vision_tower.a",
		"vision_tower.vision_model.a":       "model.vision_tower.a",
		"vision_tower.a":                    "model.vision_tower.a",
		"multi_modal_projector.linear_1":    "model.multi_modal_projector.linear_1",
		"image_newline":                     "model.image_newline",
		"visual.blocks.0":                   "model.visual.blocks.0",
		"model.layers.0":                    "model.language_model.layers.0",
		"model.embed_tokens.weight":         "model.language_model.embed_tokens.weight",
		"model.norm.weight":                 "model.language_model.norm.weight",
		"model.language_model.layers.0.mlp": "model.language_model.layers.0.mlp",
		"model.visual.blocks.0":             "model.visual.blocks.0",
		"lm_head":                           "lm_head",
	} {
		t.Run(name, func(t *testing.T) {
			if got := Canonical(name); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestParent: the enclosing module; "" for names without a dot.
func TestParent(t *testing.T) {
	for name, want := range map[string]string{"a.b.c": "a.b", "a.b": "a", "a": "", "": "", ".a": ""} {
		t.Run(name, func(t *testing.T) {
			if got := parent(name); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

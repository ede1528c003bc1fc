package lora

import (
	"maps"
	"slices"
	"strings"

	"assay/checkpoints"
)

// Module is a module of a backbone, in the sense of PEFT.
type Module struct {
	Name    string // path in transformers 5: model.language_model.layers.0.self_attn.q_proj
	Key     string // name of the weight in the checkpoint; "" for containers and for an output layer tied to the embedding
	Linear  bool
	Out, In int64 // features of a linear layer: its weight is [Out, In]
}

// Checkpoint is the source of the modules: a [checkpoints.Weights] or a [checkpoints.SafetensorsFile].
type Checkpoint interface {
	Names() []string
	Info(name string) (checkpoints.TensorInfo, bool)
}

// renamed maps name prefixes in checkpoints and in adapters of older PEFT or transformers versions to module paths in
// transformers 5; the first match counts.
var renamed = []struct{ from, to string }{
	// LLaVA: checkpoints, and modules before transformers 4.52
	{"language_model.model.", "model.language_model."},
	{"language_model.lm_head", "lm_head"},
	{"model.vision_tower.vision_model.", "model.vision_tower."},
	{"vision_tower.vision_model.", "model.vision_tower."},
	{"vision_tower.", "model.vision_tower."},
	{"multi_modal_projector.", "model.multi_modal_projector."},
	{"image_newline", "model.image_newline"},
	// Qwen-VL
	{"visual.", "model.visual."},
	{"model.layers.", "model.language_model.layers."},
	{"model.embed_tokens", "model.language_model.embed_tokens"},
	{"model.norm", "model.language_model.norm"},
}

// Canonical returns the path in transformers 5 of a module or parameter, given its name in transformers 5, in a
// checkpoint of either spelling, or in an older adapter.
func Canonical(name string) string {
	for _, r := range renamed {
		if rest, ok := strings.CutPrefix(name, r.from); ok {
			return r.to + rest
		}
	}
	return name
}

// Modules lists a backbone's modules, sorted by name. Linear layers are detected by their weights: matrices that are
// not embedding tables.
func Modules(w Checkpoint) []Module {
	byName := map[string]Module{}
	for _, key := range w.Names() {
		path := Canonical(key)
		name, isWeight := strings.CutSuffix(path, ".weight")
		if !isWeight {
			if name = strings.TrimSuffix(path, ".bias"); name == path { // a parameter of the enclosing module itself
				name = parent(path)
			}
		}
		for p := parent(name); p != ""; p = parent(p) {
			if _, ok := byName[p]; !ok {
				byName[p] = Module{Name: p}
			}
		}
		m := byName[name]
		m.Name = name
		if info, _ := w.Info(key); isWeight {
			m.Key = key
			last := name[strings.LastIndexByte(name, '.')+1:]
			if len(info.Shape) == 2 && !strings.Contains(last, "embed") {
				m.Linear, m.Out, m.In = true, info.Shape[0], info.Shape[1]
			}
		}
		if name != "" {
			byName[name] = m
		}
		// A tied output layer is a module as well.
		if _, ok := byName["lm_head"]; !ok && name == "model.language_model.embed_tokens" {
			if info, _ := w.Info(key); len(info.Shape) == 2 {
				byName["lm_head"] = Module{Name: "lm_head", Linear: true, Out: info.Shape[0], In: info.Shape[1]}
			}
		}
	}
	out := make([]Module, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

func parent(name string) string {
	return name[:max(0, strings.LastIndexByte(name, '.'))]
}

// MatchModules is Match for a backbone's modules.
func (c *Config) MatchModules(modules []Module) ([]Target, error) {
	var linear, others []string
	for _, m := range modules {
		if m.Linear {
			linear = append(linear, m.Name)
		} else {
			others = append(others, m.Name)
		}
	}
	return c.Match(linear, others...)
}

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/lora"
)

// How a part of the model trains.
const (
	byLora = "lora"   // adapters on the layers that lora.targets names
	Whole  = "full"   // all of its parameters
	frozen = "frozen" // not at all
)

// The rows of the score token.
const (
	rowEmbedding = "embedding" // of the embedding table
	rowOutput    = "lm_head"   // of the output layer
)

// TrainConfig says what trains in each part, instead of mode and lora.parts.
type TrainConfig struct {
	Language  string   `yaml:"language"`       // lora, full, frozen
	Projector string   `yaml:"projector"`      //
	Vision    string   `yaml:"vision"`         //
	Last      int      `yaml:"last,omitempty"` // only this many last layers of the language model; 0: all
	Rows      []string `yaml:"rows"`           // of the score token: embedding, lm_head
}

func (t *TrainConfig) part(name string) *string {
	return map[string]*string{lora.Language: &t.Language, lora.Projector: &t.Projector, lora.Vision: &t.Vision}[name]
}

// Parts lists the parts that train in the given way.
func (t *TrainConfig) Parts(how string) (out []string) {
	for _, p := range lora.Parts() {
		if *t.part(p) == how {
			out = append(out, p)
		}
	}
	return out
}

// settleTrain fills in what train leaves out from mode and lora.parts, and then sets these to match train.
func (c *Config) settleTrain(d checker) {
	t := c.Train
	if t == nil || c.Mode == ModeText {
		return
	}
	for _, p := range lora.Parts() {
		how := t.part(p)
		switch {
		case *how != "":
		case c.Mode == "full":
			*how = Whole
		case slices.Contains(c.Lora.Parts, p):
			*how = byLora
		default:
			*how = frozen
		}
	}
	if t.Rows == nil {
		t.Rows = []string{rowEmbedding, rowOutput}
	}
	adapted := t.Parts(byLora)
	mode := "lora"
	if len(adapted) == 0 && len(t.Parts(Whole)) > 0 {
		mode = "full"
	}
	d.Want(!d.Has("mode") || c.Mode == mode, "mode", "train implies mode %s: leave this out", mode)
	c.Mode = mode
	if c.BringsAdapter() {
		for _, p := range adapted {
			d.Want(slices.Contains(c.Lora.Parts, p), "train."+p, "init's adapter has no layers there: want full or frozen")
		}
		return
	}
	d.Want(!d.Has("lora.parts") || SameSet(adapted, c.Lora.Parts), "lora.parts",
		"train puts adapters on %v: leave this out", adapted)
	c.Lora.Parts = adapted
}

// SameSet reports whether two lists have the same elements.
func SameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// BringsAdapter reports whether init has an adapter, which then decides where adapters are.
func (c *Config) BringsAdapter() bool {
	if c.Init == "" {
		return false
	}
	_, err := lora.LoadConfig(c.Init)
	return err == nil
}

func (c *Config) checkTrain(d checker) {
	t := c.Train
	if t == nil {
		return
	}
	for _, p := range lora.Parts() {
		d.oneOf("train."+p, *t.part(p), byLora, Whole, frozen)
	}
	d.Want(t.Last >= 0, "train.last", "want at least 0 (all layers), not %d", t.Last)
	d.Want(t.Last == 0 || t.Language != frozen, "train.last", "the language model is frozen: leave this out")
	for _, r := range t.Rows {
		d.oneOf("train.rows", r, rowEmbedding, rowOutput)
	}
	d.Want(len(t.Rows) == 0 || c.Judge == nil || len(t.Rows) == 2, "train.rows",
		"a scorer of format 2 has no score token: leave this out")
}

// Adapts reports whether the run trains adapters.
func (c *Config) Adapts() bool {
	if c.Mode == ModeText {
		return c.Text != nil && c.Text.Tune == byLora
	}
	return c.Mode == "lora" && (c.Train == nil || len(c.Train.Parts(byLora)) > 0)
}

// layerOf returns the index of the language model layer that a module or parameter is in; -1: none.
func layerOf(path string) int {
	rest, ok := strings.CutPrefix(path, "model.language_model.layers.")
	if !ok {
		return -1
	}
	number, _, _ := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(number); err == nil {
		return n
	}
	return -1
}

// layers counts the language model's layers.
func layers(modules []lora.Module) (n int) {
	for _, m := range modules {
		n = max(n, layerOf(m.Name)+1)
	}
	return n
}

// lastLayers counts the language model's layers; it returns an error if train.last is more.
func (t *TrainConfig) lastLayers(modules []lora.Module) (int, error) {
	n := layers(modules)
	if t.Last > n {
		return 0, fmt.Errorf("train.last: the language model has %d layers, not %d", n, t.Last)
	}
	return n, nil
}

// reaches reports whether a module or parameter belongs to a part that trains this way, within its last layers.
func (t *TrainConfig) reaches(how, path string, layers int) bool {
	part := lora.Part(path)
	return *t.part(part) == how && (part != lora.Language || t.Last == 0 || layerOf(path) >= max(0, layers-t.Last))
}

// TrainsTensor reports which tensors train, by their names in the scorer directory or the checkpoint; nil: all.
func (c *Config) TrainsTensor(modules []lora.Module) (func(name string) bool, error) {
	t := c.Train
	if t == nil {
		return nil, nil
	}
	n, err := t.lastLayers(modules)
	if err != nil {
		return nil, err
	}
	return func(name string) bool {
		module, adapted := lora.ModuleOf(name)
		path, brought := lora.ParameterOf(name)
		switch {
		case adapted:
			return t.reaches(byLora, module, n)
		case brought:
			return *t.part(lora.Part(path)) != frozen
		case IsTokenRow(name):
			return slices.Contains(t.Rows, strings.TrimPrefix(name, "score_token."))
		case headTensor(name), GroupOf(name) == LossGroup:
			return true
		}
		return t.reaches(Whole, lora.Canonical(name), n)
	}, nil
}

// Narrow applies train's parts and last layers to an adapter's configuration.
func (t *TrainConfig) Narrow(l *lora.Config, modules []lora.Module, parameters []string) error {
	n, err := t.lastLayers(modules)
	if err != nil {
		return err
	}
	for _, name := range lora.Cover(parameters, func(path string) bool { return t.reaches(Whole, path, n) }) {
		if !slices.Contains(l.ModulesToSave, name) {
			l.ModulesToSave = append(l.ModulesToSave, name)
		}
	}
	if t.Last > 0 && t.Language == byLora {
		var first []string
		for i := range n - t.Last {
			first = append(first, strconv.Itoa(i))
		}
		if len(first) > 0 {
			l.Exclude = l.Exclude.And(`(.*\.)?language_model\.(.*\.)?layers\.(` + strings.Join(first, "|") + `)\..*|lm_head`)
		}
	}
	return nil
}

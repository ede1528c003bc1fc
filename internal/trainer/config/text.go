package config

import (
	"cmp"
	"path/filepath"
	"slices"

	"assay/internal/strictyaml"
	"assay/lora"
	"assay/model"
)

// ModeText trains a model on the answers of conversations.
const ModeText = "text"

// TextConfig has the keys of mode text.
type TextConfig struct {
	Tune      string `yaml:"tune"`       // lora, full
	MaxTokens int    `yaml:"max_tokens"` // longest conversation; 0: the model's positions decide
}

// The names of files and folders in a run directory.
const (
	ConfigFile     = "config.yaml" // the resolved configuration
	CheckpointsDir = "checkpoints"
	ScorerDir      = "scorer"   // the result
	AdapterDir     = "adapter"  // the result in mode text
	BackboneDir    = "backbone" // the result in mode text with tune: full
	BestDir        = "best"     // like the result, from the best validation
)

// ResultDirs are the folders that a run may write its result to, and BestDir.
var ResultDirs = []string{ScorerDir, AdapterDir, BackboneDir, BestDir}

// resultDir returns the result folder of this run.
func (c *Config) resultDir() string {
	switch {
	case c.Mode != ModeText:
		return ScorerDir
	case c.Adapts():
		return AdapterDir
	}
	return BackboneDir
}

// ResultPath returns the path of the result.
func (c *Config) ResultPath() string { return filepath.Join(c.Out, c.resultDir()) }

// settleText fills in what follows from the mode.
func (c *Config) settleText() {
	if c.Mode != ModeText {
		return
	}
	if c.Text == nil {
		c.Text = &TextConfig{}
	}
	c.Text.Tune = cmp.Or(c.Text.Tune, "lora")
}

// withAdapter decodes a run's file again, with the settings of init's adapter as the defaults of the lora section.
func withAdapter(path string, text []byte, dir string, c *Config, d *strictyaml.Document) (
	*Config, *strictyaml.Document) {
	a, err := lora.LoadConfig(dir)
	if err != nil {
		d.Problem("init", "not a folder with an adapter: %v", err)
		return c, d
	}
	base := Default()
	base.takeAdapter(a)
	return base, strictyaml.Decode(path, text, base)
}

// checkText checks the keys of mode text, and refuses keys that only apply to scorers.
func (c *Config) checkText(d checker) {
	if c.Mode != ModeText {
		d.Want(c.Text == nil, "text", "only applies to mode: text")
		return
	}
	d.oneOf("text.tune", c.Text.Tune, "lora", "full")
	d.Want(
		c.Init == "" || c.Text.Tune == "lora",
		"init",
		"is an adapter to fine-tune, which tune: full does not train: "+
			"merge it first (train merge --backbone DIR --adapter DIR --out DIR)",
	)
	d.Want(c.Text.MaxTokens >= 0, "text.max_tokens", "want at least 0 (as many as the model has positions), not %d",
		c.Text.MaxTokens)
	now, usual := c.values(), Default().values()
	d.oneOf("pair", c.Pair, model.Sequence, model.Frames)
	for _, key := range scorerKeys {
		d.Want(sameValue(now, usual, key), key, "only applies to scorers: mode text learns conversations and has no such key")
	}
}

// scorerKeys are the keys that mode text does not have.
var scorerKeys = append(slices.Clone(scorerOnly), "scorer", "train", "augment", "loss", "losses", "data.columns",
	"data.sampling", "data.balance", "data.weight", "data.group_edits", "data.train_split", "data.validation_split")

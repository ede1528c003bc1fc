package config

import (
	"slices"
	"strings"

	"assay/lora"
)

// wholePaths reports whether the targets are a regular expression for whole module paths.
func (t Targets) wholePaths() bool {
	return t.Pattern != "" && !strings.EqualFold(t.Pattern, "all-linear")
}

// PEFTConfig returns the configuration of a run's adapter in PEFT's form.
func PEFTConfig(c *Config) *lora.Config {
	names := func(t Targets) lora.Names { return lora.Names{List: t.List, Regex: t.Pattern} }
	l := lora.NewConfig(c.Lora.R, c.Lora.Alpha, names(c.Lora.Targets))
	l.Dropout, l.RSLoRA, l.Base, l.LayersToTransform = c.Lora.Dropout, c.Lora.RSLora, c.Backbone, c.Lora.Layers
	l.DoRA, l.Start, l.ModulesToSave = c.Lora.DoRA, lora.Start(c.Lora.Start), slices.Clone(c.Lora.ModulesToSave)
	if c.Lora.Bias != "" {
		l.Bias = c.Lora.Bias
	}
	l.Exclude = names(c.Lora.Exclude).Within(c.Lora.Parts)
	l.Ranks, l.Alphas = lora.Overrides(slices.Clone(c.Lora.RankPattern)), lora.Overrides(slices.Clone(c.Lora.AlphaPattern))
	return l
}

// LoraConfigOf is the inverse of PEFTConfig.
func LoraConfigOf(a *lora.Config) LoraConfig {
	parts, rest := a.Exclude.Outside()
	l := LoraConfig{
		R:            a.Rank,
		Alpha:        a.Alpha,
		Dropout:      a.Dropout,
		Targets:      Targets{List: a.Targets.List, Pattern: a.Targets.Regex},
		Parts:        parts,
		Exclude:      Targets{List: rest.List, Pattern: rest.Regex},
		RankPattern:  Overrides(slices.Clone(a.Ranks)),
		AlphaPattern: Overrides(slices.Clone(a.Alphas)),
		RSLora:       a.RSLoRA,
		Layers:       a.LayersToTransform,
		DoRA:         a.DoRA,

		ModulesToSave: a.ModulesToSave,
	}
	if a.Bias != lora.BiasNone {
		l.Bias = a.Bias
	}
	if a.Start == lora.StartPiSSA || a.Start == lora.StartOLoRA {
		l.Start = string(a.Start)
	}
	return l
}

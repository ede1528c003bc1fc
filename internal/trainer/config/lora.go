package config

import (
	"maps"
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
	for _, k := range slices.Sorted(maps.Keys(c.Lora.RankPattern)) {
		l.Ranks = append(l.Ranks, lora.Override{Key: k, Value: float64(c.Lora.RankPattern[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(c.Lora.AlphaPattern)) {
		l.Alphas = append(l.Alphas, lora.Override{Key: k, Value: c.Lora.AlphaPattern[k]})
	}
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
		RankPattern:  map[string]int{},
		AlphaPattern: map[string]float64{},
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
	for _, o := range a.Ranks {
		l.RankPattern[o.Key] = int(o.Value)
	}
	for _, o := range a.Alphas {
		l.AlphaPattern[o.Key] = o.Value
	}
	return l
}

package heuristics

import (
	"fmt"
	"math"
	"slices"

	"assay/internal/stats"
)

// How the thresholds of CLIP-I and DINO-I are combined.
const (
	JoinAnd = "and" // an edit fails at or below both thresholds
	JoinOr  = "or"  // an edit fails at or below either of them
)

// Rules is the configuration of the label rules.
type Rules struct {
	Order        []string  `yaml:"order"`          // rule names; the first one that applies decides
	FailedClipD  float64   `yaml:"failed_clip_d"`  // at or below: 0
	PartialClipD float64   `yaml:"partial_clip_d"` // a strong editor's at or below: PartialLabel
	PartialLabel float64   `yaml:"partial_label"`
	ClipI        Threshold `yaml:"clip_i"`
	DinoI        Threshold `yaml:"dino_i"`
	Join         string    `yaml:"join"`          // of the two thresholds above, if neither is off: and, or
	PromptGuided []string  `yaml:"prompt_guided"` // editors that work from two captions instead of the instruction
	Weak         []string  `yaml:"weak"`
	Strong       []string  `yaml:"strong"`
}

// Chains is the configuration of the labels of multi-turn chains.
type Chains struct {
	Samples         int     `yaml:"samples"`  // (j1, j2, k) to draw from each chain; 0: all
	Balanced        bool    `yaml:"balanced"` // equally many of each label, as far as the chain has them
	Shuffle         bool    `yaml:"shuffle"`  // the joined instructions in random order
	Joint           string  `yaml:"joint"`    // separator between two joined instructions
	Foreign         int     `yaml:"foreign"`  // pictures of other chains, for every (j1, j2)
	ForeignLabel    float64 `yaml:"foreign_label"`
	OverEditedLabel float64 `yaml:"over_edited_label"`
}

// paperRules are the rules of the ADIEE paper.
func paperRules() Rules {
	return Rules{
		Order: []string{RuleGiven, RuleSource, RuleTarget, RuleForeign, RuleNoClipD, RuleClipD, RuleDissimilar,
			RuleWeakEditor, RulePartial},
		FailedClipD:  0,
		PartialClipD: 0.2,
		PartialLabel: 0.5,
		ClipI:        Threshold{Value: 5, Percentile: true},
		DinoI:        Threshold{Value: 5, Percentile: true},
		Join:         JoinAnd,
		PromptGuided: []string{"cyclediff", "cyclediffusion", "diffedit", "pr2pr", "prompt2prompt", "prompt-to-prompt",
			"p2p0", "p2p-0", "pix2pix-zero", "sdedit", "t2l", "text2live"},
		Weak:   []string{"diffedit", "p2p0", "pix2pix-zero", "sdedit", "t2l", "text2live"},
		Strong: []string{"magicbrush", "aurora"},
	}
}

// releasedRules are the rules of ADIEE's code: fixed thresholds, the percentiles of its data.
func releasedRules() Rules {
	r := paperRules()
	r.ClipI, r.DinoI = Threshold{Value: 0.83}, Threshold{Value: 0.4}
	return r
}

// Check calls problem for each invalid value, with its key in a configuration file.
func (r Rules) Check(problem func(key, format string, args ...any)) {
	for i, name := range r.Order {
		if _, ok := rules[name]; !ok {
			problem("order", "no rule %q, only %v", name, ruleNames())
		} else if slices.Contains(r.Order[:i], name) {
			problem("order", "rule %q is listed twice", name)
		}
	}
	if len(r.Order) == 0 {
		problem("order", "no rules, so nothing would be labelled: choose from %v", ruleNames())
	}
	if r.Join != JoinAnd && r.Join != JoinOr {
		problem("join", "want and, or, not %q", r.Join)
	}
	checkLabel(problem, "partial_label", r.PartialLabel)
	for _, t := range []struct {
		key string
		of  Threshold
	}{{"clip_i", r.ClipI}, {"dino_i", r.DinoI}} {
		if t.of.Percentile && !(0 <= t.of.Value && t.of.Value <= 100) {
			problem(t.key, "want a percentile from 0 to 100, not %v", t.of.Value)
		}
	}
	for _, name := range r.Weak {
		if editorSet(r.Strong)[editorKey(name)] {
			problem("weak", "editor %q is also listed as strong", name)
		}
	}
}

// Check calls problem for each invalid value.
func (c Chains) Check(problem func(key, format string, args ...any)) {
	if c.Samples < 0 {
		problem("samples", "want at least 0 (all), not %d", c.Samples)
	}
	if c.Foreign < 0 {
		problem("foreign", "want at least 0, not %d", c.Foreign)
	}
	checkLabel(problem, "foreign_label", c.ForeignLabel)
	checkLabel(problem, "over_edited_label", c.OverEditedLabel)
}

func checkLabel(problem func(key, format string, args ...any), key string, label float64) {
	if !(0 <= label && label <= 1) {
		problem(key, "want a label from 0 to 1, not %v", label)
	}
}

// Threshold is a number, or a percentile of the similarities of the data's sources. In YAML: 0.83, {percentile: 5},
// or off.
type Threshold struct {
	Value      float64
	Percentile bool
	Off        bool
}

// Fixed reports whether the threshold is a fixed number, which is only valid for the encoders that it was measured
// with.
func (t Threshold) Fixed() bool { return !t.Off && !t.Percentile }

// UnmarshalValue reads the forms that are allowed in a configuration file.
func (t *Threshold) UnmarshalValue(v any) error {
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		if x, ok := number(m["percentile"]); ok {
			*t = Threshold{Value: x, Percentile: true}
			return nil
		}
	}
	if x, ok := number(v); ok {
		*t = Threshold{Value: x}
		return nil
	}
	if v == "off" || v == false {
		*t = Threshold{Off: true}
		return nil
	}
	return fmt.Errorf("want a number, {percentile: 5} or off, not %v", v)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

// fix turns the threshold into a number, NaN if it is off.
func (t Threshold) fix(name string, sources []float64) (float64, error) {
	switch {
	case t.Off:
		return math.NaN(), nil
	case !t.Percentile:
		return t.Value, nil
	}
	sources = slices.DeleteFunc(slices.Clone(sources), math.IsNaN)
	if len(sources) == 0 {
		return 0, fmt.Errorf("%s: its threshold is a percentile of the sources' similarities to their targets, and no "+
			"source has one: add targets and an encoder to measure them, or set a fixed threshold, or off", name)
	}
	return stats.Quantile(slices.Sorted(slices.Values(sources)), t.Value/100), nil
}

package heuristics

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Names of the rules, in the order used by all profiles. A label table records them in the column "why".
const (
	RuleGiven   = "given"               // the label came with the data
	RuleSource  = "source"              // the source presented as the result: 0
	RuleTarget  = "target"              // the target: 1
	RuleForeign = "foreign_instruction" // the target of another instruction: 0
	// a prompt-guided editor whose CLIP-D is undefined (its two captions are equal): 0
	RuleNoClipD    = "no_clip_d"
	RuleClipD      = "clip_d"      // CLIP-D at or below FailedClipD: 0
	RuleDissimilar = "dissimilar"  // CLIP-I and (or) DINO-I at or below their thresholds: 0
	RuleWeakEditor = "weak_editor" // an editor whose results are generally bad: 0
	RulePartial    = "partial"     // a strong editor's CLIP-D at or below PartialClipD: 0.5
)

// A rule returns the label of a candidate, or that it does not apply.
type rule func(c Candidate, l *Labeler) (label float64, applies bool)

var rules = map[string]rule{
	RuleGiven:      given,
	RuleSource:     source,
	RuleTarget:     target,
	RuleForeign:    foreign,
	RuleNoClipD:    noClipD,
	RuleClipD:      failedClipD,
	RuleDissimilar: dissimilar,
	RuleWeakEditor: weakEditor,
	RulePartial:    partial,
}

// ruleNames lists the rules, sorted.
func ruleNames() []string { return slices.Sorted(maps.Keys(rules)) }

func given(c Candidate, _ *Labeler) (float64, bool) {
	if c.Given == nil {
		return 0, false
	}
	return *c.Given, true
}

// "input images, which, if used as outputs, reflect failed edits" (section 3.1)
func source(c Candidate, _ *Labeler) (float64, bool) { return 0, c.Kind == Source }

func target(c Candidate, _ *Labeler) (float64, bool) { return 1, c.Kind == Target }

func foreign(c Candidate, _ *Labeler) (float64, bool) { return 0, c.Kind == Foreign }

func noClipD(c Candidate, l *Labeler) (float64, bool) {
	return 0, c.Kind == Output && c.ClipD.Undefined() && l.promptGuided[editorKey(c.Editor)]
}

// A negative CLIP-D is farther from the desired edit than the source, whose CLIP-D is 0. Here, above and below, an
// unknown similarity never fails an edit.
func failedClipD(c Candidate, l *Labeler) (float64, bool) {
	return 0, c.Kind == Output && c.ClipD.atMost(l.FailedClipD)
}

func dissimilar(c Candidate, l *Labeler) (float64, bool) {
	if c.Kind != Output {
		return 0, false
	}
	clip, dino := c.ClipI.atMost(l.clipI), c.DinoI.atMost(l.dinoI)
	if l.Join == JoinOr || math.IsNaN(l.clipI) || math.IsNaN(l.dinoI) { // of one that is off, the other decides
		return 0, clip || dino
	}
	return 0, clip && dino
}

func weakEditor(c Candidate, l *Labeler) (float64, bool) {
	return 0, c.Kind == Output && l.weak[editorKey(c.Editor)]
}

func partial(c Candidate, l *Labeler) (float64, bool) {
	return l.PartialLabel, c.Kind == Output && l.strong[editorKey(c.Editor)] && c.ClipD.atMost(l.PartialClipD)
}

// Labeler applies the rules with resolved numeric thresholds.
type Labeler struct {
	Rules
	clipI, dinoI               float64 // NaN: off
	order                      []rule
	promptGuided, weak, strong map[string]bool
}

// Labeler resolves the thresholds. clipI and dinoI are the similarities of the sources, taken as results, to their
// targets: one each for every source and instruction in the data (NaN: not known). They are only used if a threshold
// is a percentile of them; it is then an error if there are none.
func (r Rules) Labeler(clipI, dinoI []float64) (*Labeler, error) {
	l := &Labeler{Rules: r, promptGuided: editorSet(r.PromptGuided), weak: editorSet(r.Weak), strong: editorSet(r.Strong)}
	for _, name := range r.Order {
		f, ok := rules[name]
		if !ok {
			return nil, fmt.Errorf("no rule %q, only %v", name, ruleNames())
		}
		l.order = append(l.order, f)
	}
	var err error
	if l.clipI, err = r.ClipI.fix("CLIP-I", clipI); err == nil {
		l.dinoI, err = r.DinoI.fix("DINO-I", dinoI)
	}
	if err != nil && slices.Contains(r.Order, RuleDissimilar) {
		return nil, err
	}
	return l, nil
}

// AllGiven returns the rules for data in which every output came with a label. No threshold is used, so percentile
// thresholds are turned off. ok is false if the rule with thresholds comes before the rule for given labels.
func (r Rules) AllGiven() (rules Rules, ok bool) {
	first := slices.Index(r.Order, RuleGiven)
	if first < 0 || slices.Index(r.Order, RuleDissimilar) < first {
		return r, false
	}
	for _, t := range []*Threshold{&r.ClipI, &r.DinoI} {
		if t.Percentile {
			*t = Threshold{Off: true}
		}
	}
	return r, true
}

// Thresholds returns the numbers that CLIP-I and DINO-I are compared with, NaN if off.
func (l *Labeler) Thresholds() (clipI, dinoI float64) { return l.clipI, l.dinoI }

// Label returns the label and the name of the first rule that applies; nil if none does, so that the edit stays
// unlabelled.
func (l *Labeler) Label(c Candidate) (label *float64, rule string) {
	for i, f := range l.order {
		if label, ok := f(c, l); ok {
			return &label, l.Order[i]
		}
	}
	return nil, ""
}

// Unlabelled returns the reason why no rule applies to a candidate.
func (l *Labeler) Unlabelled(c Candidate) string {
	switch {
	case !c.Measured():
		return "none of its similarities is known"
	case c.ClipD.Unknown():
		return "its CLIP-D is not known, and no rule applies"
	case c.ClipD.Undefined():
		return "its CLIP-D is undefined, and no rule applies"
	}
	return "no rule applies"
}

// PromptGuided reports whether an editor works from two captions.
func (l *Labeler) PromptGuided(editor string) bool { return l.promptGuided[editorKey(editor)] }

func editorSet(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[editorKey(n)] = true
	}
	return set
}

package heuristics

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func num(x float64) Similarity { return Measured(x) }

func vote(x float64) *float64 { return &x }

var nan = num(math.NaN())

// fixed is the released profile: thresholds 0.83 and 0.4 without data.
func fixed(t *testing.T, change func(*Rules)) *Labeler {
	t.Helper()
	r := releasedRules()
	if change != nil {
		change(&r)
	}
	l, err := r.Labeler(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Decision is what Label returns.
type Decision struct {
	Label float64
	Why   string
}

func decide(l *Labeler, c Candidate) (d Decision, ok bool) {
	label, rule := l.Label(c)
	if label == nil {
		return d, false
	}
	return Decision{*label, rule}, true
}

// Decisions worked out by hand from the paper, sections 3.1 and 4.1, and the released thresholds.
func TestRules(t *testing.T) {
	none := Decision{math.NaN(), ""}
	for _, c := range []struct {
		name string
		c    Candidate
		want Decision
	}{
		{"source as output", Candidate{Kind: Source}, Decision{0, RuleSource}},
		{"source, whatever its similarities", Candidate{Kind: Source, ClipD: num(0.9), ClipI: num(1), DinoI: num(1)},
			Decision{0, RuleSource}},
		{"target", Candidate{Kind: Target}, Decision{1, RuleTarget}},
		{"target, whatever its similarities", Candidate{Kind: Target, ClipD: num(-1), ClipI: num(0), DinoI: num(0)},
			Decision{1, RuleTarget}},
		{"target of another instruction", Candidate{Kind: Foreign, ClipD: num(0.9), ClipI: num(1), DinoI: num(1)},
			Decision{0, RuleForeign}},
		{"a person's vote goes first", Candidate{Kind: Output, Editor: "sdedit", Given: vote(0.75)},
			Decision{0.75, RuleGiven}},

		{"undefined CLIP-D, prompt-guided", Candidate{Editor: "pr2pr", ClipD: nan}, Decision{0, RuleNoClipD}},
		{"a CLIP-D that nobody measured is no failure", Candidate{Editor: "pr2pr"}, none},
		{"nor with other similarities", Candidate{Editor: "cyclediff", ClipI: num(0.99), DinoI: num(0.99)}, none},
		{"unknown CLIP-D, weak and prompt-guided", Candidate{Editor: "DiffEdit"}, Decision{0, RuleWeakEditor}},
		{"NaN CLIP-D, prompt-guided", Candidate{Editor: "cyclediff", ClipD: nan, ClipI: num(0.99), DinoI: num(0.99)},
			Decision{0, RuleNoClipD}},
		{"undefined CLIP-D, weak and prompt-guided", Candidate{Editor: "DiffEdit", ClipD: nan}, Decision{0, RuleNoClipD}},
		{"no CLIP-D, instruction-guided", Candidate{Editor: "magicbrush"}, none},
		{"NaN CLIP-D is no partial success", Candidate{Editor: "aurora", ClipD: nan}, none},

		{"CLIP-D below 0", Candidate{Editor: "ip2p", ClipD: num(-0.01)}, Decision{0, RuleClipD}},
		{"CLIP-D at 0", Candidate{Editor: "ip2p", ClipD: num(0)}, Decision{0, RuleClipD}},
		{"CLIP-D at 0, strong editor", Candidate{Editor: "magicbrush", ClipD: num(0)}, Decision{0, RuleClipD}},
		{"CLIP-D at 0, weak editor", Candidate{Editor: "sdedit", ClipD: num(0)}, Decision{0, RuleClipD}},
		{"CLIP-D just above 0", Candidate{Editor: "ip2p", ClipD: num(1e-9)}, none},

		{"both below", Candidate{Editor: "ip2p", ClipD: num(0.3), ClipI: num(0.5), DinoI: num(0.1)},
			Decision{0, RuleDissimilar}},
		{"both at their thresholds", Candidate{Editor: "ip2p", ClipD: num(0.3), ClipI: num(0.83), DinoI: num(0.4)},
			Decision{0, RuleDissimilar}},
		{"only CLIP-I", Candidate{Editor: "ip2p", ClipD: num(0.3), ClipI: num(0.83), DinoI: num(0.41)}, none},
		{"only DINO-I", Candidate{Editor: "ip2p", ClipD: num(0.3), ClipI: num(0.84), DinoI: num(0.4)}, none},
		{"CLIP-I below, DINO-I not known", Candidate{Editor: "ip2p", ClipD: num(0.3), ClipI: num(0.1)}, none},
		{"DINO-I below, CLIP-I NaN", Candidate{Editor: "ip2p", ClipD: num(0.3), ClipI: nan, DinoI: num(0.1)}, none},
		{"before partial", Candidate{Editor: "aurora", ClipD: num(0.1), ClipI: num(0.5), DinoI: num(0.1)},
			Decision{0, RuleDissimilar}},
		{"before weak", Candidate{Editor: "t2l", ClipD: num(0.1), ClipI: num(0.5), DinoI: num(0.1)},
			Decision{0, RuleDissimilar}},
		{"similarities alone, without CLIP-D", Candidate{Editor: "ip2p", ClipI: num(0.5), DinoI: num(0.1)},
			Decision{0, RuleDissimilar}},

		{"DiffEdit", Candidate{Editor: "diffedit", ClipD: num(0.9), ClipI: num(0.99), DinoI: num(0.99)},
			Decision{0, RuleWeakEditor}},
		{"Pix2Pix-Zero", Candidate{Editor: "Pix2Pix-Zero", ClipD: num(0.9)}, Decision{0, RuleWeakEditor}},
		{"p2p0", Candidate{Editor: "p2p0", ClipD: num(0.9)}, Decision{0, RuleWeakEditor}},
		{"SDEdit", Candidate{Editor: "SDEdit", ClipD: num(0.9)}, Decision{0, RuleWeakEditor}},
		{"Text2LIVE", Candidate{Editor: "Text2LIVE", ClipD: num(0.9)}, Decision{0, RuleWeakEditor}},

		{"strong, below 0.2", Candidate{Editor: "MagicBrush", ClipD: num(0.1), ClipI: num(0.95), DinoI: num(0.9)},
			Decision{0.5, RulePartial}},
		{"strong, at 0.2", Candidate{Editor: "AURORA", ClipD: num(0.2)}, Decision{0.5, RulePartial}},
		{"strong, above 0.2", Candidate{Editor: "aurora", ClipD: num(math.Nextafter(0.2, 1))}, none},
		{"neither weak nor strong", Candidate{Editor: "cyclediff", ClipD: num(0.1), ClipI: num(0.95), DinoI: num(0.9)}, none},
		{"global edit without a target", Candidate{Editor: "magicbrush", ClipD: num(0.15)}, Decision{0.5, RulePartial}},
		{"unknown editor, nothing known", Candidate{}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, ok := decide(fixed(t, nil), c.c)
			if ok != (c.want.Why != "") || ok && d != c.want {
				t.Errorf("%s: %v %v, want %v", c.name, d, ok, c.want)
			}
		})
	}
}

func TestConfiguredRules(t *testing.T) {
	c := Candidate{Editor: "magicbrush", ClipD: num(0.1), ClipI: num(0.7), DinoI: num(0.9)}
	for _, v := range []struct {
		name   string
		change func(*Rules)
		want   Decision
	}{
		{"or", func(r *Rules) { r.Join = JoinOr }, Decision{0, RuleDissimilar}},
		{"and", nil, Decision{0.5, RulePartial}},
		{"order", func(r *Rules) { r.Join, r.Order = JoinOr, []string{RulePartial, RuleDissimilar} },
			Decision{0.5, RulePartial}},
		{"lists", func(r *Rules) { r.Weak, r.Strong = []string{"Magic-Brush"}, nil }, Decision{0, RuleWeakEditor}},
		{"CLIP-D", func(r *Rules) { r.FailedClipD = 0.1 }, Decision{0, RuleClipD}},
		{"partial", func(r *Rules) { r.PartialLabel = 0.25 }, Decision{0.25, RulePartial}},
		{"off", func(r *Rules) { r.Join, r.ClipI = JoinOr, Threshold{Off: true} }, Decision{0.5, RulePartial}},
		{"off, and", func(r *Rules) { r.DinoI = Threshold{Off: true} }, Decision{0, RuleDissimilar}},
		{"both off", func(r *Rules) { r.ClipI, r.DinoI = Threshold{Off: true}, Threshold{Off: true} },
			Decision{0.5, RulePartial}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if d, ok := decide(fixed(t, v.change), c); !ok || d != v.want {
				t.Errorf("%s: %v %v, want %v", v.name, d, ok, v.want)
			}
		})
	}
}

// The thresholds of the paper: values of sources 0, 0.01 ... 1 have the 5th percentile 0.05.
func TestPercentileThresholds(t *testing.T) {
	var clip, dino []float64
	for i := range 101 {
		clip = append(clip, float64(100-i)/100)
		dino = append(dino, float64(i)/1000)
	}
	l, err := paperRules().Labeler(append(clip, math.NaN()), dino)
	if err != nil {
		t.Fatal(err)
	}
	if c, d := l.Thresholds(); c != 0.05 || d != 0.005 {
		t.Fatalf("thresholds %v, %v, want 0.05, 0.005", c, d)
	}
	at := Candidate{Editor: "ip2p", ClipD: num(0.5), ClipI: num(0.05), DinoI: num(0.005)}
	if d, ok := decide(l, at); !ok || d.Why != RuleDissimilar {
		t.Errorf("at the thresholds: got %v, %v, want %v", d, ok, RuleDissimilar)
	}
	if _, err := paperRules().Labeler(nil, nil); err == nil || !strings.Contains(err.Error(), "fixed threshold") {
		t.Errorf("no sources: got error %v, want one with %q", err, "fixed threshold")
	}
	r := paperRules()
	r.Order = []string{RuleWeakEditor}
	if _, err := r.Labeler(nil, nil); err != nil {
		t.Errorf("percentiles that no rule uses: got error %v, want none", err)
	}
	if r.Order = []string{"luck"}; true {
		if _, err := r.Labeler(nil, nil); err == nil {
			t.Errorf("an unknown rule: got error %v, want one", err)
		}
	}
}

func TestCheck(t *testing.T) {
	var keys []string
	note := func(key, _ string, _ ...any) { keys = append(keys, key) }
	for _, p := range Profiles {
		p.Rules.Check(note)
		p.Chains.Check(note)
	}
	if keys != nil {
		t.Fatalf("profiles: got problems with %v, want none", keys)
	}
	r := paperRules()
	r.Order = append(r.Order, "luck", RuleSource)
	r.Join, r.PartialLabel, r.ClipI.Value = "xor", 2, 101
	r.Weak = append(r.Weak, "Aurora")
	r.Check(note)
	Chains{Samples: -1, Foreign: -1, ForeignLabel: -1, OverEditedLabel: math.NaN()}.Check(note)
	want := []string{"order", "order", "join", "partial_label", "clip_i", "weak", "samples", "foreign", "foreign_label",
		"over_edited_label"}
	if !slices.Equal(keys, want) {
		t.Errorf("problems at %v, want %v", keys, want)
	}
}

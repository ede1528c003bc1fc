package heuristics

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestThreshold: the forms allowed in a configuration file.
func TestThreshold(t *testing.T) {
	for _, c := range []struct {
		v    any
		want Threshold
		ok   bool
	}{
		{0.83, Threshold{Value: 0.83}, true},
		{int64(-1), Threshold{Value: -1}, true},
		{uint64(1), Threshold{Value: 1}, true},
		{"off", Threshold{Off: true}, true},
		{false, Threshold{Off: true}, true},
		{map[string]any{"percentile": 5.0}, Threshold{Value: 5, Percentile: true}, true},
		{map[string]any{"percentile": int64(5)}, Threshold{Value: 5, Percentile: true}, true},
		{map[string]any{"percentile": 5.0, "of": 1.0}, Threshold{}, false},
		{map[string]any{"quantile": 5.0}, Threshold{}, false},
		{map[string]any{"percentile": "5"}, Threshold{}, false},
		{math.NaN(), Threshold{}, false},
		{math.Inf(1), Threshold{}, false}, // no JSON for the report
		{true, Threshold{}, false},
		{"on", Threshold{}, false},
		{nil, Threshold{}, false},
	} {
		t.Run(fmt.Sprintf("%T %v", c.v, c.v), func(t *testing.T) {
			var got Threshold
			if err := got.UnmarshalValue(c.v); (err == nil) != c.ok || got != c.want {
				t.Errorf("UnmarshalValue(%v): got %+v, %v, want %+v, ok %t", c.v, got, err, c.want, c.ok)
			}
		})
	}
	for of, want := range map[Threshold]bool{{Value: 1}: true, {Value: 1, Percentile: true}: false, {Off: true}: false} {
		if got := of.Fixed(); got != want {
			t.Errorf("Fixed of %+v: got %t, want %t", of, got, want)
		}
	}
}

// TestAllGiven: given labels need no thresholds, unless a rule with thresholds comes first.
func TestAllGiven(t *testing.T) {
	r, ok := paperRules().AllGiven()
	if want := (Threshold{Off: true}); !ok || r.ClipI != want || r.DinoI != want {
		t.Errorf("percentiles: got %+v, %+v, %t, want both off", r.ClipI, r.DinoI, ok)
	}
	r, ok = releasedRules().AllGiven()
	if !ok || r.ClipI != (Threshold{Value: 0.83}) || r.DinoI != (Threshold{Value: 0.4}) {
		t.Errorf("fixed: got %+v, %+v, %t, want them as they were", r.ClipI, r.DinoI, ok)
	}
	for _, c := range []struct {
		order []string
		want  bool
	}{
		{[]string{RuleGiven}, false}, // the other rule is absent, not after it
		{[]string{RuleGiven, RuleDissimilar}, true},
		{[]string{RuleDissimilar, RuleGiven}, false},
		{[]string{RuleDissimilar}, false},
		{[]string{RuleSource, RuleGiven, RuleDissimilar}, true},
		{nil, false},
	} {
		r := paperRules()
		r.Order = c.order
		if _, ok := r.AllGiven(); ok != c.want {
			t.Errorf("order %v: got %t, want %t", c.order, ok, c.want)
		}
	}
}

// TestUnlabelled: the reason is the missing similarity.
func TestUnlabelled(t *testing.T) {
	l := fixed(t, nil)
	for want, c := range map[string]Candidate{
		"none of its similarities is known":             {},
		"its CLIP-D is not known, and no rule applies":  {ClipI: num(1)},
		"its CLIP-D is undefined, and no rule applies":  {ClipD: nan},
		"no rule applies":                               {ClipD: num(1)},
		"its CLIP-D is not known, and no rule applies ": {DinoI: num(1)},
	} {
		t.Run(want, func(t *testing.T) {
			if got := l.Unlabelled(c); got != strings.TrimSpace(want) {
				t.Errorf("Unlabelled(%+v): got %q, want %q", c, got, strings.TrimSpace(want))
			}
		})
	}
	if !l.PromptGuided("Prompt-to-Prompt") || l.PromptGuided("MagicBrush") {
		t.Errorf("PromptGuided: got %t, %t, want true, false", l.PromptGuided("Prompt-to-Prompt"),
			l.PromptGuided("MagicBrush"))
	}
}

// TestThresholdsOfData: percentiles are of the known values of the sources; thresholds that are off are NaN.
func TestThresholdsOfData(t *testing.T) {
	r := paperRules()
	r.ClipI, r.DinoI = Threshold{Value: 50, Percentile: true}, Threshold{Off: true}
	l, err := r.Labeler([]float64{math.NaN(), 3, 1, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if clip, dino := l.Thresholds(); clip != 2 || !math.IsNaN(dino) {
		t.Errorf("Thresholds: got %v, %v, want 2, NaN", clip, dino)
	}
	for _, name := range []string{"CLIP-I", "DINO-I"} {
		clip, dino := []float64{1}, []float64{math.NaN()}
		if name == "CLIP-I" {
			clip, dino = dino, clip
		}
		if _, err := paperRules().Labeler(clip, dino); err == nil || !strings.HasPrefix(err.Error(), name+": its threshold") {
			t.Errorf("nothing known of %s: got error %v, want one that begins with it", name, err)
		}
	}
}

// TestRulesCheck: each problem separately, at the edge of the valid range.
func TestRulesCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *Rules, c *Chains)
		want   string
	}{
		{"order empty", func(r *Rules, _ *Chains) { r.Order = nil }, "order: no rules"},
		{"order twice", func(r *Rules, _ *Chains) { r.Order = []string{RuleGiven, RuleClipD, RuleGiven} },
			`order: rule "given" is listed twice`},
		{"order unknown", func(r *Rules, _ *Chains) { r.Order = []string{"luck"} }, `order: no rule "luck", only [clip_d`},
		{"join or", func(r *Rules, _ *Chains) { r.Join = JoinOr }, ""},
		{"join", func(r *Rules, _ *Chains) { r.Join = "nor" }, "join: want and, or"},
		{"label 0", func(r *Rules, _ *Chains) { r.PartialLabel = 0 }, ""},
		{"label 1", func(r *Rules, _ *Chains) { r.PartialLabel = 1 }, ""},
		{"label", func(r *Rules, _ *Chains) { r.PartialLabel = 1.001 }, "partial_label: want a label"},
		{"negative label", func(r *Rules, _ *Chains) { r.PartialLabel = -0.001 }, "partial_label: want a label"},
		{"percentile 0", func(r *Rules, _ *Chains) { r.ClipI.Value = 0 }, ""},
		{"percentile 100", func(r *Rules, _ *Chains) { r.DinoI.Value = 100 }, ""},
		{"percentile 101", func(r *Rules, _ *Chains) { r.DinoI.Value = 101 }, "dino_i: want a percentile"},
		{"percentile -1", func(r *Rules, _ *Chains) { r.ClipI.Value = -1 }, "clip_i: want a percentile"},
		{"a number of 101", func(r *Rules, _ *Chains) { r.ClipI = Threshold{Value: 101} }, ""},
		{"weak and strong", func(r *Rules, _ *Chains) { r.Strong = []string{"S-D edit"} }, `weak: editor "sdedit" is also`},
		{"samples", func(_ *Rules, c *Chains) { c.Samples = -1 }, "samples: want at least 0"},
		{"samples 1", func(_ *Rules, c *Chains) { c.Samples = 1 }, ""},
		{"foreign", func(_ *Rules, c *Chains) { c.Foreign = -1 }, "foreign: want at least 0"},
		{"foreign label", func(_ *Rules, c *Chains) { c.ForeignLabel = 2 }, "foreign_label: want"},
		{"over-edited label", func(_ *Rules, c *Chains) { c.OverEditedLabel = 2 }, "over_edited_label: want"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, chains := paperRules(), Profiles[ProfilePaper].Chains
			c.change(&r, &chains)
			var got []string
			note := func(key, format string, args ...any) { got = append(got, key+": "+fmt.Sprintf(format, args...)) }
			r.Check(note)
			chains.Check(note)
			if all := strings.Join(got, "; "); (c.want == "") != (all == "") || !strings.HasPrefix(all, c.want) || len(got) > 1 {
				t.Errorf("got problems %q, want %q", all, c.want)
			}
		})
	}
}

// TestPaperRules: the numbers of the paper.
func TestPaperRules(t *testing.T) {
	r := paperRules()
	got := []any{r.FailedClipD, r.PartialClipD, r.PartialLabel, r.ClipI, r.DinoI, r.Join, len(r.PromptGuided), len(r.Weak),
		len(r.Strong)}
	want := []any{0.0, 0.2, 0.5, Threshold{Value: 5, Percentile: true}, Threshold{Value: 5, Percentile: true}, JoinAnd, 12,
		6, 2}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("paperRules (-want +got):\n%s", d)
	}
}

// TestArchitecture: encoders are equal if their shapes are, and are described by name or shape.
func TestArchitecture(t *testing.T) {
	a := Architecture{Name: "clip", Family: "clip", Hidden: 768, Layers: 12, Patch: 16, Projection: 512}
	b := a
	b.Name = "other"
	if !a.Same(b) {
		t.Errorf("Same under another name: got false, want true")
	}
	for i := 1; i < reflect.TypeFor[Architecture]().NumField(); i++ {
		c := a
		switch f := reflect.ValueOf(&c).Elem().Field(i); f.Kind() {
		case reflect.Int:
			f.SetInt(f.Int() + 1)
		default:
			f.SetString("x")
		}
		if a.Same(c) {
			t.Errorf("Same(%+v): got true, want false", c)
		}
	}
	for want, of := range map[string]Architecture{
		"clip": a, "dino of 2 layers, width 3, patches of 4": {Family: "dino", Layers: 2, Hidden: 3, Patch: 4},
		"clip of 2 layers, width 3, patches of 4, embeddings of 1": {Family: "clip", Layers: 2, Hidden: 3, Patch: 4,
			Projection: 1},
	} {
		if got := of.String(); got != want {
			t.Errorf("String of %+v: got %q, want %q", of, got, want)
		}
	}
}

// TestSimilarity: states of a similarity, as text, and against a threshold.
func TestSimilarity(t *testing.T) {
	for _, c := range []struct {
		s                          Similarity
		text                       string
		unknown, undefined, number bool
	}{
		{Similarity{}, "unknown", true, false, false},
		{nan, "undefined", false, true, false},
		{num(0.5), "0.5", false, false, true},
	} {
		t.Run(c.text, func(t *testing.T) {
			x, ok := c.s.Value()
			if c.s.String() != c.text || c.s.Unknown() != c.unknown || c.s.Undefined() != c.undefined ||
				ok != c.number || ok && x != 0.5 {
				t.Errorf("got %s, unknown %t, undefined %t, value %v, %t, want %+v", c.s, c.s.Unknown(), c.s.Undefined(), x, ok, c)
			}
			for threshold, want := range map[float64]bool{0.5: ok, 0.4: false, math.NaN(): false} {
				if got := c.s.atMost(threshold); got != want {
					t.Errorf("atMost(%v): got %t, want %t", threshold, got, want)
				}
			}
		})
	}
	s := num(3)
	if err := json.Unmarshal([]byte(`"much"`), &s); err == nil {
		t.Errorf("a text: got %v, error %v, want an error", s, err)
	}
}

// TestCosines: worked out by hand for vectors with integer lengths.
func TestCosines(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{3, 4}, []float32{3, 4}, 1},
		{[]float32{3, 4}, []float32{4, -3}, 0},
		{[]float32{3, 4}, []float32{-6, -8}, -1},
		{[]float32{3, 4}, []float32{5, 0}, 0.6},
		{[]float32{0, 0}, []float32{5, 0}, math.NaN()},
		{[]float32{1}, []float32{1, 1}, math.NaN()},
	} {
		if d := cmp.Diff(c.want, Cosine(c.a, c.b), cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-15)); d != "" {
			t.Errorf("Cosine(%v, %v) (-want +got):\n%s", c.a, c.b, d)
		}
	}
	v := func(x ...float32) []float32 { return x }
	for _, c := range []struct {
		name                        string
		source, edit, before, after []float32
		raw, unit                   float64
	}{
		{"along", v(2, 0), v(5, 0), v(1, 0), v(2, 0), 1, math.NaN()}, // at length 1 nothing moves
		{"across", v(1, 0), v(0, 1), v(1, 0), v(0, 1), 1, 1},
		{"against", v(0, 1), v(1, 0), v(1, 0), v(0, 1), -1, -1},
		{"lengths", v(2, 0), v(0, 1), v(1, 0), v(0, 1), 3 / math.Sqrt(10), 1},
		{"sides", v(1), v(1, 0), v(1, 0), v(0, 1), math.NaN(), math.NaN()},
		{"sides of captions", v(1, 0), v(1, 0), v(1), v(0, 1), math.NaN(), math.NaN()},
		{"sides of the last", v(1, 0), v(0, 1), v(1, 0), v(0), math.NaN(), math.NaN()},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := []float64{DirectionRaw.Of(c.source, c.edit, c.before, c.after), ClipDirection(c.source, c.edit, c.before,
				c.after)}
			if d := cmp.Diff([]float64{c.raw, c.unit}, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-15)); d != "" {
				t.Errorf("CLIP-D, raw and unit (-want +got):\n%s", d)
			}
		})
	}
}

// TestChainEdges: the largest chain, short chains, and balanced samples.
func TestChainEdges(t *testing.T) {
	c := Profiles[ProfilePaper].Chains
	for pictures, want := range map[int]int{0: 0, 1: 0, 2: 2, 3: 9, MaxChain: MaxChain * MaxChain * (MaxChain - 1) / 2} {
		turns, err := c.Turns(1, "a", pictures)
		if err != nil || len(turns) != want {
			t.Errorf("%d pictures: got %d turns, %v, want %d", pictures, len(turns), err, want)
		}
	}
	c.Balanced = true // of 3 pictures: labels 0, 0.5, 1
	turns, err := c.Turns(1, "a", 3)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[float64]int{}
	for _, turn := range turns {
		labels[turn.Label]++
	}
	if d := cmp.Diff(map[float64]int{0: 2, 0.5: 2, 1: 2}, labels); d != "" {
		t.Errorf("balanced labels (-want +got):\n%s", d)
	}
	c.Samples = 4
	if turns, err := c.Turns(1, "a", 3); err != nil || len(turns) != 4 {
		t.Errorf("4 balanced samples: got %d, %v, want 4", len(turns), err)
	} else if !slices.IsSortedFunc(turns, func(a, b Turn) int {
		return slices.Compare([]int{a.From, a.To, a.Shown}, []int{b.From, b.To, b.Shown})
	}) {
		t.Errorf("4 balanced samples: got %+v, want them sorted", turns)
	}
	first := map[float64]bool{}
	c.Samples = 1
	for i := range 20 {
		turns, err := c.Turns(1, fmt.Sprint("chain ", i), 3)
		if err != nil || len(turns) != 1 {
			t.Fatalf("1 balanced sample: got %v, %v, want one", turns, err)
		}
		first[turns[0].Label] = true
	}
	if len(first) != 3 {
		t.Errorf("1 balanced sample of 20 chains: got labels %v, want each of 3", first)
	}
	c.Balanced, c.Samples = false, 100
	if turns, err := c.Turns(1, "a", 3); err != nil || len(turns) != 9 {
		t.Errorf("100 samples of 9: got %d, %v, want all", len(turns), err)
	}
	for _, x := range []struct {
		j1, j2, k int
		want      string
	}{{1, 3, 0, ChainEarlier}, {1, 3, 1, ChainSource}, {1, 3, 2, ChainPartial}, {1, 3, 3, ChainTarget}, {1, 3, 4,
		ChainOverEdited}} {
		if got := chainWhy(x.j1, x.j2, x.k); got != x.want {
			t.Errorf("why of %d for %d to %d: got %s, want %s", x.k, x.j1, x.j2, got, x.want)
		}
	}
	if got := (Chains{Joint: "; "}).Join(Turn{Instructions: []int{1, 0}}, []string{" a. ", "b. ."}); got != "b; a." {
		t.Errorf("Join: got %q, want %q", got, "b; a.")
	}
}

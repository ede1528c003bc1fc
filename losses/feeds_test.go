package losses

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"assay/onnx"

	"github.com/google/go-cmp/cmp"
)

// TestEmpty: an option with a zero value is a problem if it is written explicitly.
func TestEmpty(t *testing.T) {
	keys := func(problems []Problem) (out []string) {
		for _, p := range problems {
			if !strings.HasSuffix(p.Text, "leave it out for its default") {
				t.Errorf("%s: got %q, want what to do", p.Key, p.Text)
			}
			out = append(out, p.Key)
		}
		return out
	}
	got := keys((&Spec{}).Empty())
	if d := cmp.Diff([]string{"scale", "delta", "margin", "theta", "nu", "draws", "values"}, got); d != "" {
		t.Errorf("an empty entry (-want +got):\n%s", d)
	}
	got = keys((&Spec{Scale: 1, Margin: 1, Nu: 1, Values: []float64{0, 1}}).Empty())
	if d := cmp.Diff([]string{"delta", "theta", "draws"}, got); d != "" {
		t.Errorf("an entry with some (-want +got):\n%s", d)
	}
}

// TestDefaults: defaults are filled in only for the options of the kind; explicit values are kept.
func TestDefaults(t *testing.T) {
	half, zero := 0.5, 0.0
	for _, c := range []struct{ entry, want Spec }{
		{Spec{Kind: "l1"}, Spec{Kind: "l1"}},
		{Spec{Kind: "bce"}, Spec{Kind: "bce", Scale: 10, Center: &half}},
		{Spec{Kind: "bce", Scale: 3, Center: &zero}, Spec{Kind: "bce", Scale: 3, Center: &zero}},
		{Spec{Kind: "huber"}, Spec{Kind: "huber", Delta: 0.1}},
		{Spec{Kind: "bradley_terry_margin"}, Spec{Kind: "bradley_terry_margin", Scale: 10, Margin: 1}},
		{Spec{Kind: "rao_kupper"}, Spec{Kind: "rao_kupper", Scale: 10, Theta: 1.5}},
		{Spec{Kind: "davidson"}, Spec{Kind: "davidson", Scale: 10, Nu: 1}},
		{Spec{Kind: "gaussian_draws"}, Spec{Kind: "gaussian_draws", Scale: 10, Draws: 1000}},
		{Spec{Kind: "ordinal"}, Spec{Kind: "ordinal", Scale: 10, Values: []float64{0, 0.5, 1}}},
		{Spec{Kind: "plackett_luce"}, Spec{Kind: "plackett_luce", Scale: 10, Ties: "breslow"}},
		{Spec{Kind: "plackett_luce", Ties: "refuse"}, Spec{Kind: "plackett_luce", Scale: 10, Ties: "refuse"}},
	} {
		t.Run(c.entry.Kind, func(t *testing.T) {
			if p := c.entry.Check(); p != nil {
				t.Fatalf("Check: got problems %v, want none", p)
			}
			if d := cmp.Diff(c.want, c.entry); d != "" {
				t.Errorf("filled in (-want +got):\n%s", d)
			}
		})
	}
}

// TestCheckAtTheEdge: the last accepted value of an option, and the first rejected one.
func TestCheckAtTheEdge(t *testing.T) {
	weight := func(w float64) *float64 { return &w }
	inf := math.Inf(1)
	for _, c := range []struct {
		key     string
		yes, no Spec
	}{
		{"weight", Spec{Kind: "l1", Weight: weight(0)}, Spec{Kind: "l1", Weight: weight(-1e-9)}},
		{"weight", Spec{Kind: "l1", Weight: weight(1e9)}, Spec{Kind: "l1", Weight: &inf}},
		{"scale", Spec{Kind: "bce", Scale: 1e-9}, Spec{Kind: "bce", Scale: -1e-9}},
		{"scale", Spec{Kind: "bce", Scale: 1e9}, Spec{Kind: "bce", Scale: inf}},
		{"scale", Spec{Kind: "bce", Scale: 1}, Spec{Kind: "bce", Scale: math.NaN()}},
		{"theta", Spec{Kind: "rao_kupper", Theta: 1.0001}, Spec{Kind: "rao_kupper", Theta: 0.9}},
		{"draws", Spec{Kind: "gaussian_draws", Draws: 1}, Spec{Kind: "gaussian_draws", Draws: -1}},
		{"values", Spec{Kind: "ordinal", Values: []float64{0, 1}}, Spec{Kind: "ordinal", Values: []float64{1}}},
		{"values", Spec{Kind: "ordinal", Values: []float64{0, 1e-9}}, Spec{Kind: "ordinal", Values: []float64{1, 1}}},
		{"cuts", Spec{Kind: "ordinal", Cuts: CutsLearned}, Spec{Kind: "ordinal", Cuts: "none"}},
		{"votes", Spec{Kind: "bradley_terry", Votes: VotesSoft}, Spec{Kind: "bradley_terry", Votes: "hard"}},
		{"votes", Spec{Kind: "mse", Votes: VotesSoft}, Spec{Kind: "mse", Votes: "hard"}},
		{"votes", Spec{Kind: "text"}, Spec{Kind: "plackett_luce", Votes: VotesWeight}},
		{"dimension", Spec{Kind: "l1", Dimension: "quality"}, Spec{Kind: "text", Dimension: "quality"}},
	} {
		t.Run(c.key+" "+c.no.Kind, func(t *testing.T) {
			if p := c.yes.Check(); p != nil {
				t.Errorf("%+v: got problems %v, want none", c.yes, p)
			}
			if p := c.no.Check(); len(p) != 1 || p[0].Key != c.key {
				t.Errorf("%+v: got problems %v, want one with %s", c.no, p, c.key)
			}
		})
	}
	s := Spec{Kind: "text", Dimension: "quality", Weight: weight(-1), Scale: 2, Delta: 3}
	const first = "[{scale a loss of kind text has no such option (it has weight, dimension)} {delta"
	if got := fmt.Sprint(s.Check()); !strings.Contains(got, first) || !strings.Contains(got,
		"{weight want at least 0, not -1}") {
		t.Errorf("got problems %s, want scale, delta and weight, in this order", got)
	}
}

// TestBuildRefused: a loss that is not over heads, and a head with the wrong outputs, named as in the configuration.
func TestBuildRefused(t *testing.T) {
	for want, s := range map[string]Spec{
		`losses[2]: no loss "text" over heads`:                                                  {Kind: "text"},
		`losses[2]: no loss "l3" over heads`:                                                    {Kind: "l3"},
		"losses[2]: classes needs a head with outputs classes; the head of the score has value": {Kind: "classes"},
		"losses[2]: gaussian needs a head with outputs mu_sigma; the head of quality has value": {
			Kind: "gaussian", Dimension: "quality",
		},
	} {
		t.Run(s.Kind, func(t *testing.T) {
			b := onnx.NewBuilder("loss", 23)
			if out, err := Build(b, 2, s, Head{Outputs: Value}, onnx.Float); out != "" || err == nil || err.Error() != want {
				t.Errorf("Build: got %q, %v, want error %q", out, err, want)
			}
		})
	}
}

// TestFeeds: rows, their order and their shapes, with edits at other positions than their index.
func TestFeeds(t *testing.T) {
	place := func(e int) int { return 9 - e }
	shapes := func(kind string, head Head, items []Item) string {
		s := Spec{Kind: kind}
		s.Check()
		feeds, rows, err := Feeds(1, s, head, items, 10, place, 4)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, name := range []string{"a", "b", "weight", "label", "class", "step", "better", "win", "tie", "loss_share",
			"outcome", "margin", "others", "draws"} {
			if d := feeds[Name(1, name)]; d != nil {
				text := fmt.Sprint(name, d.Shape())
				if d.Shape().TotalSize() <= 6 {
					text += fmt.Sprint(d.Data())
				}
				out = append(out, text)
			}
		}
		return fmt.Sprint(strings.Join(out, " "), " rows ", rows.Item)
	}
	head := Head{Values: []float64{0, 1}}
	for _, c := range []struct {
		kind  string
		head  Head
		items []Item
		want  string
	}{
		{"l1", Head{}, []Item{{Edits: []int{2}, Label: 0.75, Weight: 3}},
			"a(1)[7] b(1)[7] weight(1)[3] label(1)[0.75] step(1)[0] rows [0]"},
		{"classes", head, []Item{{Edits: []int{2}, Label: 0.75}, {Edits: []int{0}, Label: 0.5}},
			"a(2)[7 9] b(2)[7 9] weight(2)[0 0] label(2)[0.75 0.5] class(2, 2)[0 1 1 0] step(2)[0 0] rows [0 1]"},
		{"classes", Head{Values: []float64{5}}, []Item{{Edits: []int{2}}},
			"a(1)[7] b(1)[7] weight(1)[0] label(1)[0] class(1, 1)[1] step(1)[0] rows [0]"},
		{"ordinal", Head{}, []Item{{Edits: []int{1}, Label: 0.3}, {Edits: []int{1}, Label: 0.8}},
			"a(2)[8 8] b(2)[8 8] weight(2)[0 0] label(2)[0.3 0.8] step(2)[1 2] rows [0 1]"},
		{"bradley_terry", Head{}, []Item{{Edits: []int{1, 4}, Outcome: [3]float64{0.5, 0.25, 0.25}, Margin: 2, Weight: 1}},
			"a(1)[8] b(1)[5] weight(1)[1] better(1)[0.625] win(1)[0.5] tie(1)[0.25] loss_share(1)[0.25] " +
				"outcome(1, 3)[0.5 0.25 0.25] margin(1)[2] rows [0]"},
		{"gaussian_draws", Head{}, []Item{{Edits: []int{1, 4}, Outcome: [3]float64{1, 0, 0}}},
			"a(1)[8] b(1)[5] weight(1)[0] better(1)[1] win(1)[1] tie(1)[0] loss_share(1)[0] outcome(1, 3)[1 0 0] " +
				"margin(1)[0] draws(1000) rows [0]"},
		{"plackett_luce", Head{}, []Item{{Edits: []int{3, 1, 2}, Ranks: []int{2, 1, 2}, Weight: 1}, {Edits: []int{5},
			Ranks: []int{1}}},
			"a(3)[6 8 7] b(3)[6 8 7] weight(3)[1 1 1] others(3, 10) rows [0 0 0]"},
		{"l1", Head{}, nil, "a(1)[9] b(1)[9] weight(1)[0] label(1)[0] step(1)[0] rows []"},
		{"bradley_terry", Head{}, nil, "a(1)[9] b(1)[9] weight(1)[0] better(1)[0.5] win(1)[0] tie(1)[1] loss_share(1)[0] " +
			"outcome(1, 3)[0 1 0] margin(1)[0] rows []"},
		{"plackett_luce", Head{}, nil, "a(1)[9] b(1)[9] weight(1)[0] others(1, 10) rows []"},
	} {
		t.Run(fmt.Sprint(c.kind, len(c.items)), func(t *testing.T) {
			if d := cmp.Diff(c.want, shapes(c.kind, c.head, c.items)); d != "" {
				t.Errorf("feeds (-want +got):\n%s", d)
			}
		})
	}
	s := Spec{Kind: "plackett_luce"}
	feeds, _, err := Feeds(0, s, Head{}, []Item{{Edits: []int{2, 0, 1}, Ranks: []int{1, 2, 2}}}, 4, place4, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{far, 0, 0, 0, far, far, 0, 0, far, far, 0, 0} // places: 3 has edit 0, 2 edit 1, 1 edit 2
	if d := cmp.Diff(want, feeds[Name(0, "others")].Data()); d != "" {
		t.Errorf("others (-want +got):\n%s", d)
	}
}

func place4(e int) int { return 3 - e }

// TestDraws: normal draws, a function of the seed only.
func TestDraws(t *testing.T) {
	a, b := Draws(3, 2000), Draws(3, 2000)
	if !cmp.Equal(a, b) || cmp.Equal(a, Draws(4, 2000)) {
		t.Errorf("got equal draws of one seed %t, of two %t, want true, false", cmp.Equal(a, b), cmp.Equal(a, Draws(4, 2000)))
	}
	var sum, squares float64
	for _, z := range a {
		sum, squares = sum+float64(z), squares+float64(z*z)
	}
	if mean, variance := sum/2000, squares/2000; !(math.Abs(mean) < 0.1) || !(math.Abs(variance-1) < 0.1) {
		t.Errorf("got mean %v, variance %v, want 0 and 1", mean, variance)
	}
}

// TestAllItems: every edit, every pair once, all in one order; none for text.
func TestAllItems(t *testing.T) {
	got := AllItems([]Spec{{Kind: "l1"}, {Kind: "bradley_terry"}, {Kind: "plackett_luce"}, {Kind: "text"}, {Kind: "none"}},
		3)
	tie := [3]float64{0, 1, 0}
	want := [][]Item{
		{{Edits: []int{0}}, {Edits: []int{1}}, {Edits: []int{2}}},
		{{Edits: []int{1, 0}, Outcome: tie}, {Edits: []int{2, 0}, Outcome: tie}, {Edits: []int{2, 1}, Outcome: tie}},
		{{Edits: []int{0, 1, 2}, Ranks: []int{0, 1, 2}}}, nil, nil,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("AllItems (-want +got):\n%s", d)
	}
}

// TestParameters: learned cuts are initialized with the fixed ones: the first cut, then the logarithms of the gaps.
func TestParameters(t *testing.T) {
	s := Spec{Kind: "ordinal", Values: []float64{0, 0.25, 0.75, 1}}
	if got := Parameters(1, &s); got != nil {
		t.Errorf("fixed cuts: got parameters %v, want none", got)
	}
	s.Cuts = CutsLearned
	got := Parameters(1, &s)
	want := []float64{0.125, math.Log(0.375), math.Log(0.375)}
	if len(got) != 1 || got[0].Name != "losses.1.cuts" || !cmp.Equal(got[0].Value, want) {
		t.Errorf("learned cuts: got %v, want losses.1.cuts with %v", got, want)
	}
}

// TestNearest: the value nearest to a label, the lower one on a tie.
func TestNearest(t *testing.T) {
	for x, want := range map[float64]int{-1: 0, 0: 0, 0.25: 0, 0.26: 1, 0.5: 1, 0.75: 1, 0.76: 2, 9: 2} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			if got := Nearest([]float64{0, 0.5, 1}, x); got != want {
				t.Errorf("Nearest(%v): got %d, want %d", x, got, want)
			}
		})
	}
	rows := &Rows{Item: []int{0, 2, 2}}
	if got := rows.Sum([]float64{1, 2, 3}, 4); !cmp.Equal(got, []float64{1, 0, 5, 0}) {
		t.Errorf("Sum: got %v, want 1, 0, 5, 0", got)
	}
}

// TestUnique: rows of single edits are gathered at distinct indices, which a gradient may rely on; edits of pairs and
// orders may occur several times.
func TestUnique(t *testing.T) {
	for _, c := range []struct {
		kind string
		head Head
		want int // gathers of rows that say so
	}{
		{"l1", Head{Outputs: Value, Score: "s"}, 1}, {"classes", Head{Outputs: Classes, Z: "z", Score: "s"}, 1},
		{"gaussian", Head{Outputs: MuSigma, Z: "z", Score: "s"}, 2}, {"bradley_terry", Head{Outputs: Value, Score: "s"}, 0},
		{"thurstone", Head{Outputs: MuSigma, Z: "z", Score: "s"}, 0}, {"plackett_luce", Head{Outputs: Value, Score: "s"}, 0},
	} {
		t.Run(c.kind, func(t *testing.T) {
			b := onnx.NewBuilder("loss", 23)
			b.Input("s", onnx.Float, onnx.Dims("examples"))
			b.Input("z", onnx.Float, onnx.Dims("examples", 2))
			s := Spec{Kind: c.kind}
			s.Check()
			if _, err := Build(b, 0, s, c.head, onnx.Float); err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, n := range b.M.Nodes {
				if n.Meta[onnx.MetaUnique] == "true" {
					got++
				}
			}
			if got != c.want {
				t.Errorf("got %d gathers that are unique, want %d", got, c.want)
			}
		})
	}
}

package heuristics

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/stats"
	"assay/internal/testfile"
)

// Equation 4 for a chain of five edits, pictures 0 to 5: every (j1, j2, k), worked out by hand. Fifths, thirds and so
// on are written as quotients.
var chainOfFive = map[[2]int][6]float64{
	{0, 1}: {0, 1, 0.5, 0.5, 0.5, 0.5},
	{0, 2}: {0, 1. / 2, 1, 0.5, 0.5, 0.5},
	{0, 3}: {0, 1. / 3, 2. / 3, 1, 0.5, 0.5},
	{0, 4}: {0, 1. / 4, 2. / 4, 3. / 4, 1, 0.5},
	{0, 5}: {0, 1. / 5, 2. / 5, 3. / 5, 4. / 5, 1},
	{1, 2}: {0, 0, 1, 0.5, 0.5, 0.5},
	{1, 3}: {0, 0, 1. / 2, 1, 0.5, 0.5},
	{1, 4}: {0, 0, 1. / 3, 2. / 3, 1, 0.5},
	{1, 5}: {0, 0, 1. / 4, 2. / 4, 3. / 4, 1},
	{2, 3}: {0, 0, 0, 1, 0.5, 0.5},
	{2, 4}: {0, 0, 0, 1. / 2, 1, 0.5},
	{2, 5}: {0, 0, 0, 1. / 3, 2. / 3, 1},
	{3, 4}: {0, 0, 0, 0, 1, 0.5},
	{3, 5}: {0, 0, 0, 0, 1. / 2, 1},
	{4, 5}: {0, 0, 0, 0, 0, 1},
}

func TestChainLabel(t *testing.T) {
	for j, want := range chainOfFive {
		for k := range 6 {
			if got := ChainLabel(j[0], j[1], k, 0.5); got != want[k] {
				t.Errorf("f(%d, %d, %d) = %v, want %v", j[0], j[1], k, got, want[k])
			}
		}
	}
	for _, bad := range [][3]int{{1, 1, 0}, {2, 1, 0}, {-1, 1, 0}, {0, 1, -1}} {
		if got := ChainLabel(bad[0], bad[1], bad[2], 0.5); !math.IsNaN(got) {
			t.Errorf("f%v = %v, want NaN", bad, got)
		}
	}
}

func TestAllTurns(t *testing.T) {
	c := Profiles[ProfilePaper].Chains
	turns, err := c.Turns(1, "a", 6)
	if err != nil {
		t.Fatal(err)
	}
	if len(turns) != 15*6 {
		t.Fatalf("%d turns, want 90", len(turns))
	}
	for _, turn := range turns {
		if turn.Label != chainOfFive[[2]int{turn.From, turn.To}][turn.Shown] {
			t.Errorf("%+v", turn)
		}
	}
	why := map[string]int{}
	for _, turn := range turns {
		why[turn.Why]++
	}
	// j1 < j2 < 6: sum of j1 = 20 earlier ones, as many over-edited and in between, one source and one target each.
	want := map[string]int{ChainEarlier: 20, ChainSource: 15, ChainPartial: 20, ChainTarget: 15, ChainOverEdited: 20}
	if d := cmp.Diff(want, why); d != "" {
		t.Error(d)
	}
	if got := c.Join(turns[6*2], []string{"Make it red.", " add a hat. ",
		"Remove the dog."}); got != "Make it red. add a hat. Remove the dog." {
		t.Errorf("joined: %q", got)
	}
	if _, err := c.Turns(1, "a", MaxChain+1); err == nil {
		t.Error("an endless chain is no error")
	}
}

func TestShuffledAndForeignTurns(t *testing.T) {
	c := Profiles[ProfileReleased].Chains
	turns, err := c.Turns(1, "a", 6)
	if err != nil {
		t.Fatal(err)
	}
	if len(turns) != 15*7 {
		t.Fatalf("%d turns, want 105", len(turns))
	}
	moved := false
	for i, turn := range turns {
		if turn.Foreign != (turn.Why == ChainForeign) || turn.Foreign && turn.Label != 0 {
			t.Errorf("%+v", turn)
		}
		sorted := slices.Sorted(slices.Values(turn.Instructions))
		if len(sorted) != turn.To-turn.From || sorted[0] != turn.From || sorted[len(sorted)-1] != turn.To-1 {
			t.Errorf("%+v: instructions", turn)
		}
		moved = moved || !slices.Equal(sorted, turn.Instructions)
		if i%7 > 0 && !slices.Equal(turn.Instructions, turns[i-1].Instructions) {
			t.Errorf("%+v: another order than the turn before", turn)
		}
	}
	if !moved {
		t.Error("nothing was shuffled")
	}
}

func TestSampledTurns(t *testing.T) {
	c := Chains{Samples: 12, Foreign: 1, OverEditedLabel: 0.5}
	draw := func(c Chains, seed uint64, name string) []Turn {
		turns, err := c.Turns(seed, name, 6)
		if err != nil {
			t.Fatal(err)
		}
		return turns
	}
	a := draw(c, 1, "a")
	if len(a) != 12 {
		t.Fatalf("%d turns", len(a))
	}
	if !cmp.Equal(a, draw(c, 1, "a")) {
		t.Error("the same seed, other turns")
	}
	if cmp.Equal(a, draw(c, 2, "a")) || cmp.Equal(a, draw(c, 1, "b")) {
		t.Error("another seed or chain, the same turns")
	}
	counts := func(turns []Turn) map[float64]int {
		n := map[float64]int{}
		for _, turn := range turns {
			n[turn.Label]++
		}
		return n
	}
	c.Balanced = true
	n := counts(draw(c, 1, "a")) // 11 labels, 12 samples
	if len(n) != 11 {
		t.Errorf("12 balanced samples have labels %v", n)
	}
	c.Samples = 0
	for label, k := range counts(draw(c, 1, "a")) {
		if k != 1 { // 1/5 is there once
			t.Errorf("balanced: label %v %d times", label, k)
		}
	}
	if n := counts(draw(c, 1, "a")); len(n) != 11 {
		t.Errorf("labels %v", n)
	}
}

func TestPercentileAgainstNumPy(t *testing.T) {
	var reference struct {
		Cases []struct {
			Values  []float64
			P, Want float64
		}
	}
	testfile.ReadJSON(t, "testdata/percentiles.json", &reference)
	for _, c := range reference.Cases {
		if got := stats.Quantile(slices.Sorted(slices.Values(c.Values)), c.P/100); got != c.Want {
			t.Errorf("%d values, p %v: %v, want %v", len(c.Values), c.P, got, c.Want)
		}
	}
	if !math.IsNaN(stats.Quantile(nil, 0.05)) {
		t.Error("the percentile of nothing")
	}
}

func TestSimilarities(t *testing.T) {
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-12 && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("3-4-5", Cosine([]float32{3, 4}, []float32{4, 3}), 24./25)
	near("opposite", Cosine([]float32{1, 0}, []float32{-2, 0}), -1)
	near("zero", Cosine([]float32{0, 0}, []float32{1, 0}), math.NaN())
	near("lengths", Cosine([]float32{1}, []float32{1, 0}), math.NaN())
	x, y := []float32{2, 0}, []float32{0, 5}
	near("the same way, whatever the lengths", ClipDirection(x, y, []float32{1, 0}, []float32{0, 9}), 1)
	near("back", ClipDirection(x, y, y, x), -1)
	near("equal captions", ClipDirection(x, y, x, x), math.NaN())
	near("equal pictures", ClipDirection(x, x, x, y), 0)
}

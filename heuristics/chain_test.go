package heuristics

import (
	"fmt"
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
		t.Run(fmt.Sprint(j), func(t *testing.T) {
			for k := range 6 {
				if got := ChainLabel(j[0], j[1], k, 0.5); got != want[k] {
					t.Errorf("f(%d, %d, %d) = %v, want %v", j[0], j[1], k, got, want[k])
				}
			}
		})
	}
	for _, bad := range [][3]int{{1, 1, 0}, {2, 1, 0}, {-1, 1, 0}, {0, 1, -1}} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			if got := ChainLabel(bad[0], bad[1], bad[2], 0.5); !math.IsNaN(got) {
				t.Errorf("f%v = %v, want NaN", bad, got)
			}
		})
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
			t.Errorf("got %+v, want label %v", turn, chainOfFive[[2]int{turn.From, turn.To}][turn.Shown])
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
		t.Errorf("Join: got %q, want %q", got, "Make it red. add a hat. Remove the dog.")
	}
	if _, err := c.Turns(1, "a", MaxChain+1); err == nil {
		t.Errorf("Turns of %d edits: got error %v, want one", MaxChain+1, err)
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
			t.Errorf("got %+v, want it foreign, with label 0, exactly if that is why", turn)
		}
		sorted := slices.Sorted(slices.Values(turn.Instructions))
		if len(sorted) != turn.To-turn.From || sorted[0] != turn.From || sorted[len(sorted)-1] != turn.To-1 {
			t.Errorf("%+v: got instructions %v, want those of edits %d to %d", turn, sorted, turn.From, turn.To-1)
		}
		moved = moved || !slices.Equal(sorted, turn.Instructions)
		if i%7 > 0 && !slices.Equal(turn.Instructions, turns[i-1].Instructions) {
			t.Errorf("got %+v, want the order of the turn before: %v", turn, turns[i-1].Instructions)
		}
	}
	if !moved {
		t.Errorf("got moved %t, want an order that was shuffled", moved)
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
		t.Fatalf("got %d turns, want 12", len(a))
	}
	if !cmp.Equal(a, draw(c, 1, "a")) {
		t.Errorf("drawn again with one seed: got %v, want %v", draw(c, 1, "a"), a)
	}
	if cmp.Equal(a, draw(c, 2, "a")) || cmp.Equal(a, draw(c, 1, "b")) {
		t.Errorf("drawn with another seed or chain: got the same turns %v, want others", a)
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
		t.Errorf("12 balanced samples: got labels %v, want all 11", n)
	}
	c.Samples = 0
	for label, k := range counts(draw(c, 1, "a")) {
		if k != 1 { // 1/5 occurs once
			t.Errorf("balanced: got label %v %d times, want once", label, k)
		}
	}
	if n := counts(draw(c, 1, "a")); len(n) != 11 {
		t.Errorf("got labels %v, want all 11", n)
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
		t.Errorf("Quantile of nothing: got %v, want NaN", stats.Quantile(nil, 0.05))
	}
}

func TestSimilarities(t *testing.T) {
	near := func(what string, got, want float64) {
		if !(math.Abs(got-want) <= 1e-12) && !(math.IsNaN(got) && math.IsNaN(want)) {
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

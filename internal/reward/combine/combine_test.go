package combine

import (
	"math"
	"slices"
	"testing"

	"assay/internal/testfile"
)

// oracle is the output of tools/oracle/rewards.py: scores, z-scores and ranks by edit and reward. nil: NaN.
type oracle struct {
	Cases []struct {
		Name    string
		Groups  []int
		Weights []float64
		Scores  [][]*float64
		ZScores [][]*float64
		Sums    []*float64
		Ranks   [][]*float64
	}
}

// column returns the values of one reward.
func column(rows [][]*float64, k int) (out []float64) {
	for _, row := range rows {
		v := math.NaN()
		if row[k] != nil {
			v = *row[k]
		}
		out = append(out, v)
	}
	return out
}

// TestRulesOfTRLAndPandas: z-scores and their weighted sum equal TRL's (GDPO), ranks equal pandas'.
func TestRulesOfTRLAndPandas(t *testing.T) {
	var o oracle
	testfile.ReadJSON(t, "testdata/rewards.json", &o)
	for _, c := range o.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var values [][]float64
			for k := range c.Weights {
				scores, want := column(c.Scores, k), column(c.ZScores, k)
				got := ZScore.Values(scores, c.Groups)
				for i := range got {
					switch {
					case math.IsNaN(scores[i]) != math.IsNaN(got[i]):
						t.Errorf("reward %d, edit %d: got z-score %v of %v", k, i, got[i], scores[i])
					case math.IsNaN(want[i]): // a group with a single score: TRL skips it, and 0 is the same in the sum
						if got[i] != 0 && !math.IsNaN(got[i]) {
							t.Errorf("reward %d, edit %d: got z-score %v, want 0", k, i, got[i])
						}
					case !(math.Abs(got[i]-want[i]) <= 1e-11):
						t.Errorf("reward %d, edit %d: got z-score %v, want %v", k, i, got[i], want[i])
					}
				}
				for i, v := range Rank.Values(scores, c.Groups) {
					if want := column(c.Ranks, k)[i]; math.Abs(v-want) > 1e-15 || math.IsNaN(v) != math.IsNaN(want) {
						t.Errorf("reward %d, edit %d: got rank %v, want %v", k, i, v, want)
					}
				}
				if raw := Raw.Values(scores, c.Groups); !slices.EqualFunc(raw, scores, same) {
					t.Errorf("reward %d: got %v, want the scores %v", k, raw, scores)
				}
				Impute(got, c.Groups)
				values = append(values, got)
			}
			for i, got := range Sum(c.Weights, values, len(c.Groups)) {
				if !(math.Abs(got-*c.Sums[i]) <= 1e-10) {
					t.Errorf("edit %d: got sum %v, want %v", i, got, *c.Sums[i])
				}
			}
		})
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// TestFailuresAreNoNumbers: a failure makes a sum NaN unless it is replaced by the mean of its group, and never
// counts as 0.
func TestFailuresAreNoNumbers(t *testing.T) {
	nan := math.NaN()
	groups := []int{0, 0, 0, 1, 1}
	first, second := []float64{1, nan, 5, nan, nan}, []float64{10, 20, 30, 40, 50}
	for _, c := range []struct {
		name    string
		weights []float64
		impute  bool
		want    []float64
	}{
		{"failures stay", []float64{1, 1}, false, []float64{11, nan, 35, nan, nan}},
		{"the mean of the group", []float64{1, 1}, true, []float64{11, 23, 35, nan, nan}},
		{"a reward that does not count", []float64{0, 1}, false, []float64{10, 20, 30, 40, 50}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := slices.Clone(first)
			if c.impute {
				imputed := Impute(a, groups)
				if want := []bool{false, true, false, false, false}; !slices.Equal(imputed, want) {
					t.Errorf("imputed: got %v, want %v", imputed, want)
				}
			}
			if got := Sum(c.weights, [][]float64{a, second}, len(groups)); !slices.EqualFunc(got, c.want, same) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if _, err := ParseRule("mean"); err == nil {
		t.Error("the rule \"mean\" was accepted")
	}
}

// TestEqualScoresHaveNoAdvantage: the advantage is exactly 0, however the mean is rounded.
func TestEqualScoresHaveNoAdvantage(t *testing.T) {
	for _, v := range []float64{0.1, 1e9 / 3, -7.3} {
		for i, z := range ZScore.Values([]float64{v, v, v}, []int{0, 0, 0}) {
			if z != 0 {
				t.Errorf("score %v of edit %d: got %v, want 0", v, i, z)
			}
		}
	}
}

// TestLowerBoundOfTorch: mean and standard deviation equal those of torch's mixtures (tools/oracle/lower_bound.py).
func TestLowerBoundOfTorch(t *testing.T) {
	var cases []struct {
		Name           string
		Weights        []float64
		Values, Sigmas [][]float64
		Penalty        float64
		Bounds         []float64
	}
	testfile.ReadJSON(t, "testdata/lower_bound.json", &cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			for i, got := range LowerBound(c.Weights, c.Values, c.Sigmas, c.Penalty, len(c.Bounds)) {
				if !(math.Abs(got-c.Bounds[i]) <= 1e-12) {
					t.Errorf("edit %d: got %v, want %v", i, got, c.Bounds[i])
				}
			}
		})
	}
	got := LowerBound([]float64{1, 0}, [][]float64{{1, math.NaN()}, {math.NaN(), 2}}, [][]float64{{0, 0}, {0, 0}}, 1, 2)
	if got[0] != 1 || !math.IsNaN(got[1]) {
		t.Errorf("got %v, want 1 if a judge of weight 0 failed, and NaN if one that counts did", got)
	}
}

// Package combine combines the scores of several judges into one reward, by rules that trainers use.
//
// The scores of a judge are a list with one score per edit, NaN if the edit could not be judged. A rule turns them
// into values, within groups of edits of one prompt; a failed edit may get the mean of its group; and the weighted
// sum of the values is the reward:
//
//	scores -> Rule.Values -> Impute (optional) -> Sum or LowerBound
//
// A failure is never a number by itself: it does not enter the statistics of its group, and it makes the sum NaN.
package combine

import (
	"fmt"
	"math"
	"slices"

	"assay/internal/stats"
)

// Rule selects the value of a score that is summed.
type Rule string

const (
	Raw     Rule = "raw"     // the score
	Score01 Rule = "score01" // the score on 0 to 1
	ZScore  Rule = "zscore"  // (x - mean) / (std + 1e-4) within the group, as in GDPO and in TRL's normalize_then_sum
	Rank    Rule = "rank"    // rank within the group, from 0 (lowest) to 1
)

// ParseRule parses the name of a rule.
func ParseRule(name string) (Rule, error) {
	all := []Rule{Raw, Score01, ZScore, Rank}
	if r := Rule(name); slices.Contains(all, r) {
		return r, nil
	}
	return "", fmt.Errorf("%q: want %s, %s, %s or %s", name, Raw, Score01, ZScore, Rank)
}

// epsilon keeps z-scores of nearly equal scores finite, as in GDPO and TRL.
const epsilon = 1e-4

// Values applies the rule to scores. groups has the group number of each score.
func (r Rule) Values(scores []float64, groups []int) []float64 {
	values := slices.Clone(scores)
	if r != ZScore && r != Rank {
		return values
	}
	for _, members := range byGroup(scores, groups) {
		var own []float64
		for _, i := range members {
			own = append(own, scores[i])
		}
		normalise := zScores
		if r == Rank {
			normalise = ranks
		}
		for k, v := range normalise(own) {
			values[members[k]] = v
		}
	}
	return values
}

// byGroup returns the indices of the scores of each group, without failures.
func byGroup(scores []float64, groups []int) map[int][]int {
	members := map[int][]int{}
	for i, x := range scores {
		if !math.IsNaN(x) {
			members[groups[i]] = append(members[groups[i]], i)
		}
	}
	return members
}

// zScores returns (x - mean) / (std + epsilon), with the sample standard deviation (n - 1). They are 0 if all scores
// are equal, or if there is only one.
func zScores(x []float64) []float64 {
	out := make([]float64, len(x))
	if slices.Min(x) == slices.Max(x) { // exactly 0, however the mean is rounded
		return out
	}
	m, squares := stats.Mean(x), 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	std := math.Sqrt(squares / float64(len(x)-1))
	for i, v := range x {
		out[i] = (v - m) / (std + epsilon)
	}
	return out
}

// ranks returns (number of lower scores + half of the other equal ones) / (n - 1): scipy's rankdata (average), from 0
// to 1. A single score has 0.5.
func ranks(x []float64) []float64 {
	if len(x) == 1 {
		return []float64{0.5}
	}
	out := stats.Ranks(x)
	for i, r := range out {
		out[i] = (r - 1) / float64(len(x)-1)
	}
	return out
}

// Impute replaces failed values by the mean of their group, and reports which were replaced. If all values of a group
// failed, they stay NaN.
func Impute(values []float64, groups []int) (imputed []bool) {
	imputed = make([]bool, len(values))
	means := map[int]float64{}
	for g, members := range byGroup(values, groups) {
		var own []float64
		for _, i := range members {
			own = append(own, values[i])
		}
		means[g] = stats.Mean(own)
	}
	for i, v := range values {
		if m, ok := means[groups[i]]; ok && math.IsNaN(v) {
			values[i], imputed[i] = m, true
		}
	}
	return imputed
}

// Sum returns the weighted sum of values: values[k][i] is the value of reward k for edit i. It is NaN for edits for
// which a reward failed, unless its weight is 0.
func Sum(weights []float64, values [][]float64, edits int) []float64 {
	sums := make([]float64, edits)
	for k, w := range weights {
		if w == 0 {
			continue
		}
		for i := range sums {
			sums[i] += w * values[k][i]
		}
	}
	return sums
}

// LowerBound returns the weighted mean of the values of judges, minus penalty times the standard deviation of the
// mixture of their normal distributions (deep ensembles: Lakshminarayanan, Pritzel and Blundell, 2017),
//
//	mu - penalty S,   mu = sum w x / sum w,   S^2 = sum w (sigma^2 + (x - mu)^2) / sum w
//
// sigmas[k][i] is the standard deviation that judge k reports for edit i, 0 if it reports none: S is sigma for one
// judge, and the spread of the values for judges without sigma. Weights are at least 0, and a judge with weight 0
// does not count. The result is NaN for edits for which a judge that counts failed.
func LowerBound(weights []float64, values, sigmas [][]float64, penalty float64, edits int) []float64 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	out := Sum(weights, values, edits)
	for i := range out {
		mu, variance := out[i]/total, 0.0
		for k, w := range weights {
			if w > 0 {
				variance += w / total * (sigmas[k][i]*sigmas[k][i] + (values[k][i]-mu)*(values[k][i]-mu))
			}
		}
		out[i] = mu - penalty*math.Sqrt(variance)
	}
	return out
}

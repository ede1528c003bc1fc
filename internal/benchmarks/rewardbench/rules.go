package rewardbench

import (
	"fmt"
	"math"

	"assay/internal/benchmarks/protocol"
)

// tigerRun is a sample as EditReward's program (eval_bench.py) sees it: one score for each candidate.
type tigerRun struct {
	human []int     // of each pair of candidates: 1: the one with the earlier letter is better, -1: the other, 0: a tie
	d     []float64 // its score minus the other's
	order bool      // the scores have the human order
}

// run returns a sample as the program sees it; nil if it lacks scores, or if a candidate has several. The program sorts
// candidates by NumPy's argsort and reverses the result: among equal scores the later letter comes first.
func (t *tigerPredictions) run(u int) *tigerRun {
	g := t.samples[u]
	scores := map[string]float64{}
	out := &tigerRun{order: true}
	for _, i := range g.comparisons {
		if !t.j.HasScores(i) {
			return nil
		}
		for side, letter := range t.letters[i] {
			v := t.j.Scores[side][i]
			if other, ok := scores[letter]; ok && other != v {
				return nil
			}
			scores[letter] = v
		}
		human := map[string]int{protocol.Left: 1, protocol.Right: -1, protocol.Tie: 0}[t.Human[i]]
		d := t.j.Scores[0][i] - t.j.Scores[1][i]
		if t.letters[i][0] > t.letters[i][1] {
			human, d = -human, -d
		}
		out.human, out.d = append(out.human, human), append(out.d, d)
		out.order = out.order && (human > 0 && d > 0 || human < 0 && d <= 0)
	}
	return out
}

// right reports whether the program counts a sample as right. The margin does not matter for a preference; a tie among
// more than two is never right.
func (r *tigerRun) right(eps float64) bool {
	if len(r.human) == 1 && r.human[0] == 0 {
		return math.Abs(r.d[0]) <= eps
	}
	return r.order
}

// tallyAsRun counts samples of one K as the program's strict ranking does, k = 0 of every K.
func (t *tigerPredictions) tallyAsRun(samples []int, k int, eps float64) (out tally) {
	for _, u := range samples {
		r := t.runs[u]
		if r == nil || k != 0 && t.samples[u].k != k {
			continue
		}
		out.n++
		if r.right(eps) {
			out.right++
		}
	}
	return out
}

// pairwiseAsRun returns the program's accuracy on the pairs of one K, and its margin. With two candidates, and with
// k = 0 (every K), a difference of at most the margin is a tie, with the same margin for all pairs. With three or four
// there are no ties.
func (t *tigerPredictions) pairwiseAsRun(samples []int, k int) (eps, accuracy float64) {
	var human []int
	var d []float64
	for _, u := range samples {
		if r := t.runs[u]; r != nil && (k == 0 || t.samples[u].k == k) {
			human, d = append(human, r.human...), append(d, r.d...)
		}
	}
	switch {
	case k > 2:
		right, preferences := 0, 0
		for i, h := range human {
			if h != 0 {
				preferences++
			}
			if float64(h)*d[i] > 0 {
				right++
			}
		}
		return 0, float64(right) / float64(preferences)
	case math.IsNaN(t.Epsilon):
		return protocol.BestMargin(human, d)
	}
	right := 0
	for i, h := range human {
		if math.Abs(d[i]) <= t.Epsilon && h == 0 || math.Abs(d[i]) > t.Epsilon && h == protocol.Sign(d[i]) {
			right++
		}
	}
	return t.Epsilon, float64(right) / float64(len(d))
}

// rules counts the samples by their number of edits; eps is the margin of a tie.
func (t *tigerPredictions) rules(samples []int, eps float64) (map[string]tigerRule, protocol.Table, []string) {
	var notes []string
	rules := map[string]tigerRule{}
	table := protocol.Table{Title: "samples", Columns: []string{"n", "right", "accuracy", "pair-wise"}}
	for _, n := range tigerNumbers {
		if n.asRun && !t.j.AnyScore {
			continue
		}
		var c tally
		var rule tigerRule
		if n.asRun {
			pairsEps, pairwise := t.pairwiseAsRun(samples, n.k)
			c, rule.Pairwise = t.tallyAsRun(samples, n.k, eps), protocol.Value(pairwise)
			if n.k == 0 {
				rule.PairwiseEpsilon = &pairsEps
			}
		} else {
			c = t.tally(samples, n.k, eps)
			rule.Pairwise = protocol.Value(float64(c.rightPairs) / float64(c.pairs))
		}
		rule.N, rule.Accuracy = c.n, protocol.Value(c.accuracy())
		if n.k == 2 && t.j.AnyScore {
			rule.Epsilon, rule.From = &eps, "option"
			if math.IsNaN(t.Epsilon) {
				rule.From = "test set"
			}
			if math.IsNaN(t.Epsilon) && !n.asRun {
				notes = append(notes, fmt.Sprintf("k2: a difference of up to %.6g is a tie; this margin was chosen on the "+
					"test set itself, where it maximises the accuracy", eps))
			}
		}
		rules[n.name] = rule
		table.Rows = append(table.Rows, protocol.TableRow{Name: n.name, Cells: []protocol.Cell{protocol.Count(c.n),
			protocol.Count(c.right), {Value: c.accuracy()}, {Value: float64(rule.Pairwise)}}})
	}
	return rules, table, notes
}

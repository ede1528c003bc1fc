package benchmarks

import (
	"cmp"
	"math"
	"slices"
)

// bestMargin returns the eps >= 0 that maximises the accuracy when |d| <= eps is a tie, and that accuracy (Deutsch et
// al. 2023). human is 1, 0 or -1, d the difference of scores. Of equally good margins it is the smallest.
func bestMargin(human []int, d []float64) (eps, accuracy float64) {
	order := make([]int, len(d))
	hits := 0 // at a margin below every |d|
	for i := range order {
		order[i] = i
		if human[i] == sign(d[i]) {
			hits++
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(d[a]), math.Abs(d[b])) })
	best := hits
	for k := 0; k < len(order); {
		at := math.Abs(d[order[k]])
		for ; k < len(order) && math.Abs(d[order[k]]) == at; k++ {
			if i := order[k]; human[i] == 0 && d[i] != 0 {
				hits++
			} else if human[i] != 0 && human[i] == sign(d[i]) {
				hits--
			}
		}
		if hits > best {
			best, eps = hits, at
		}
	}
	return eps, float64(best) / float64(len(d))
}

// thresholdRule is the rule "threshold": three classes, a difference of at most eps is a tie.
var thresholdRule = pairRule{name: "threshold", columns: []string{left, right, tie}, decide: decideByThreshold}

func decideByThreshold(p *pairs, j *pairsPredictions, units []int) verdicts {
	v := verdicts{rows: []string{left, right, tie}}
	var human []int
	var d []float64
	number := map[string]int{left: 1, right: -1, tie: 0}
	for _, i := range units {
		if j.hasScores(i) {
			human, d = append(human, number[p.side[p.human[i]]]), append(d, j.scores[0][i]-j.scores[1][i])
		}
	}
	eps := j.epsilon
	if v.chosenHere = math.IsNaN(eps); v.chosenHere {
		eps, _ = bestMargin(human, d)
	}
	v.epsilon = &eps
	name := map[int]string{1: left, -1: right, 0: tie}
	for i := range d {
		predicted := sign(d[i])
		if math.Abs(d[i]) <= eps {
			predicted = 0
		}
		v.truth, v.predicted = append(v.truth, name[human[i]]), append(v.predicted, name[predicted])
		v.right = append(v.right, human[i] == predicted)
	}
	return v
}

// adieeRule is the rule "adiee" for scores s on 0..10: t = round-half-to-even(s/5); the greater t wins, and equal ones
// are what equal decides.
func adieeRule(classes []string, leftName, rightName string, equal func(l, r float64) string) pairRule {
	return pairRule{
		name:    "adiee",
		scale:   true,
		columns: classes,
		decide: func(p *pairs, j *pairsPredictions, units []int) verdicts {
			v := verdicts{rows: classes}
			for _, i := range units {
				if !j.hasScores(i) {
					continue
				}
				l, r := j.scores[0][i], j.scores[1][i]
				predicted := equal(l, r)
				switch tl, tr := math.RoundToEven(l/5), math.RoundToEven(r/5); {
				case tl > tr:
					predicted = leftName
				case tl < tr:
					predicted = rightName
				}
				v.truth, v.predicted = append(v.truth, p.human[i]), append(v.predicted, predicted)
				v.right = append(v.right, predicted == p.human[i])
			}
			return v
		},
	}
}

// answerRule is a rule on answers: right lists the answers that are right for each verdict. Every pair counts, and no
// answer is wrong.
func answerRule(name string, classes []string, right map[string][]string) pairRule {
	var known []string
	for _, list := range right {
		known = append(known, list...)
	}
	decide := func(p *pairs, j *pairsPredictions, units []int) verdicts {
		v := verdicts{rows: classes}
		for _, i := range units {
			answer := j.answer[i]
			if answer == "" {
				answer = "none"
			}
			v.truth, v.predicted = append(v.truth, p.human[i]), append(v.predicted, answer)
			v.right = append(v.right, slices.Contains(right[p.human[i]], answer))
		}
		return v
	}
	return pairRule{name: name, answers: true, known: known, decide: decide}
}

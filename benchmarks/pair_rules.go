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

// bestMarginAsRun is calc_accuracy_with_ties of EditReward's program: pairs become ties one at a time, the smallest |d|
// first and equal ones in their order, and at least one does. It returns how many are ties where the accuracy is
// highest (the fewest, if several numbers are as good), and the order.
func bestMarginAsRun(human []int, d []float64) (ties int, order []int) {
	hits := 0
	for i := range d {
		order = append(order, i)
		if float64(human[i])*d[i] > 0 {
			hits++
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(d[a]), math.Abs(d[b])) })
	best := -1
	for k, i := range order {
		switch {
		case human[i] == 0:
			hits++
		case float64(human[i])*d[i] > 0:
			hits--
		}
		if hits > best {
			best, ties = hits, k+1
		}
	}
	return ties, order
}

// thresholdAsRun says what the rule is.
const thresholdAsRun = "threshold as run (scores): the same as EditReward's program computes it " +
	"(calc_accuracy_with_ties). Pairs become ties one at a time, the smallest difference first and equal ones in their " +
	"order, and at least one does. So it differs from the formula where differences repeat, and where no tie at all " +
	"would be best. There is none with --epsilon"

// thresholdRules are the rule "threshold", three classes of which a difference of at most eps is a tie, and
// "threshold as run", which is what EditReward's program computes of it.
var thresholdRules = []pairRule{
	{name: "threshold", columns: threeClasses, decide: decideByThreshold},
	{name: "threshold as run", columns: threeClasses, decide: decideAsRun, chooses: true},
}

// differences are the human verdicts (1 left, -1 right, 0 tie) and the differences of the scores of pairs that have
// both.
func (j *pairsPredictions) differences(units []int) (human []int, d []float64) {
	number := map[string]int{left: 1, right: -1, tie: 0}
	for _, i := range units {
		if j.hasScores(i) {
			human, d = append(human, number[j.side[j.human[i]]]), append(d, j.scores[0][i]-j.scores[1][i])
		}
	}
	return human, d
}

// sideNames are the classes by the sign of a difference.
var sideNames = map[int]string{1: left, -1: right, 0: tie}

// decideAsRun takes pairs for ties one at a time. Scores that are equal and were not taken yet are neither a tie nor a
// preference: no verdict is right then.
func decideAsRun(_ *pairs, j *pairsPredictions, units []int) verdicts {
	human, d := j.differences(units)
	ties, order := bestMarginAsRun(human, d)
	v := verdicts{rows: threeClasses, chosenHere: true, ties: ties, truth: make([]string, len(d)),
		predicted: make([]string, len(d)), right: make([]bool, len(d))}
	for k, i := range order {
		switch {
		case k < ties:
			v.predicted[i] = tie
			eps := math.Abs(d[i])
			v.epsilon = &eps
		case d[i] == 0:
			v.predicted[i] = "equal scores"
		default:
			v.predicted[i] = sideNames[sign(d[i])]
		}
		v.truth[i] = sideNames[human[i]]
		v.right[i] = v.truth[i] == v.predicted[i]
	}
	return v
}

func decideByThreshold(_ *pairs, j *pairsPredictions, units []int) verdicts {
	v := verdicts{rows: threeClasses}
	human, d := j.differences(units)
	eps := j.epsilon
	if v.chosenHere = math.IsNaN(eps); v.chosenHere {
		eps, _ = bestMargin(human, d)
	}
	v.epsilon = &eps
	for i := range d {
		predicted := sign(d[i])
		if math.Abs(d[i]) <= eps {
			predicted = 0
		}
		v.truth, v.predicted = append(v.truth, sideNames[human[i]]), append(v.predicted, sideNames[predicted])
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

package protocol

import (
	"cmp"
	"math"
	"slices"

	"assay/edit"
	"assay/internal/stats"
)

// BestMargin returns the eps >= 0 that maximises the accuracy when |d| <= eps is a tie, and that accuracy (Deutsch et
// al. 2023). human is 1, 0 or -1, d the difference of scores. Of equally good margins it returns the smallest.
func BestMargin(human []int, d []float64) (eps, accuracy float64) {
	order := stats.UpTo(len(d))
	hits := 0 // at a margin below every |d|
	for i := range d {
		if human[i] == Sign(d[i]) {
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
			} else if human[i] != 0 && human[i] == Sign(d[i]) {
				hits--
			}
		}
		if hits > best {
			best, eps = hits, at
		}
	}
	return eps, float64(best) / float64(len(d))
}

// bestMarginAsRun is calc_accuracy_with_ties of EditReward's program: pairs become ties one at a time, the smallest
// |d| first (a stable sort), and at least one does. It returns the number of ties with the highest accuracy (the
// smallest such number), and the order.
func bestMarginAsRun(human []int, d []float64) (ties int, order []int) {
	hits := 0
	order = stats.UpTo(len(d))
	for i := range d {
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

// ThresholdRules are the rule "threshold", three classes where a difference of at most eps is a tie, and "threshold
// as run", which is what EditReward's program actually computes.
var ThresholdRules = []PairRule{
	{Name: "threshold", Columns: ThreeClasses, decide: decideByThreshold},
	{Name: "threshold as run", Columns: ThreeClasses, decide: decideAsRun, chooses: true},
}

// Differences returns the human verdicts (1 left, -1 right, 0 tie) and the differences of scores, for pairs with both
// scores.
func (j *PairPredictions) Differences(pairs []int) (human []int, d []float64) {
	number := map[string]int{Left: 1, Right: -1, Tie: 0}
	for _, i := range pairs {
		if j.HasScores(i) {
			human, d = append(human, number[j.Side[j.Human[i]]]), append(d, j.Scores[0][i]-j.Scores[1][i])
		}
	}
	return human, d
}

// sideNames are the classes by the sign of a difference.
var sideNames = map[int]string{1: Left, -1: Right, 0: Tie}

// decideAsRun turns pairs into ties one at a time. Equal scores that were not turned into a tie are neither a tie nor
// a preference: no verdict is right for them.
func decideAsRun(j *PairPredictions, pairs []int) verdicts {
	human, d := j.Differences(pairs)
	ties, order := bestMarginAsRun(human, d)
	v := verdicts{Rows: ThreeClasses, chosenHere: true, ties: ties, Truth: make([]string, len(d)),
		Predicted: make([]string, len(d)), Right: make([]bool, len(d))}
	for k, i := range order {
		switch {
		case k < ties:
			v.Predicted[i] = Tie
			eps := math.Abs(d[i])
			v.epsilon = &eps
		case d[i] == 0:
			v.Predicted[i] = "equal scores"
		default:
			v.Predicted[i] = sideNames[Sign(d[i])]
		}
		v.Truth[i] = sideNames[human[i]]
		v.Right[i] = v.Truth[i] == v.Predicted[i]
	}
	return v
}

func decideByThreshold(j *PairPredictions, pairs []int) verdicts {
	v := verdicts{Rows: ThreeClasses}
	human, d := j.Differences(pairs)
	eps := j.Epsilon
	if v.chosenHere = math.IsNaN(eps); v.chosenHere {
		eps, _ = BestMargin(human, d)
	}
	v.epsilon = &eps
	for i := range d {
		predicted := Sign(d[i])
		if math.Abs(d[i]) <= eps {
			predicted = 0
		}
		v.add(sideNames[human[i]], sideNames[predicted], human[i] == predicted)
	}
	return v
}

// ScoreRule returns a rule that predicts the class of each pair from its scores only, and is right if that equals the
// human verdict. about selects the pairs that the rule applies to; nil: all.
func ScoreRule(
	name string, classes, columns []string, about func(pair int) bool, predict func(human string, l, r float64) string,
) PairRule {
	return PairRule{Name: name, Columns: columns, About: about, decide: func(j *PairPredictions, pairs []int) verdicts {
		v := verdicts{Rows: classes}
		for _, i := range pairs {
			if j.HasScores(i) && (about == nil || about(i)) {
				predicted := predict(j.Human[i], j.Scores[0][i], j.Scores[1][i])
				v.add(j.Human[i], predicted, predicted == j.Human[i])
			}
		}
		return v
	}}
}

// ADIEERule is the rule "adiee" for scores s on 0..10: t = round-half-to-even(s/5); the greater t wins, and equal
// decides if they are equal. Scores of a run on another range are mapped to 0..10 first.
func ADIEERule(classes []string, leftName, rightName string, equal func(l, r float64) string) PairRule {
	rule := ScoreRule("adiee", classes, classes, nil, func(_ string, l, r float64) string {
		switch tl, tr := math.RoundToEven(l/5), math.RoundToEven(r/5); {
		case tl > tr:
			return leftName
		case tl < tr:
			return rightName
		}
		return equal(l, r)
	})
	rule.scale = true
	decide := rule.decide
	rule.decide = func(j *PairPredictions, pairs []int) verdicts { return decide(j.onTen(), pairs) }
	return rule
}

// setRange sets the range that the scores are on, once they are read.
func (j *PairPredictions) setRange(on edit.Range) {
	j.on = on
	for side, scores := range j.Scores {
		j.ten[side] = make([]float64, len(scores))
		for i, v := range scores {
			j.ten[side][i] = 10 * on.To01(v)
		}
	}
}

// onTen returns the predictions with scores on 0..10, if they are known to be on another range.
func (j *PairPredictions) onTen() *PairPredictions {
	if j.on == (edit.Range{}) {
		return j
	}
	out := *j
	out.on, out.Scores = edit.Range{}, j.ten
	return &out
}

// AnswerRule returns a rule on answers: right lists the answers that are right for each verdict. Every pair counts,
// and a missing answer counts as wrong.
func AnswerRule(name string, classes []string, right map[string][]string) PairRule {
	var known []string
	for _, list := range right {
		known = append(known, list...)
	}
	decide := func(j *PairPredictions, pairs []int) verdicts {
		v := verdicts{Rows: classes}
		for _, i := range pairs {
			answer := cmp.Or(j.Answer[i], "none")
			v.add(j.Human[i], answer, slices.Contains(right[j.Human[i]], answer))
		}
		return v
	}
	return PairRule{Name: name, answers: true, known: known, decide: decide}
}

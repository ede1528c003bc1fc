package benchmarks

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// The classes of pairs.
const (
	left  = "left"
	right = "right"
	tie   = "tie"
)

// Verdicts of three classes, which are named by the side that wins.
var (
	threeClasses = []string{left, right, tie}
	threeSides   = map[string]string{left: left, right: right, tie: tie}
)

// pairs are comparisons of two edits with a human verdict each. Every benchmark of pairs fills one.
type pairs struct {
	ids     []string
	human   []string          // the verdict, by the benchmark's own name
	side    map[string]string // verdict -> left, right or tie
	answers []string          // an answer per class for random guessing, nil where answers do not exist
	rules   []pairRule
	find    func(Key) ([]slot, error) // instead of bySide
	show    func(pair int) ([]CaptionedPicture, string)
	index   map[string]int
	notes   []string // on the data
}

// slot is one side of a pair.
type slot struct{ pair, side int }

// pairRule decides, for each pair, which class is predicted and whether that is right.
type pairRule struct {
	name    string
	answers bool     // works on answers, else on scores
	scale   bool     // made for scores on 0..10
	chooses bool     // chooses its margin on the pairs: a given one is not for it
	known   []string // the answers that it knows
	columns []string
	decide  func(p *pairs, j *pairsPredictions, units []int) verdicts
}

// verdicts are a rule's decisions on units. truth may be coarser than the human verdicts.
type verdicts struct {
	truth, predicted []string
	right            []bool
	rows             []string // the classes of truth
	epsilon          *float64
	chosenHere       bool // epsilon maximises the accuracy on these very pairs
	ties             int  // so many of the smallest differences are ties; 0: all up to epsilon are
}

func (v verdicts) accuracy() float64 {
	n := 0
	for _, ok := range v.right {
		if ok {
			n++
		}
	}
	return float64(n) / float64(len(v.right))
}

// pairsPredictions holds the predictions of pairs: scores of the two sides (NaN where missing), answers ("" where
// there is none; answered tells a missing answer from an empty one).
type pairsPredictions struct {
	*pairs
	scores    [2][]float64
	answer    []string
	answered  []bool
	anyAnswer bool
	anyScore  bool
	epsilon   float64 // NaN: chosen on the pairs themselves
}

func (p *pairs) blank() *pairsPredictions {
	n := len(p.ids)
	nan := slices.Repeat([]float64{math.NaN()}, 2*n)
	return &pairsPredictions{
		pairs:    p,
		scores:   [2][]float64{nan[:n:n], nan[n:]},
		answer:   make([]string, n),
		answered: make([]bool, n),
		epsilon:  math.NaN(),
	}
}

func (p *pairs) add(id, verdict string) {
	if p.index == nil {
		p.index = map[string]int{}
	}
	p.index[id] = len(p.ids)
	p.ids, p.human = append(p.ids, id), append(p.human, verdict)
}

func (p *pairs) slots(k Key) ([]slot, error) {
	if p.find != nil {
		return p.find(k)
	}
	return p.bySide(k)
}

// bySide finds a pair by its id, or one side of it by "left" or "right".
func (p *pairs) bySide(k Key) ([]slot, error) {
	i, ok := p.index[k.ID]
	if !ok {
		return nil, fmt.Errorf("the id %q is not one of the %d pairs: an id such as %q was expected", k.ID, len(p.ids),
			p.ids[0])
	}
	switch k.Model {
	case "":
		return []slot{{i, 0}, {i, 1}}, nil
	case left:
		return []slot{{i, 0}}, nil
	case right:
		return []slot{{i, 1}}, nil
	}
	return nil, fmt.Errorf("the model %q is no side: \"left\" or \"right\" was expected", k.Model)
}

func (p *pairs) guess(rng *rand.Rand, epsilon float64) *pairsPredictions {
	j := p.blank()
	j.epsilon, j.anyScore = epsilon, true
	for side := range j.scores {
		j.scores[side] = guess(rng, len(p.ids))
	}
	if rng != nil && len(p.answers) > 0 {
		j.anyAnswer = true
		for i := range j.answer {
			j.answer[i], j.answered[i] = p.answers[rng.IntN(len(p.answers))], true
		}
	}
	return j
}

// hasScores reports whether both sides of a pair have a score.
func (j *pairsPredictions) hasScores(i int) bool {
	return !math.IsNaN(j.scores[0][i]) && !math.IsNaN(j.scores[1][i])
}

func (j *pairsPredictions) Units() int { return len(j.ids) }

func (j *pairsPredictions) Complete(i int) bool {
	return (!j.anyAnswer || j.answered[i]) && (!j.anyScore || j.hasScores(i))
}

func (j *pairsPredictions) applies(r pairRule) bool {
	if r.chooses && !math.IsNaN(j.epsilon) {
		return false
	}
	return r.answers && j.anyAnswer || !r.answers && j.anyScore
}

func (j *pairsPredictions) Numbers(units []int) []Number {
	var out []Number
	for _, r := range j.rules {
		if j.applies(r) {
			v := r.decide(j.pairs, j, units)
			terms := Terms{Counted: r.answers, Normalisation: marginTerm(v.epsilon, v.chosenHere)}
			if r.scale {
				terms.Normalisation = j.scaleTerm()
			}
			out = append(out, Number{Name: r.name, Value: v.accuracy(), Terms: terms})
		}
	}
	return out
}

// scaleTerm names the scores' scale, if it plainly is not 0..10: "" of scores on 0..10.
func (j *pairsPredictions) scaleTerm() string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range slices.Concat(j.scores[0], j.scores[1]) {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	switch {
	case low < 0 || high > 10:
		return fmt.Sprintf("of scores from %.4g to %.4g, made for 0 to 10", low, high)
	case high <= 1:
		return "of scores within 0 to 1, made for 0 to 10"
	}
	return ""
}

// marginTerm says where a margin of ties comes from; "" where there is none.
func marginTerm(eps *float64, chosenHere bool) string {
	switch {
	case eps == nil:
		return ""
	case chosenHere:
		return "tie margin chosen on the test set"
	}
	return fmt.Sprintf("tie margin %v", *eps)
}

// ruleJSON is the JSON of one rule.
type ruleJSON struct {
	N         int                  `json:"n"`
	Accuracy  Value                `json:"accuracy"`
	Epsilon   *float64             `json:"epsilon,omitempty"`
	EpsilonOn string               `json:"epsilon_from,omitempty"`
	PerClass  map[string]classJSON `json:"per_class"`
	Confusion Confusion            `json:"confusion"`
}

type classJSON struct {
	N        int   `json:"n"`
	Accuracy Value `json:"accuracy"`
}

type pairsJSON struct {
	Common
	Votes map[string]int      `json:"votes"`
	Rules map[string]ruleJSON `json:"rules"`
}

func (j *pairsPredictions) result(benchmark string) *Result {
	units := make([]int, len(j.ids))
	for i := range units {
		units[i] = i
	}
	r := &Result{Notes: slices.Clone(j.notes), Numbers: j.Numbers(units)}
	votes := map[string]int{}
	for i, id := range j.ids {
		votes[j.human[i]]++
		if !j.Complete(i) {
			r.Missing = append(r.Missing, Key{ID: id})
		}
	}
	r.N = len(j.ids) - len(r.Missing)
	rules := map[string]ruleJSON{}
	for _, rule := range j.rules {
		if j.applies(rule) {
			rules[rule.name] = j.applyRule(rule, units, r)
			if rule.answers {
				r.Notes = append(r.Notes, j.answerNotes(rule)...)
			}
		}
	}
	outside := func(v float64) bool { return v < 0 || v > 10 }
	switch term := j.scaleTerm(); {
	case rules["adiee"].N == 0 || term == "":
	case slices.ContainsFunc(slices.Concat(j.scores[0], j.scores[1]), outside):
		r.Notes = append(r.Notes, "adiee: some scores lie outside 0..10, the range this rule is made for")
	default:
		r.Notes = append(r.Notes, "adiee: all scores lie within 0..1; this rule is made for 0..10, where they all are ties")
	}
	r.JSON = pairsJSON{r.common(benchmark), votes, rules}
	r.Examples = j.examples(4)
	return r
}

// applyRule computes one rule, and adds its tables and notes to the result.
func (j *pairsPredictions) applyRule(rule pairRule, units []int, r *Result) ruleJSON {
	v := rule.decide(j.pairs, j, units)
	out := ruleJSON{
		N:         len(v.right),
		Accuracy:  Value(v.accuracy()),
		Epsilon:   v.epsilon,
		PerClass:  map[string]classJSON{},
		Confusion: newConfusion(rule.name, v.truth, v.predicted, v.rows, rule.columns),
	}
	if v.epsilon != nil {
		out.EpsilonOn = "option"
		if v.chosenHere {
			out.EpsilonOn = "test set"
			what := fmt.Sprintf("a difference of up to %.6g is a tie; this margin", *v.epsilon)
			if v.ties > 0 {
				what = fmt.Sprintf("the %d pairs with the smallest differences, up to %.6g, are ties; their number", v.ties,
					*v.epsilon)
			}
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s was chosen on the test set itself, where it maximises the accuracy",
				rule.name, what))
		}
	}
	t := Table{Title: rule.name + ": accuracy per class", Columns: []string{"n", "accuracy"}}
	for _, c := range v.rows {
		n, hits := 0, 0
		for i := range v.truth {
			if v.truth[i] == c {
				n++
				if v.right[i] {
					hits++
				}
			}
		}
		acc := float64(hits) / float64(n)
		out.PerClass[c] = classJSON{n, Value(acc)}
		t.Rows = append(t.Rows, TableRow{Name: c, Cells: []float64{float64(n), acc}, Text: []string{fmt.Sprint(n)}})
	}
	r.Tables, r.Confusions = append(r.Tables, t), append(r.Confusions, out.Confusion)
	return out
}

// examples shows the pairs decided most clearly, rightly and wrongly, by the difference of scores.
func (j *pairsPredictions) examples(each int) []Example {
	if !j.anyScore || j.show == nil {
		return nil
	}
	var order []int
	for i := range j.ids {
		if j.hasScores(i) && j.side[j.human[i]] != tie {
			order = append(order, i)
		}
	}
	margin := func(i int) float64 { // positive: as the humans
		d := j.scores[0][i] - j.scores[1][i]
		if j.side[j.human[i]] == right {
			d = -d
		}
		return d
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(margin(b), margin(a)) })
	var out []Example
	add := func(kind string, i int) {
		e := Example{Kind: kind, Text: fmt.Sprintf("%s: scores %.4g and %.4g, human %s",
			j.ids[i], j.scores[0][i], j.scores[1][i], j.human[i])}
		e.Pictures, e.Instruction = j.show(i)
		out = append(out, e)
	}
	for k := 0; k < min(each, len(order)) && margin(order[k]) > 0; k++ {
		add("agrees", order[k])
	}
	for k := 0; k < min(each, len(order)) && margin(order[len(order)-1-k]) < 0; k++ {
		add("disagrees", order[len(order)-1-k])
	}
	return out
}

package protocol

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"assay/edit"
	"assay/internal/stats"
)

// The classes of pairs.
const (
	Left  = "left"
	Right = "right"
	Tie   = "tie"
)

// verdicts of three classes, which are named after the winning side.
var (
	ThreeClasses = []string{Left, Right, Tie}
	ThreeSides   = map[string]string{Left: Left, Right: Right, Tie: Tie}
)

// PairSet is a set of comparisons of two edits, each with a human verdict. Every benchmark of pairs fills one.
type PairSet struct {
	Name    string  // of the benchmark
	Subset  string  // part of the benchmark; "" is the usual one
	Epsilon float64 // tie margin; NaN: chosen on the pairs themselves

	IDs      []string
	Human    []string          // the verdict, by the benchmark's own name
	Side     map[string]string // verdict -> left, right or tie
	Answers  []string          // an answer per class for random guessing, nil if there are no answers
	Rules    []PairRule
	Edits    []edit.Pair               // left and right; empty: there are no pictures
	Captions [2]string                 // of the two in reports; "": left and right
	Find     func(Key) ([]Slot, error) // instead of BySide
	Index    map[string]int
	Notes    []string // on the data

	together Sources // none: every pair is a unit of resampling
}

// Slot is one side of a pair.
type Slot struct{ Pair, Side int }

// PairRule decides, for each pair, which class is predicted and whether that is right.
type PairRule struct {
	Name    string
	answers bool     // works on answers, else on scores
	scale   bool     // made for scores on 0..10
	chooses bool     // chooses its margin on the pairs: not applied if one is given
	known   []string // the answers that it recognises
	Columns []string
	About   func(pair int) bool // pairs that it applies to; nil: all
	decide  func(j *PairPredictions, pairs []int) verdicts
}

// verdicts are a rule's decisions on pairs. truth may be coarser than the human verdicts.
type verdicts struct {
	Truth, Predicted []string
	Right            []bool
	Rows             []string // the classes of truth
	epsilon          *float64
	chosenHere       bool // epsilon maximises the accuracy on these same pairs
	ties             int  // this many of the smallest differences are ties; 0: all up to epsilon are
}

func (v *verdicts) add(truth, predicted string, right bool) {
	v.Truth, v.Predicted, v.Right = append(v.Truth, truth), append(v.Predicted, predicted), append(v.Right, right)
}

func (v verdicts) accuracy() float64 {
	n := 0
	for _, ok := range v.Right {
		if ok {
			n++
		}
	}
	return float64(n) / float64(len(v.Right))
}

// PairPredictions holds the predictions of pairs: scores of the two sides (NaN if missing), answers ("" if there is
// none; answered distinguishes a missing answer from an empty one).
type PairPredictions struct {
	*PairSet
	Scores    [2][]float64
	Answer    []string
	answered  []bool
	anyAnswer bool
	AnyScore  bool
	on        edit.Range   // of the scores; zero: 0 to 10, or unknown
	ten       [2][]float64 // the scores on 0 to 10, if on is set
}

// Blank returns empty predictions.
func (p *PairSet) Blank() *PairPredictions {
	n := len(p.IDs)
	nan := slices.Repeat([]float64{math.NaN()}, 2*n)
	return &PairPredictions{
		PairSet:  p,
		Scores:   [2][]float64{nan[:n:n], nan[n:]},
		Answer:   make([]string, n),
		answered: make([]bool, n),
	}
}

// Add adds a pair with its human verdict.
func (p *PairSet) Add(id, verdict string) {
	if p.Index == nil {
		p.Index = map[string]int{}
	}
	p.Index[id] = len(p.IDs)
	p.IDs, p.Human = append(p.IDs, id), append(p.Human, verdict)
}

// Together puts the pair that was added last into the unit of resampling with that name, such as its source: pairs of
// one source are not independent. "" is a unit of its own. It is called for every pair or for none.
func (p *PairSet) Together(name string) {
	p.together.Add(name, len(p.IDs)-1)
}

// Units returns the number of units of resampling.
func (p *PairSet) Units() int {
	if p.together.Samples == nil {
		return len(p.IDs)
	}
	return len(p.together.Samples)
}

// PairsOf returns the pairs of units of resampling, in the order of the data.
func (p *PairSet) PairsOf(units ...int) (pairs []int) {
	if p.together.Samples == nil {
		return units
	}
	return p.together.Of(units)
}

// AddEdits adds the two edits of the pair that was added last.
func (p *PairSet) AddEdits(instruction string, source Picture, outputs [2]Picture) edit.Pair {
	id := p.IDs[len(p.IDs)-1]
	var pair edit.Pair
	for k, side := range []string{Left, Right} {
		pair[k] = NewItem(Key{ID: id, Model: side}, instruction, source, outputs[k])
		pair[k].Group = id
	}
	p.Edits = append(p.Edits, pair)
	return pair
}

// Items implements Scorable.
func (p *PairSet) Items() (items []*edit.Edit, err error) {
	for _, pair := range p.Edits {
		items = append(items, pair[:]...)
	}
	return items, CheckFiles(items)
}

// Read implements Set.
func (p *PairSet) Read(path string) (Predictions, error) { return p.ReadPairs(path) }

// Guess implements Guessable.
func (p *PairSet) Guess(rng *rand.Rand) Predictions { return p.GuessPairs(rng) }

func (p *PairSet) slots(k Key) ([]Slot, error) {
	if p.Find != nil {
		return p.Find(k)
	}
	return p.BySide(k)
}

// BySide finds a pair by its id, or one side of it by "left" or "right".
func (p *PairSet) BySide(k Key) ([]Slot, error) {
	i, ok := p.Index[k.ID]
	if !ok {
		return nil, fmt.Errorf("the id %q is not one of the %d pairs: want an id such as %q", k.ID, len(p.IDs),
			p.IDs[0])
	}
	switch k.Model {
	case "":
		return []Slot{{i, 0}, {i, 1}}, nil
	case Left:
		return []Slot{{i, 0}}, nil
	case Right:
		return []Slot{{i, 1}}, nil
	}
	return nil, fmt.Errorf("the model %q is not a side: want \"left\" or \"right\"", k.Model)
}

// GuessPairs generates scores and answers drawn from rng, or only constant scores if rng is nil.
func (p *PairSet) GuessPairs(rng *rand.Rand) *PairPredictions {
	j := p.Blank()
	j.AnyScore = true
	for side := range j.Scores {
		j.Scores[side] = RandomScores(rng, len(p.IDs))
	}
	if rng != nil && len(p.Answers) > 0 {
		j.anyAnswer = true
		for i := range j.Answer {
			j.Answer[i], j.answered[i] = p.Answers[rng.IntN(len(p.Answers))], true
		}
	}
	return j
}

// HasScores reports whether both sides of a pair have a score.
func (j *PairPredictions) HasScores(i int) bool {
	return !math.IsNaN(j.Scores[0][i]) && !math.IsNaN(j.Scores[1][i])
}

// Complete implements Predictions.
func (j *PairPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.PairsOf(unit), func(i int) bool { return !j.complete(i) })
}

// complete reports whether no prediction of a pair is missing.
func (j *PairPredictions) complete(i int) bool {
	return (!j.anyAnswer || j.answered[i]) && (!j.AnyScore || j.HasScores(i))
}

func (j *PairPredictions) applies(r PairRule) bool {
	if r.chooses && !math.IsNaN(j.Epsilon) {
		return false
	}
	return r.answers && j.anyAnswer || !r.answers && j.AnyScore
}

// Numbers implements Predictions: the accuracy by each rule.
func (j *PairPredictions) Numbers(units []int) []Number {
	pairs := j.PairsOf(units...)
	var out []Number
	for _, r := range j.Rules {
		if j.applies(r) {
			v := r.decide(j, pairs)
			terms := Terms{Counted: r.answers, Normalisation: MarginTerm(v.epsilon, v.chosenHere)}
			if r.scale {
				terms.Normalisation = j.scaleTerm()
			}
			out = append(out, Number{Name: r.Name, Value: v.accuracy(), Terms: terms})
		}
	}
	return out
}

// scaleTerm describes the scores' scale if it is clearly not 0..10, else "".
func (j *PairPredictions) scaleTerm() string {
	low, high := math.Inf(1), math.Inf(-1)
	mapped := j.on != edit.Range{}
	j = j.onTen()
	for _, v := range slices.Concat(j.Scores[0], j.Scores[1]) {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	switch {
	case low < 0 || high > 10:
		return fmt.Sprintf("of scores from %.4g to %.4g, made for 0 to 10", low, high)
	case high <= 1 && !mapped:
		return "of scores within 0 to 1, made for 0 to 10"
	}
	return ""
}

// scaleNotes returns what the reader must know about the scores' scale, for the rule "adiee".
func (j *PairPredictions) scaleNotes() (notes []string) {
	if j.on != (edit.Range{}) {
		notes = append(notes, fmt.Sprintf("adiee: the scores, %s, are mapped to 0..10, the range this rule is made for",
			j.on.Words()))
	}
	ten := j.onTen()
	switch outside := func(v float64) bool { return v < 0 || v > 10 }; {
	case j.scaleTerm() == "":
	case slices.ContainsFunc(slices.Concat(ten.Scores[0], ten.Scores[1]), outside):
		notes = append(notes, "adiee: some scores are outside 0..10, the range this rule is made for")
	default:
		notes = append(notes, "adiee: all scores are within 0..1; this rule is made for 0..10, where they are all ties")
	}
	return notes
}

// MarginTerm describes where a tie margin comes from; "" if there is none.
func MarginTerm(eps *float64, chosenHere bool) string {
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

// Result implements Predictions: the pairs by all rules.
func (j *PairPredictions) Result() *Result {
	r := &Result{Notes: slices.Clone(j.Notes), Numbers: j.Numbers(stats.UpTo(j.Units())), Subset: j.Subset}
	votes := map[string]int{}
	for _, verdict := range j.Human {
		votes[verdict]++
	}
	key := func(i int) Key { return Key{ID: j.IDs[i]} }
	r.Count(len(j.IDs), j.complete, key)
	rules := map[string]ruleJSON{}
	for _, rule := range j.Rules {
		if j.applies(rule) {
			if rule.About != nil {
				r.Numbers[len(rules)].Coverage = CoverageBy(len(j.IDs), func(i int) (Key, bool, bool) {
					return key(i), rule.About(i), j.complete(i)
				})
			}
			rules[rule.Name] = j.applyRule(rule, r)
			if rule.answers {
				r.Notes = append(r.Notes, j.answerNotes(rule)...)
			}
		}
	}
	if rules["adiee"].N > 0 {
		r.Notes = append(r.Notes, j.scaleNotes()...)
	}
	r.JSON = pairsJSON{r.Common(j.Name), votes, rules}
	r.Examples = j.examples(4)
	return r
}

// applyRule computes one rule, and adds its tables and notes to the result.
func (j *PairPredictions) applyRule(rule PairRule, r *Result) ruleJSON {
	v := rule.decide(j, stats.UpTo(len(j.IDs)))
	out := ruleJSON{
		N:         len(v.Right),
		Accuracy:  Value(v.accuracy()),
		Epsilon:   v.epsilon,
		PerClass:  map[string]classJSON{},
		Confusion: NewConfusion(rule.Name, v.Truth, v.Predicted, v.Rows, rule.Columns),
	}
	if v.epsilon != nil {
		out.EpsilonOn = "option"
		if v.chosenHere {
			out.EpsilonOn = "test set"
			what := fmt.Sprintf("a difference of up to %.6g is a tie; this margin", *v.epsilon)
			if v.ties > 0 {
				what = fmt.Sprintf("the %d pairs with the smallest differences, up to %.6g, are ties; their number",
					v.ties,
					*v.epsilon)
			}
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s was chosen on the test set itself, where it maximises the accuracy",
				rule.Name, what))
		}
	}
	t := Table{Title: rule.Name + ": accuracy per class", Columns: []string{"n", "accuracy"}}
	for _, c := range v.Rows {
		n, hits := 0, 0
		for i := range v.Truth {
			if v.Truth[i] == c {
				n++
				if v.Right[i] {
					hits++
				}
			}
		}
		acc := float64(hits) / float64(n)
		out.PerClass[c] = classJSON{n, Value(acc)}
		t.Rows = append(t.Rows, TableRow{Name: c, Cells: []Cell{Count(n), {Value: acc}}})
	}
	r.Tables, r.Confusions = append(r.Tables, t), append(r.Confusions, out.Confusion)
	return out
}

// examples shows the pairs decided most clearly, rightly and wrongly, by the difference of scores.
func (j *PairPredictions) examples(each int) []Example {
	if !j.AnyScore || len(j.Edits) == 0 {
		return nil
	}
	var order []int
	for i := range j.IDs {
		if j.HasScores(i) && j.Side[j.Human[i]] != Tie {
			order = append(order, i)
		}
	}
	margin := func(i int) float64 { // positive: agrees with the humans
		d := j.Scores[0][i] - j.Scores[1][i]
		if j.Side[j.Human[i]] == Right {
			d = -d
		}
		return d
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(margin(b), margin(a)) })
	var out []Example
	add := func(kind string, i int) {
		e := Example{Kind: kind, Text: fmt.Sprintf("%s: scores %.4g and %.4g, human %s",
			j.IDs[i], j.Scores[0][i], j.Scores[1][i], j.Human[i])}
		left, right := j.Edits[i][0], j.Edits[i][1]
		e.Instruction = left.Instruction
		e.Pictures = []CaptionedPicture{{"source", PictureOf(left, "source")},
			{cmp.Or(j.Captions[0], Left), PictureOf(left, "edit")}, {cmp.Or(j.Captions[1], Right), PictureOf(right, "edit")}}
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

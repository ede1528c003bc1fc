package rewardbench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// tiger is TIGER-Lab's EditReward-Bench. Every comparison is a pair; samples are what counts: a comparison of K=2, or
// all comparisons of one group of K=3 or K=4.
type tiger struct {
	protocol.PairSet
	images  string
	places  []protocol.Sample
	text    []string    // the instructions
	letters [][2]string // of the two candidates
	k       []int       // of the comparison: 2, 3 or 4
	samples []tigerSample
	sources protocol.Sources // of the samples
}

type tigerSample struct {
	name        string
	k           int
	comparisons []int
}

var tigerParts = map[string]int{"2pair": 2, "3pair": 3, "4pair": 4}

// addRow adds a comparison: the texts of id, dataset, ranking, comparison_type and instruction.
func (s *tiger) addRow(p protocol.Sample, text []string) error {
	id, dataset, ranking, kind, instruction := text[0], text[1], text[2], text[3], text[4]
	k, ok := tigerParts[dataset]
	if !ok {
		return fmt.Errorf("dataset is %q: want 2pair, 3pair or 4pair", dataset)
	}
	a, b, ok := strings.Cut(kind, "vs")
	if k == 2 && kind == "" {
		a, b, ok = "A", "B", true
	}
	if !ok || !strings.Contains("ABCD"[:k], a) || !strings.Contains("ABCD"[:k], b) || len(a)*len(b) != 1 || a == b {
		return fmt.Errorf("comparison_type is %q: want two candidates such as AvsB", kind)
	}
	verdict, ok := tigerVerdict(ranking, a, b)
	if !ok {
		return fmt.Errorf("ranking is %q: want %s>%s, %s>%s or %s=%s", ranking, a, b, b, a, a, b)
	}
	if _, twice := s.Index[id]; twice {
		return fmt.Errorf("a second row with the id %q", id)
	}
	s.Add(id, verdict)
	s.places, s.text = append(s.places, p), append(s.text, instruction)
	s.letters, s.k = append(s.letters, [2]string{a, b}), append(s.k, k)
	return nil
}

func loadTiger(table *protocol.Samples, o protocol.Options) (protocol.Set, error) {
	s := &tiger{images: o.Images, PairSet: protocol.PairSet{Side: protocol.ThreeSides, Epsilon: o.Epsilon}}
	s.Find = s.slotsOf
	groupOf := map[int][]int{} // k -> comparisons
	columns := []string{"id", "dataset", "ranking", "comparison_type", "instruction"}
	err := table.Each(columns, func(p protocol.Sample, text []string) error {
		at := len(s.IDs)
		if err := s.addRow(p, text); err != nil {
			return err
		}
		groupOf[s.k[at]] = append(groupOf[s.k[at]], at)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, i := range groupOf[2] {
		s.samples = append(s.samples, tigerSample{s.IDs[i], 2, []int{i}})
	}
	for _, k := range []int{3, 4} {
		groups, err := s.groups(k, groupOf[k])
		if err != nil {
			return nil, err
		}
		s.samples = append(s.samples, groups...)
	}
	for u, g := range s.samples {
		s.sources.Add(s.places[g.comparisons[0]].PictureName("source_image"), u)
	}
	return s, nil
}

// tigerVerdict reads "A>C", "C<A", "A=C", "A=B=Good" of the candidates a and b. The published table has
// ties as "A=B" (EditReward's inference_2pair_hf.py), which eval_bench.py does not know.
func tigerVerdict(ranking, a, b string) (string, bool) {
	ranking = strings.ReplaceAll(ranking, " ", "")
	switch {
	case ranking == a+">"+b || ranking == b+"<"+a:
		return protocol.Left, true
	case ranking == b+">"+a || ranking == a+"<"+b:
		return protocol.Right, true
	case ranking == a+"="+b || ranking == b+"="+a || strings.HasPrefix(ranking, a+"="+b+"="):
		return protocol.Tie, true
	}
	return "", false
}

// groups groups the comparisons of one K. The published code uses the part of the id before the first "_"; if that does
// not yield complete groups, the part before the last "_" is used, or neighbouring rows.
func (s *tiger) groups(k int, comparisons []int) ([]tigerSample, error) {
	each := k * (k - 1) / 2
	rules := []func(at, i int) string{
		func(_, i int) string {
			if before, _, ok := strings.Cut(s.IDs[i], "_"); ok {
				return before
			}
			return s.IDs[i][:min(10, len(s.IDs[i]))]
		},
		func(_, i int) string { return s.IDs[i][:max(strings.LastIndexAny(s.IDs[i], "_-/:"), 0)] },
		func(at, _ int) string { return s.IDs[comparisons[at-at%each]] },
	}
	var problem error
	for _, rule := range rules {
		var out []tigerSample
		index := map[string]int{}
		for at, i := range comparisons {
			name := rule(at, i)
			g, ok := index[name]
			if !ok {
				g = len(out)
				index[name] = g
				out = append(out, tigerSample{name: name, k: k})
			}
			out[g].comparisons = append(out[g].comparisons, i)
		}
		bad := slices.IndexFunc(out, func(g tigerSample) bool {
			return s.distinct(g) != each ||
				len(g.comparisons) != each
		})
		if bad < 0 {
			return out, nil
		}
		if problem == nil {
			g := out[bad]
			problem = fmt.Errorf("%v: the group %q of %dpair has %d comparisons (%d different): want %d different ones",
				s.places[g.comparisons[0]], g.name, k, len(g.comparisons), s.distinct(g), each)
		}
	}
	return nil, problem
}

func (s *tiger) distinct(g tigerSample) int {
	seen := map[string]bool{}
	for _, i := range g.comparisons {
		l := s.letters[i]
		seen[min(l[0], l[1])+max(l[0], l[1])] = true
	}
	return len(seen)
}

// slotsOf finds a comparison by its id, or all sides of a candidate by its group and letter.
func (s *tiger) slotsOf(k protocol.Key) ([]protocol.Slot, error) {
	if i, ok := s.Index[k.ID]; ok {
		switch k.Model {
		case "":
			return []protocol.Slot{{Pair: i, Side: 0}, {Pair: i, Side: 1}}, nil
		case protocol.Left, s.letters[i][0]:
			return []protocol.Slot{{Pair: i, Side: 0}}, nil
		case protocol.Right, s.letters[i][1]:
			return []protocol.Slot{{Pair: i, Side: 1}}, nil
		}
		return nil, fmt.Errorf("the model %q is not a candidate: want %s or %s", k.Model, s.letters[i][0],
			s.letters[i][1])
	}
	var out []protocol.Slot
	for _, g := range s.samples {
		if g.name != k.ID {
			continue
		}
		for _, i := range g.comparisons {
			for side, letter := range s.letters[i] {
				if letter == k.Model {
					out = append(out, protocol.Slot{Pair: i, Side: side})
				}
			}
		}
	}
	if out == nil {
		return nil, fmt.Errorf("%v is neither a comparison nor a group with a candidate: want an id such as %q", k,
			s.IDs[0])
	}
	return out, nil
}

// Items implements Scorable: every candidate of a group once.
func (s *tiger) Items() ([]*edit.Edit, error) {
	var items []*edit.Edit
	var p protocol.Problems
	for _, g := range s.samples {
		seen := map[string]bool{}
		for _, i := range g.comparisons {
			if s.text[i] == "" {
				p.Add(s.places[i].String(), "instruction is empty")
			}
			for side, letter := range s.letters[i] {
				if !seen[letter] {
					seen[letter] = true
					column := []string{"candidate_1", "candidate_2"}[side]
					it := protocol.NewItem(protocol.Key{ID: g.name, Model: letter}, s.text[i],
						s.places[i].Picture("source_image", -1, s.images), s.places[i].Picture(column, -1, s.images))
					it.Group = fmt.Sprint(g.k, " ", g.name)
					items = append(items, it)
				}
			}
		}
	}
	return items, p.Err()
}

// Read implements Set.
func (s *tiger) Read(path string) (protocol.Predictions, error) {
	j, err := s.ReadPairs(path)
	return newTigerPredictions(s, j), err
}

// Guess implements Guessable.
func (s *tiger) Guess(rng *rand.Rand) protocol.Predictions {
	return newTigerPredictions(s, s.GuessPairs(rng))
}

type tigerPredictions struct {
	*tiger
	j    *protocol.PairPredictions
	runs []*tigerRun // of the samples
}

func newTigerPredictions(s *tiger, j *protocol.PairPredictions) *tigerPredictions {
	t := &tigerPredictions{tiger: s, j: j, runs: make([]*tigerRun, len(s.samples))}
	if j != nil && j.AnyScore {
		for u := range s.samples {
			t.runs[u] = t.run(u)
		}
	}
	return t
}

func (t *tigerPredictions) Units() int { return len(t.sources.Samples) }

func (t *tigerPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(t.sources.Samples[unit], func(u int) bool { return !t.complete(u) })
}

// complete reports whether no prediction of a sample is missing.
func (t *tigerPredictions) complete(u int) bool {
	return !slices.ContainsFunc(t.samples[u].comparisons, func(i int) bool { return !t.has(i) })
}

func (t *tigerPredictions) has(i int) bool { return t.j.HasScores(i) || t.j.Answer[i] != "" }

// predicted returns the verdict on a comparison: from the answer, or from the scores with a tie margin.
func (t *tigerPredictions) predicted(i int, eps float64) string {
	if !t.j.HasScores(i) {
		verdict, _ := tigerVerdict(t.j.Answer[i], t.letters[i][0], t.letters[i][1])
		return verdict
	}
	switch d := t.j.Scores[0][i] - t.j.Scores[1][i]; {
	case math.Abs(d) <= eps:
		return protocol.Tie
	case d > 0:
		return protocol.Left
	}
	return protocol.Right
}

// margin returns the tie margin of K=2.
func (t *tigerPredictions) margin(samples []int) float64 {
	if !math.IsNaN(t.Epsilon) {
		return t.Epsilon
	}
	var comparisons []int
	for _, u := range samples {
		if g := t.samples[u]; g.k == 2 {
			comparisons = append(comparisons, g.comparisons...)
		}
	}
	human, d := t.j.Differences(comparisons)
	eps, _ := protocol.BestMargin(human, d)
	return eps
}

// tally counts the samples of one K, and the comparisons: right ones and all. k = 0 is every K.
type tally struct{ right, n, rightPairs, pairs int }

func (t tally) accuracy() float64 { return float64(t.right) / float64(t.n) }

func (t *tigerPredictions) tally(samples []int, k int, eps float64) tally {
	var out tally
	for _, u := range samples {
		g := t.samples[u]
		if k != 0 && g.k != k || !t.complete(u) {
			continue
		}
		margin := 0.0
		if g.k == 2 {
			margin = eps
		}
		all := true
		for _, i := range g.comparisons {
			ok := t.predicted(i, margin) == t.Human[i]
			all = all && ok
			out.pairs++
			if ok {
				out.rightPairs++
			}
		}
		out.n++
		if all {
			out.right++
		}
	}
	return out
}

// tigerNumbers are the numbers: as defined, and as EditReward's program computes them.
var tigerNumbers = []struct {
	name  string
	k     int
	asRun bool
}{{"k2", 2, false}, {"k3", 3, false}, {"k4", 4, false}, {"overall", 0, false},
	{"k2 as run", 2, true}, {"k3 as run", 3, true}, {"k4 as run", 4, true}, {"overall as run", 0, true}}

// pairwiseAsRun is the program's accuracy of all pairs, with one margin for them all.
const pairwiseAsRun = "pairwise overall as run"

func (t *tigerPredictions) Numbers(units []int) []protocol.Number {
	return t.numbers(t.sources.Of(units))
}

func (t *tigerPredictions) numbers(samples []int) []protocol.Number {
	eps := t.margin(samples)
	var out []protocol.Number
	for _, n := range tigerNumbers {
		if n.asRun && !t.j.AnyScore {
			continue
		}
		number := protocol.Number{Name: n.name}
		if n.asRun {
			number.Value = t.tallyAsRun(samples, n.k, eps).accuracy()
		} else {
			number.Value = t.tally(samples, n.k, eps).accuracy()
		}
		if t.j.AnyScore && (n.k == 0 || n.k == 2) { // the others have no ties
			number.Normalisation = protocol.MarginTerm(&eps, math.IsNaN(t.Epsilon))
		}
		out = append(out, number)
	}
	if t.j.AnyScore {
		eps, accuracy := t.pairwiseAsRun(samples, 0)
		out = append(out, protocol.Number{Name: pairwiseAsRun, Value: accuracy,
			Terms: protocol.Terms{Normalisation: protocol.MarginTerm(&eps, math.IsNaN(t.Epsilon))}})
	}
	return out
}

type tigerRule struct {
	N        int            `json:"n"`
	Accuracy protocol.Value `json:"accuracy"`
	Pairwise protocol.Value `json:"pairwise_accuracy"`
	Epsilon  *float64       `json:"epsilon,omitempty"`
	From     string         `json:"epsilon_from,omitempty"`

	PairwiseEpsilon *float64 `json:"pairwise_epsilon,omitempty"` // of all pairs as run
}

// tigerJSON is the JSON result of TIGER-Lab's EditReward-Bench.
type tigerJSON struct {
	protocol.Common
	Variant   string               `json:"variant"`
	Rules     map[string]tigerRule `json:"rules"`
	Confusion protocol.Confusion   `json:"confusion"`
}

func (t *tigerPredictions) Result() *protocol.Result {
	samples := stats.UpTo(len(t.samples))
	r := &protocol.Result{Numbers: t.numbers(samples), Subset: "TIGER-Lab"}
	for u, g := range t.samples {
		if t.complete(u) {
			r.N++
			continue
		}
		for _, i := range g.comparisons {
			if !t.has(i) {
				r.Missing = append(r.Missing, protocol.Key{ID: t.IDs[i]})
			}
		}
	}
	for i := range r.Numbers {
		k, asRun := 0, true
		if i < len(tigerNumbers) {
			k, asRun = tigerNumbers[i].k, tigerNumbers[i].asRun
		}
		r.Numbers[i].Coverage = protocol.CoverageBy(len(t.samples), func(u int) (protocol.Key, bool, bool) {
			g := t.samples[u]
			return protocol.Key{ID: g.name}, k == 0 || g.k == k, t.complete(u) && !(asRun && t.runs[u] == nil)
		})
	}
	eps := t.margin(samples)
	rules, table, notes := t.rules(samples, eps)
	r.Notes = append(r.Notes, notes...)
	r.Notes = append(r.Notes, protocol.AnswerNotes("", t.j, func(i int) bool {
		_, ok := tigerVerdict(t.j.Answer[i], t.letters[i][0], t.letters[i][1])
		return ok || t.j.HasScores(i)
	})...)
	r.Notes = append(r.Notes, "this is TIGER-Lab's EditReward-Bench (the columns ranking and comparison_type were found)")
	var truth, predicted []string
	for _, g := range t.samples {
		if i := g.comparisons[0]; g.k == 2 && t.has(i) {
			truth, predicted = append(truth, t.Human[i]), append(predicted, t.predicted(i, eps))
		}
	}
	confusion := protocol.NewConfusion("k2", truth, predicted, protocol.ThreeClasses, protocol.ThreeClasses)
	r.Tables, r.Confusions = []protocol.Table{table}, []protocol.Confusion{confusion}
	r.JSON = tigerJSON{r.Common("editreward-bench"), "TIGER-Lab", rules, confusion}
	return r
}

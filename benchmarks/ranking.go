package benchmarks

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// Ranking ranks editors by comparisons of their outputs for the same samples.
type Ranking struct {
	Of        string          `json:"of"` // the number that outputs are compared by, or "votes"
	Units     int             `json:"units"`
	Editors   []RankedEditor  `json:"editors"` // the strongest first
	Human     *HumanAgreement `json:"human,omitempty"`
	Resamples int             `json:"resamples"`
	Seed      uint64          `json:"seed"`
	Notes     []string        `json:"notes,omitempty"`
}

// RankedEditor is one editor of a ranking.
type RankedEditor struct {
	Name     string `json:"name"`
	Strength Value  `json:"strength"` // Bradley-Terry, mean 0: a difference of 1 wins 73 of 100 comparisons
	Low      Value  `json:"low"`      // 95 % percentile interval over units
	High     Value  `json:"high"`
	Wins     int    `json:"wins"`
	Ties     int    `json:"ties"`
	Losses   int    `json:"losses"`
	Given    *Value `json:"human,omitempty"` // the value of a given ranking
}

// HumanAgreement is the rank correlation of the strengths with a given ranking, over the editors that both have.
type HumanAgreement struct {
	Editors  int   `json:"editors"`
	Spearman Value `json:"spearman"`
	Kendall  Value `json:"kendall_tau_b"`
	Low      Value `json:"spearman_low"` // 95 % percentile interval over units
	High     Value `json:"spearman_high"`
}

// comparisonOf is one comparison within a unit: how i did against j, 1, 0 (tie) or -1.
type comparisonOf struct{ i, j, outcome int }

// Contest is comparisons of editors in units that are independent: samples, or votes.
type Contest struct {
	of      string
	editors []string
	units   [][]comparisonOf
	notes   []string
}

func (c *Contest) editor(name string) int {
	if i := slices.Index(c.editors, name); i >= 0 {
		return i
	}
	c.editors = append(c.editors, name)
	return len(c.editors) - 1
}

// ReadScores reads lines of {id, model, NUMBER} of files, as runs write them, and compares all editors of a sample by
// the number. lower says that less is better, as it is of the distances that benchmarks know.
func ReadScores(paths []string, number string, lower bool) (*Contest, error) {
	c := &Contest{of: number}
	lower = lower || slices.ContainsFunc(All(), func(b *Benchmark) bool { return b.Direction(number) < 0 })
	if lower {
		c.notes = append(c.notes, "less of "+number+" is better")
	}
	samples, order, seen := map[string]map[int]float64{}, []string{}, map[string]bool{}
	var p problems
	var judge oneRun
	for _, path := range paths {
		rows, err := readRows(path)
		if err != nil {
			return nil, err
		}
		run, err := runOf(path)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			said, err := measuredBy(r, number, run)
			if err := cmp.Or(err, judge.check(number, said)); err != nil {
				p.add(r.where, "%v", err)
				continue
			}
			id, err1 := r.id(r.first("sample", "id"))
			name, err2 := r.text(r.first("model", "method", "editor"))
			v, err3 := r.number(number)
			if err := cmp.Or(err1, err2, err3); err != nil {
				p.add(r.where, "%v", err)
				continue
			}
			if samples[id] == nil {
				samples[id], order = map[int]float64{}, append(order, id)
			}
			i := c.editor(name)
			key := fmt.Sprintf("%d %s", i, id)
			if seen[key] { // also where one of both is null
				p.add(r.where, "a second value of %s for %s", id, name)
			}
			seen[key] = true
			if lower {
				v = -v
			}
			if !math.IsNaN(v) {
				samples[id][i] = v
			}
		}
	}
	c.compare(order, samples)
	if lacking := len(order) - len(c.units); lacking > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%d of %d samples have one editor only, and compare nothing", lacking,
			len(order)))
	}
	c.noteParts(samples)
	return c, p.err()
}

// compare makes a unit of each sample: all pairs of editors that have a value of it.
func (c *Contest) compare(order []string, samples map[string]map[int]float64) {
	for _, id := range order {
		var unit []comparisonOf
		for i := range c.editors {
			for j := range i {
				a, okA := samples[id][i]
				b, okB := samples[id][j]
				if okA && okB {
					unit = append(unit, comparisonOf{i, j, sign(a - b)})
				}
			}
		}
		if len(unit) > 0 {
			c.units = append(c.units, unit)
		}
	}
}

// noteParts notes which editors have a number for a part of the samples alone.
func (c *Contest) noteParts(samples map[string]map[int]float64) {
	for i, name := range c.editors {
		n := 0
		for _, s := range samples {
			if _, ok := s[i]; ok {
				n++
			}
		}
		if n < len(samples) {
			c.notes = append(c.notes, fmt.Sprintf("%s has %s for %d of %d samples, and is compared on these alone", name, c.of,
				n, len(samples)))
		}
	}
}

// measuredBy is what measured a number of a line: what the line says, or the run that wrote its file.
func measuredBy(r row, number, run string) (string, error) {
	if !r.has("by") {
		return run, nil
	}
	said, err := r.object("by")
	if err != nil {
		return "", err
	}
	return cmp.Or(said[number], run), nil
}

// sideOf reads who won: 1 the first, -1 the second, 0 neither. A name of one of the two comes before the words for
// sides. A word that is the name of the one and the side of the other is an error.
func sideOf(vote, first, second string, words [3][]string) (int, error) {
	named := map[bool]int{true: 1}[vote == first] - map[bool]int{true: 1}[vote == second]
	for k, side := range []int{1, -1, 0} {
		if !slices.Contains(words[k], vote) {
			continue
		}
		if named != 0 && named != side {
			return 0, fmt.Errorf("%q is the name of one of %q and %q, and a word for something else: rename it", vote, first,
				second)
		}
		return side, nil
	}
	if named == 0 {
		return 0, fmt.Errorf("%q: %q, %q, left, right or tie was expected", vote, first, second)
	}
	return named, nil
}

// voteWords are the words for the first, the second and neither that votes may have.
var voteWords = [3][]string{{"left", "a", "model_a", "leftvote"}, {"right", "b", "model_b", "rightvote"},
	{"tie", "tievote", "bothbad_vote", "tie (bothbad)"}}

// ReadVotes reads lines of {left, right, winner}, names of editors, winner being one of them, left, right or tie.
func ReadVotes(path string) (*Contest, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	c := &Contest{of: "votes"}
	var p problems
	for _, r := range rows {
		a, err1 := r.text(r.first("left", "a", "model_a", "left_model"))
		b, err2 := r.text(r.first("right", "b", "model_b", "right_model"))
		winner, err3 := r.text(r.first("winner", "vote_type"))
		if err := cmp.Or(err1, err2, err3); err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		if a == b {
			p.add(r.where, "%q is compared with itself", a)
			continue
		}
		outcome, err := sideOf(winner, a, b, voteWords)
		if err != nil {
			p.add(r.where, "winner is %v", err)
			continue
		}
		c.units = append(c.units, []comparisonOf{{c.editor(a), c.editor(b), outcome}})
	}
	return c, p.err()
}

// wins counts over units; a tie is half a win of either.
func (c *Contest) wins(units []int) [][]float64 {
	w := make([][]float64, len(c.editors))
	for i := range w {
		w[i] = make([]float64, len(c.editors))
	}
	for _, u := range units {
		for _, m := range c.units[u] {
			half := float64(m.outcome) / 2
			w[m.i][m.j] += 0.5 + half
			w[m.j][m.i] += 0.5 - half
		}
	}
	return w
}

// strengthError is what strengths may be off by: editors of equal records have equal ones but for that, and a rank
// correlation must not go by it.
const strengthError = 1e-8

// Rank ranks the editors. given (may be nil) are values of a ranking by people, more being better.
func (c *Contest) Rank(given map[string]float64, resamples int, seed uint64) (*Ranking, error) {
	if len(c.editors) < 2 || len(c.units) == 0 {
		return nil, errors.New("there are no two editors to compare")
	}
	all := make([]int, len(c.units))
	for u := range all {
		all[u] = u
	}
	strengths := stats.Settle(stats.BradleyTerry(c.wins(all)), strengthError)
	r := &Ranking{Of: c.of, Units: len(all), Resamples: resamples, Seed: seed, Notes: c.notes}
	if math.IsNaN(strengths[0]) {
		r.Notes = append(r.Notes, "there are no strengths: "+c.without())
	}
	intervals := stats.Bootstrap(stats.NewRand(seed), len(all), resamples, 0.95, func(units []int) []float64 {
		s := stats.Settle(stats.BradleyTerry(c.wins(units)), strengthError)
		return append(s, c.agreement(s, given))
	})
	if n := intervals; len(n) > 0 && n[0].Undefined > 0 && !math.IsNaN(strengths[0]) {
		r.Notes = append(r.Notes, undefined(n[0].Undefined, resamples, "strengths")+" (in them an editor, or several "+
			"against all others, won or lost every comparison)")
	}
	for i, name := range c.editors {
		e := RankedEditor{Name: name, Strength: Value(strengths[i]), Low: Value(math.NaN()), High: Value(math.NaN())}
		if resamples > 0 && !math.IsNaN(strengths[i]) {
			e.Low, e.High = Value(intervals[i].Low), Value(intervals[i].High)
		}
		if v, ok := given[name]; ok {
			of := Value(v)
			e.Given = &of
		}
		c.count(i, &e)
		r.Editors = append(r.Editors, e)
	}
	slices.SortStableFunc(r.Editors, func(a, b RankedEditor) int { return cmp.Compare(b.Strength, a.Strength) })
	if given == nil {
		return r, nil
	}
	x, y := c.both(strengths, given)
	if len(x) < 2 {
		return nil, fmt.Errorf("the given ranking has %d of the editors %v: at least two were expected", len(x), c.editors)
	}
	if only := len(given) - len(x); only > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d editors of the given ranking were not compared, and do not count",
			only, len(given)))
	}
	r.Human = &HumanAgreement{Editors: len(x), Spearman: Value(c.agreement(strengths, given)),
		Kendall: Value(math.NaN()), Low: Value(math.NaN()), High: Value(math.NaN())}
	if !math.IsNaN(strengths[0]) {
		r.Human.Kendall = Value(stats.KendallB(x, y))
		if resamples > 0 {
			in := intervals[len(c.editors)]
			r.Human.Low, r.Human.High = Value(in.Low), Value(in.High)
		}
	}
	return r, nil
}

// without says why there are no strengths: editors that were never compared, not even by way of others, or such that
// won, or lost, every comparison with all others.
func (c *Contest) without() string {
	together := map[int]int{} // by editor: the first one that it was compared with, also by way of others
	for i := range c.editors {
		together[i] = i
	}
	for _, unit := range c.units {
		for _, m := range unit {
			from, to := max(together[m.i], together[m.j]), min(together[m.i], together[m.j])
			for i, first := range together {
				if first == from {
					together[i] = to
				}
			}
		}
	}
	groups := map[int][]string{}
	for i, name := range c.editors {
		groups[together[i]] = append(groups[together[i]], name)
	}
	if len(groups) == 1 {
		return "an editor, or several against all others, won or lost every comparison"
	}
	var apart []string
	for i := range c.editors {
		if names := groups[i]; len(names) > 0 {
			apart = append(apart, strings.Join(names, ", "))
		}
	}
	return "these editors were never compared with the others, not even by way of some: " + strings.Join(apart, " | ") +
		"; rank each group by itself"
}

// count counts what became of an editor's comparisons.
func (c *Contest) count(editor int, e *RankedEditor) {
	for _, unit := range c.units {
		for _, m := range unit {
			outcome := m.outcome
			switch editor {
			case m.i:
			case m.j:
				outcome = -outcome
			default:
				continue
			}
			switch outcome {
			case 1:
				e.Wins++
			case 0:
				e.Ties++
			default:
				e.Losses++
			}
		}
	}
}

// both are the strengths and the given values of the editors that have both.
func (c *Contest) both(strengths []float64, given map[string]float64) (x, y []float64) {
	for i, name := range c.editors {
		if v, ok := given[name]; ok {
			x, y = append(x, strengths[i]), append(y, v)
		}
	}
	return x, y
}

// agreement is Spearman's correlation of strengths with given values, NaN if there are none.
func (c *Contest) agreement(strengths []float64, given map[string]float64) float64 {
	x, y := c.both(strengths, given)
	if len(x) < 2 || slices.ContainsFunc(x, math.IsNaN) {
		return math.NaN()
	}
	return stats.Spearman(x, y)
}

// ReadGiven reads a ranking of editors by people: lines of {model, score}, more being better, or {model, rank}, 1 being
// the best.
func ReadGiven(path string) (map[string]float64, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	by := "score"
	if slices.ContainsFunc(rows, func(r row) bool { return r.has("rank") }) {
		by = "rank"
	}
	var p problems
	for _, r := range rows {
		name, err := r.text(r.first("model", "method", "editor"))
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		v, err := r.number(by)
		if by == "rank" {
			if v = -v; r.has("score") {
				err = errors.New("it has a score, and the file has ranks: one of both was expected in all lines")
			}
		}
		if _, twice := out[name]; err == nil && (twice || math.IsNaN(v)) {
			err = fmt.Errorf("one number of %s was expected", name)
		}
		if err != nil {
			p.add(r.where, "%v", err)
		}
		out[name] = v
	}
	return out, p.err()
}

// Table is the ranking as a table.
func (r *Ranking) Table() Table {
	t := Table{Title: "editors by " + r.Of, Columns: []string{"strength", "wins", "ties", "losses"}, Notes: r.Notes,
		Better: []int{1}}
	human := slices.ContainsFunc(r.Editors, func(e RankedEditor) bool { return e.Given != nil })
	if human {
		t.Columns = append(t.Columns, "given")
	}
	nothing := stats.Interval{Low: math.NaN(), High: math.NaN()}
	for _, e := range r.Editors {
		row := TableRow{Name: e.Name,
			Cells:  []float64{float64(e.Strength), float64(e.Wins), float64(e.Ties), float64(e.Losses)},
			Text:   []string{"", fmt.Sprint(e.Wins), fmt.Sprint(e.Ties), fmt.Sprint(e.Losses)},
			Bounds: []stats.Interval{{Low: float64(e.Low), High: float64(e.High)}, nothing, nothing, nothing}}
		if human {
			v := math.NaN()
			if e.Given != nil {
				v = float64(*e.Given)
			}
			row.Cells, row.Text, row.Bounds = append(row.Cells, v), append(row.Text, ""), append(row.Bounds, nothing)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

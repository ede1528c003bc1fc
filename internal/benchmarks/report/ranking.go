package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// Ranking ranks editors by comparisons of their outputs for the same samples.
type Ranking struct {
	Of        string          `json:"of"` // the number that outputs are compared by, or "votes"
	Units     int             `json:"units"`
	Editors   []rankedEditor  `json:"editors"` // the strongest first
	Human     *humanAgreement `json:"human,omitempty"`
	Resamples int             `json:"resamples"`
	Seed      uint64          `json:"seed"`
	Notes     []string        `json:"notes,omitempty"`
}

// rankedEditor is one editor of a ranking.
type rankedEditor struct {
	Name     string          `json:"name"`
	Strength protocol.Value  `json:"strength"` // Bradley-Terry, mean 0: a difference of 1 wins 73 of 100 comparisons
	Low      protocol.Value  `json:"low"`      // 95 % percentile interval over units
	High     protocol.Value  `json:"high"`
	Wins     int             `json:"wins"`
	Ties     int             `json:"ties"`
	Losses   int             `json:"losses"`
	Given    *protocol.Value `json:"human,omitempty"` // the value of a given ranking
}

// humanAgreement is the rank correlation of the strengths with a given ranking, over the editors that both have.
type humanAgreement struct {
	Editors  int            `json:"editors"`
	Spearman protocol.Value `json:"spearman"`
	Kendall  protocol.Value `json:"kendall_tau_b"`
	Low      protocol.Value `json:"spearman_low"` // 95 % percentile interval over units
	High     protocol.Value `json:"spearman_high"`
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

// strengthError is the numerical error of strengths: editors with equal records have equal strengths up to it, and a
// rank correlation must not depend on it.
const strengthError = 1e-8

// Rank ranks the editors. given (may be nil) are values of a human ranking, more being better.
func (c *Contest) Rank(given map[string]float64, resamples int, seed uint64) (*Ranking, error) {
	if len(c.editors) < 2 || len(c.units) == 0 {
		return nil, errors.New("there are fewer than two editors to compare")
	}
	all := stats.UpTo(len(c.units))
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
		e := rankedEditor{Name: name, Strength: protocol.Value(strengths[i]), Low: protocol.Value(math.NaN()),
			High: protocol.Value(math.NaN())}
		if resamples > 0 && !math.IsNaN(strengths[i]) {
			e.Low, e.High = protocol.Value(intervals[i].Low), protocol.Value(intervals[i].High)
		}
		if v, ok := given[name]; ok {
			of := protocol.Value(v)
			e.Given = &of
		}
		c.count(i, &e)
		r.Editors = append(r.Editors, e)
	}
	slices.SortStableFunc(r.Editors, func(a, b rankedEditor) int { return cmp.Compare(b.Strength, a.Strength) })
	if given == nil {
		return r, nil
	}
	x, y := c.both(strengths, given)
	if len(x) < 2 {
		return nil, fmt.Errorf("the given ranking has %d of the editors %v: want at least two", len(x),
			c.editors)
	}
	if only := len(given) - len(x); only > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d editors of the given ranking were not compared, and do not count",
			only, len(given)))
	}
	r.Human = &humanAgreement{Editors: len(x), Spearman: protocol.Value(c.agreement(strengths, given)),
		Kendall: protocol.Value(math.NaN()), Low: protocol.Value(math.NaN()), High: protocol.Value(math.NaN())}
	if !math.IsNaN(strengths[0]) {
		r.Human.Kendall = protocol.Value(stats.KendallB(x, y))
		if resamples > 0 {
			in := intervals[len(c.editors)]
			r.Human.Low, r.Human.High = protocol.Value(in.Low), protocol.Value(in.High)
		}
	}
	return r, nil
}

// without returns why there are no strengths: some editors were never compared, not even indirectly, or won or lost
// every comparison with all others.
func (c *Contest) without() string {
	together := map[int]int{} // by editor: the first one that it was compared with, directly or indirectly
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
	return "these editors were never compared with the others, not even indirectly: " + strings.Join(apart, " | ") +
		"; rank each group separately"
}

// count counts an editor's wins, ties and losses.
func (c *Contest) count(editor int, e *rankedEditor) {
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

// both returns the strengths and the given values of the editors that have both.
func (c *Contest) both(strengths []float64, given map[string]float64) (x, y []float64) {
	for i, name := range c.editors {
		if v, ok := given[name]; ok {
			x, y = append(x, strengths[i]), append(y, v)
		}
	}
	return x, y
}

// agreement returns Spearman's correlation of strengths with given values, NaN if there are none.
func (c *Contest) agreement(strengths []float64, given map[string]float64) float64 {
	x, y := c.both(strengths, given)
	if len(x) < 2 || slices.ContainsFunc(x, math.IsNaN) {
		return math.NaN()
	}
	return stats.Spearman(x, y)
}

// Table returns the ranking as a table.
func (r *Ranking) Table() protocol.Table {
	t := protocol.Table{Title: "editors by " + r.Of, Columns: []string{"strength", "wins", "ties", "losses"},
		Notes:  r.Notes,
		Better: []int{1}}
	human := slices.ContainsFunc(r.Editors, func(e rankedEditor) bool { return e.Given != nil })
	if human {
		t.Columns = append(t.Columns, "given")
	}
	for _, e := range r.Editors {
		row := protocol.TableRow{Name: e.Name, Cells: []protocol.Cell{
			{Value: float64(e.Strength), Bounds: &stats.Interval{Low: float64(e.Low), High: float64(e.High)}},
			protocol.Count(e.Wins), protocol.Count(e.Ties), protocol.Count(e.Losses)}}
		if e.Given != nil {
			row.Cells = append(row.Cells, protocol.Cell{Value: float64(*e.Given)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

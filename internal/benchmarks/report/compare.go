package report

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// difference is the difference of one system's number from the reference's, with a paired bootstrap interval.
type difference struct {
	System     string         `json:"system"`
	Against    string         `json:"against"`
	Number     string         `json:"number"`
	Difference protocol.Value `json:"difference"` // System's minus Against's, on the units that both have
	Low        protocol.Value `json:"low"`        // 95 % percentile interval
	High       protocol.Value `json:"high"`

	Undefined int `json:"undefined_resamples,omitempty"` // in which one of them has no such number
}

// Comparison puts several systems into one table.
type Comparison struct {
	Units       int          `json:"units"` // sources, pairs or samples that every system has predictions for
	AllUnits    int          `json:"all_units"`
	Resamples   int          `json:"resamples"`
	Seed        uint64       `json:"seed"`
	Differences []difference `json:"differences"`
	Notes       []string     `json:"notes,omitempty"`
	Duels       []duelResult `json:"who_wins_where,omitempty"` // of benchmarks of editors
}

// errNothingCommon means that no unit has predictions of all systems.
var errNothingCommon = errors.New("no source, pair or sample has predictions in every file")

// aligned is predictions with their units in the order of another file's.
type aligned struct {
	protocol.Predictions
	at []int // the unit of each unit of the other file; -1: there is none
}

// Units implements Predictions.
func (a aligned) Units() int { return len(a.at) }

// Complete implements Predictions.
func (a aligned) Complete(unit int) bool {
	return a.at[unit] >= 0 && a.Predictions.Complete(a.at[unit])
}

// Numbers implements Predictions.
func (a aligned) Numbers(units []int) []protocol.Number {
	mine := make([]int, len(units))
	for k, u := range units {
		mine[k] = a.at[u]
	}
	return a.Predictions.Numbers(mine)
}

// align puts the units of all systems in the order of the first one's, if they have names.
func align(systems []protocol.Predictions) []protocol.Predictions {
	first, ok := systems[0].(protocol.Named)
	if !ok {
		return systems
	}
	out := slices.Clone(systems)
	names := first.UnitNames()
	mine := places(names)
	for k, s := range systems[1:] {
		other, ok := s.(protocol.Named)
		if !ok {
			continue
		}
		theirs := places(other.UnitNames())
		a := aligned{Predictions: s}
		for _, name := range names {
			at, both := theirs[name]
			if _, one := mine[name]; !one || !both {
				at = -1
			}
			a.at = append(a.at, at)
		}
		out[1+k] = a
	}
	return out
}

// places returns the index of each name that occurs once.
func places(names []string) map[string]int {
	at, count := map[string]int{}, map[string]int{}
	for i, name := range names {
		at[name] = i
		count[name]++
	}
	maps.DeleteFunc(at, func(name string, _ int) bool { return count[name] > 1 })
	return at
}

// compare compares systems with the first one, on the units that all of them have predictions for. It is a paired
// bootstrap: each of the resamples draws units once and computes every system's numbers on them.
func compare(names []string, systems []protocol.Predictions, resamples int, seed uint64) (*Comparison, error) {
	if len(systems) < 2 {
		return nil, errors.New("two or more files of predictions are needed for a comparison")
	}
	if resamples < 1 {
		return nil, fmt.Errorf("%d resamples: want at least one", resamples)
	}
	systems = align(systems)
	common := commonUnits(systems)
	c := &Comparison{Units: len(common), AllUnits: systems[0].Units(), Resamples: resamples, Seed: seed}
	if c.Units == 0 {
		return nil, errNothingCommon
	}
	if c.Units < c.AllUnits {
		c.Notes = append(c.Notes,
			fmt.Sprintf("compared on %d of %d units: the others lack predictions in some file", c.Units, c.AllUnits))
	}
	pairs := c.addDifferences(names, systems, common)
	drawn := make([]int, len(common))
	intervals := stats.Bootstrap(stats.NewRand(seed), len(common), resamples, 0.95, func(units []int) []float64 {
		for i, u := range units {
			drawn[i] = common[u]
		}
		numbers := make([][]protocol.Number, len(systems))
		for s, system := range systems {
			numbers[s] = system.Numbers(drawn)
		}
		out := make([]float64, len(pairs))
		for i, p := range pairs {
			out[i] = valueOf(p.number, numbers[p.system]) - valueOf(p.number, numbers[0])
		}
		return out
	})
	var lacking grouped[string, lackingDraws]
	for i, in := range intervals {
		d := &c.Differences[i]
		d.Low, d.High, d.Undefined = protocol.Value(in.Low), protocol.Value(in.High), in.Undefined
		if in.Undefined > 0 {
			lacking.add(d.System, lackingDraws{in.Undefined, "difference in " + d.Number})
		}
	}
	for _, name := range lacking.order {
		c.Notes = append(c.Notes, undefinedNotes(lacking.of[name], resamples, name)...)
	}
	if len(c.Differences) == 0 {
		c.Notes = append(c.Notes, "no number applies to two of the files: they contain predictions of different kinds")
	}
	return c, nil
}

// undefined returns a note that some resamples lack a number.
func undefined(without, resamples int, what string) string {
	if without == resamples {
		return fmt.Sprintf("none of %d resamples has the %s: it has no interval", resamples, what)
	}
	return fmt.Sprintf("%d of %d resamples have no %s: its interval covers the others", without, resamples, what)
}

// commonUnits returns the units that all systems have predictions for.
func commonUnits(systems []protocol.Predictions) (common []int) {
	for u := range systems[0].Units() {
		lacks := func(s protocol.Predictions) bool { return u >= s.Units() || !s.Complete(u) }
		if !slices.ContainsFunc(systems, lacks) {
			common = append(common, u)
		}
	}
	return common
}

// comparedNumber is a number that both a system and the first system have. It is found by name, as a resample may lack
// some numbers.
type comparedNumber struct {
	system int
	number string
}

// addDifferences adds the differences on the common units, without intervals, and returns the numbers compared.
func (c *Comparison) addDifferences(names []string, systems []protocol.Predictions,
	common []int) (compared []comparedNumber) {
	reference := systems[0].Numbers(common)
	var apart grouped[string, string]
	for s := 1; s < len(systems); s++ {
		for _, n := range systems[s].Numbers(common) {
			at := slices.IndexFunc(reference, func(r protocol.Number) bool { return r.Name == n.Name })
			if at < 0 {
				continue
			}
			one, other := protocol.Basis{Rule: n.Name, Terms: n.Terms}, protocol.Basis{Rule: n.Name,
				Terms: reference[at].Terms}
			if why := one.Differs(other); why != "" {
				apart.add(why, fmt.Sprintf("%s of %s and of %s are not compared", n.Name, names[s], names[0]))
				continue
			}
			compared = append(compared, comparedNumber{s, n.Name})
			c.Differences = append(c.Differences, difference{
				System:     names[s],
				Against:    names[0],
				Number:     n.Name,
				Difference: protocol.Value(n.Value - reference[at].Value),
			})
		}
	}
	c.Notes = append(c.Notes, lines(&apart)...)
	return compared
}

// valueOf returns the number with a name; NaN if there is none, as for a part of the benchmark that a resample lacks.
func valueOf(name string, numbers []protocol.Number) float64 {
	for _, n := range numbers {
		if n.Name == name {
			return n.Value
		}
	}
	return math.NaN()
}

// Table returns the comparison as a table.
func (c *Comparison) Table() protocol.Table {
	t := protocol.Table{Title: fmt.Sprintf("differences, 95 %% intervals of %d paired resamples of %d units (seed %d)",
		c.Resamples, c.Units, c.Seed),
		Columns: []string{"difference", "low", "high"}, Mixed: true}
	for _, d := range c.Differences {
		t.Rows = append(t.Rows, protocol.TableRow{Name: fmt.Sprintf("%s: %s - %s", d.Number, d.System, d.Against),
			Cells: protocol.Cells(float64(d.Difference), float64(d.Low), float64(d.High))})
	}
	return t
}

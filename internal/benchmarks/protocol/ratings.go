package protocol

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// Ratings are rated items, each with one human value, that want one score each.
type Ratings struct {
	Keys      []Key
	Human     []float64
	Group     []int // of the item: the method of a correlation per method
	Names     []string
	UnitItems [][]int  // items of each unit of resampling
	Truth     string   // what the human values are called, "" for "human"
	Notes     []string // on the data
}

// ReadScores reads lines of {id, model, field: number} into one score per item, NaN where missing. find returns the
// item of an id and model, or says what would have been right; ignored (nil for none) leaves lines out.
func ReadScores(
	path string, n int, fields []string, find func(Key) (int, error), ignored func(Key) bool,
) ([]float64, error) {
	rows, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	field := fields[len(fields)-1]
	for _, f := range fields { // a null in the first line does not make another number of it
		if slices.ContainsFunc(rows, func(r Line) bool { return r.Has(f) }) {
			field = f
			break
		}
	}
	scores := slices.Repeat([]float64{math.NaN()}, n)
	seen := map[int]string{}
	var p Problems
	for _, r := range rows {
		id, err := r.ID("id")
		if err != nil {
			p.Add(r.Where, "%v", err)
			continue
		}
		key := Key{ID: id}
		if r.Has("model") {
			if key.Model, err = r.Text("model"); err != nil {
				p.Add(r.Where, "%v", err)
				continue
			}
		}
		if ignored != nil && ignored(key) {
			continue
		}
		i, err := find(key)
		if err != nil {
			p.Add(r.Where, "%v", err)
			continue
		}
		if first, ok := seen[i]; ok {
			p.Add(r.Where, "a second prediction for %v (the first is in %s): one was expected", key, first)
			continue
		}
		seen[i] = r.Where
		if scores[i], err = r.Number(field); err != nil {
			p.Add(r.Where, "%v", err)
		}
	}
	return scores, p.Err()
}

// Missing lists the items without a score.
func (s *Ratings) Missing(scores []float64) []Key {
	var missing []Key
	for i, k := range s.Keys {
		if math.IsNaN(scores[i]) {
			missing = append(missing, k)
		}
	}
	return missing
}

// AllUnits returns the numbers of all units.
func (s *Ratings) AllUnits() []int {
	units := make([]int, len(s.UnitItems))
	for i := range units {
		units[i] = i
	}
	return units
}

// HasAll reports whether all items of a unit have a score.
func (s *Ratings) HasAll(scores []float64, unit int) bool {
	return !slices.ContainsFunc(s.UnitItems[unit], func(i int) bool { return math.IsNaN(scores[i]) })
}

// Correlations returns Spearman's correlation of each group, and over all items together.
func (s *Ratings) Correlations(scores []float64, units []int) (groups []float64, global float64) {
	x, y := make([][]float64, len(s.Names)), make([][]float64, len(s.Names))
	var gx, gy []float64
	for _, u := range units {
		for _, i := range s.UnitItems[u] {
			if math.IsNaN(scores[i]) {
				continue
			}
			if g := s.Group[i]; g >= 0 {
				x[g], y[g] = append(x[g], scores[i]), append(y[g], s.Human[i])
			}
			gx, gy = append(gx, scores[i]), append(gy, s.Human[i])
		}
	}
	groups = make([]float64, len(s.Names))
	for g := range groups {
		groups[g] = stats.Spearman(x[g], y[g])
	}
	return groups, stats.Spearman(gx, gy)
}

// Over says which groups' correlations a mean is of, by their names, where some are undefined. what is a group's kind.
func (s *Ratings) Over(rho []float64, what string) Terms {
	var has, lacks []string
	for g, v := range rho {
		if math.IsNaN(v) {
			lacks = append(lacks, s.Names[g])
		} else {
			has = append(has, s.Names[g])
		}
	}
	if len(lacks) == 0 {
		return Terms{}
	}
	names := "without " + strings.Join(lacks, ", ")
	if len(has) < len(lacks) && len(has) > 0 {
		names = "only " + strings.Join(has, ", ")
	}
	return Terms{Over: fmt.Sprintf("the mean over %d of %d %s (%s)", len(has), len(rho), what, names)}
}

// Defined drops undefined values.
func Defined(x []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(x), math.IsNaN)
}

// Scatters plots scores against human values, a plot for each group.
func (s *Ratings) Scatters(scores []float64) []Scatter {
	out := make([]Scatter, len(s.Names))
	for g, name := range s.Names {
		out[g].Title = name
	}
	if len(out) == 0 {
		out = []Scatter{{Title: "all items"}}
	}
	for i, v := range scores {
		if g := max(s.Group[i], 0); !math.IsNaN(v) {
			out[g].Score, out[g].Human = append(out[g].Score, v), append(out[g].Human, s.Human[i])
		}
	}
	return out
}

// Examples picks the items on which predicted and human rank agree best and worst. Of equal agreement the outermost
// human values come first: they say most.
func (s *Ratings) Examples(scores []float64, each int, show func(i int) ([]CaptionedPicture, string)) []Example {
	var with []int
	for i, v := range scores {
		if !math.IsNaN(v) {
			with = append(with, i)
		}
	}
	if len(with) < 2 {
		return nil
	}
	var x, y []float64
	for _, i := range with {
		x, y = append(x, scores[i]), append(y, s.Human[i])
	}
	rx, ry := stats.Ranks(x), stats.Ranks(y)
	middle := float64(len(with)+1) / 2
	order := make([]int, len(with))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(math.Abs(rx[a]-ry[a]), math.Abs(rx[b]-ry[b])),
			cmp.Compare(math.Abs(ry[b]-middle), math.Abs(ry[a]-middle)))
	})
	var out []Example
	add := func(kind string, k int) {
		i := with[k]
		e := Example{Kind: kind, Text: fmt.Sprintf("%v: score %.4g, %s %.4g (ranks %.0f and %.0f of %d)",
			s.Keys[i], x[k], cmp.Or(s.Truth, "human"), y[k], rx[k], ry[k], len(with))}
		e.Pictures, e.Instruction = show(i)
		out = append(out, e)
	}
	for k := range min(each, len(order)/2) {
		add("agrees", order[k])
	}
	for k := range min(each, len(order)/2) {
		add("disagrees", order[len(order)-1-k])
	}
	return out
}

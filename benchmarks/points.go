package benchmarks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// points are rated items, each with one human value, that want one score each.
type points struct {
	keys  []Key
	human []float64
	group []int // of the item: the method of a correlation per method
	names []string
	units [][]int  // items of each unit of resampling
	truth string   // what the human values are called, "" for "human"
	notes []string // on the data
}

// readScores reads lines of {id, model, field: number} into one score per item, NaN where missing. find returns the
// item of an id and model, or says what would have been right; ignored (nil for none) leaves lines out.
func readScores(
	path string, n int, fields []string, find func(Key) (int, error), ignored func(Key) bool,
) ([]float64, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	field := fields[len(fields)-1]
	for _, f := range fields { // a null in the first line does not make another number of it
		if slices.ContainsFunc(rows, func(r row) bool { return r.has(f) }) {
			field = f
			break
		}
	}
	scores := slices.Repeat([]float64{math.NaN()}, n)
	seen := map[int]string{}
	var p problems
	for _, r := range rows {
		id, err := r.id("id")
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		key := Key{ID: id}
		if r.has("model") {
			if key.Model, err = r.text("model"); err != nil {
				p.add(r.where, "%v", err)
				continue
			}
		}
		if ignored != nil && ignored(key) {
			continue
		}
		i, err := find(key)
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		if first, ok := seen[i]; ok {
			p.add(r.where, "a second prediction for %v (the first is in %s): one was expected", key, first)
			continue
		}
		seen[i] = r.where
		if scores[i], err = r.number(field); err != nil {
			p.add(r.where, "%v", err)
		}
	}
	return scores, p.err()
}

func (s *points) missing(scores []float64) []Key {
	var missing []Key
	for i, k := range s.keys {
		if math.IsNaN(scores[i]) {
			missing = append(missing, k)
		}
	}
	return missing
}

func (s *points) all() []int {
	units := make([]int, len(s.units))
	for i := range units {
		units[i] = i
	}
	return units
}

func (s *points) complete(scores []float64, unit int) bool {
	return !slices.ContainsFunc(s.units[unit], func(i int) bool { return math.IsNaN(scores[i]) })
}

// correlations returns Spearman's correlation of each group, and over all items together.
func (s *points) correlations(scores []float64, units []int) (groups []float64, global float64) {
	x, y := make([][]float64, len(s.names)), make([][]float64, len(s.names))
	var gx, gy []float64
	for _, u := range units {
		for _, i := range s.units[u] {
			if math.IsNaN(scores[i]) {
				continue
			}
			if g := s.group[i]; g >= 0 {
				x[g], y[g] = append(x[g], scores[i]), append(y[g], s.human[i])
			}
			gx, gy = append(gx, scores[i]), append(gy, s.human[i])
		}
	}
	groups = make([]float64, len(s.names))
	for g := range groups {
		groups[g] = stats.Spearman(x[g], y[g])
	}
	return groups, stats.Spearman(gx, gy)
}

// over says which groups' correlations a mean is of, by their names, where some are undefined. what is a group's kind.
func (s *points) over(rho []float64, what string) Terms {
	var has, lacks []string
	for g, v := range rho {
		if math.IsNaN(v) {
			lacks = append(lacks, s.names[g])
		} else {
			has = append(has, s.names[g])
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

// defined drops undefined values.
func defined(x []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(x), math.IsNaN)
}

func (s *points) scatters(scores []float64) []Scatter {
	out := make([]Scatter, len(s.names))
	for g, name := range s.names {
		out[g].Title = name
	}
	if len(out) == 0 {
		out = []Scatter{{Title: "all items"}}
	}
	for i, v := range scores {
		if g := max(s.group[i], 0); !math.IsNaN(v) {
			out[g].Score, out[g].Human = append(out[g].Score, v), append(out[g].Human, s.human[i])
		}
	}
	return out
}

// examples picks the items on which predicted and human rank agree best and worst. Of equal agreement the outermost
// human values come first: they say most.
func (s *points) examples(scores []float64, each int, show func(i int) ([]CaptionedPicture, string)) []Example {
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
		x, y = append(x, scores[i]), append(y, s.human[i])
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
			s.keys[i], x[k], cmp.Or(s.truth, "human"), y[k], rx[k], ry[k], len(with))}
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

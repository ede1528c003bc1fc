package protocol

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/stats"
)

// Ratings is a set of rated items, each with one human value, that need one score each.
type Ratings struct {
	Keys      []Key
	Human     []float64
	Group     []int    // by item: index in Names, for correlations per method; -1: none. nil: no groups
	Names     []string // of the groups
	UnitItems [][]int  // items of each unit of resampling
	Truth     string   // what the human values are called, "" for "human"
	Notes     []string // on the data
}

// ReadScores reads lines of {id, model, field: number} into one score per item, NaN where missing. find returns the
// item of an id and model (below 0: the line is skipped), or an error with what was expected.
func (s *Ratings) ReadScores(path string, fields []string, find func(Key) (int, error)) (*RatingPredictions, error) {
	rows, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	field := fields[len(fields)-1]
	for _, f := range fields { // a null in the first line must not select another field
		if slices.ContainsFunc(rows, func(r *Line) bool { return r.Has(f) }) {
			field = f
			break
		}
	}
	scores := slices.Repeat([]float64{math.NaN()}, len(s.Keys))
	seen := map[int]string{}
	var p Problems
	p.Each(rows, func(r *Line) error {
		key := r.Key()
		i, err := find(key)
		if r.err != nil || err != nil || i < 0 {
			return err
		}
		if first, ok := seen[i]; ok {
			return fmt.Errorf("a second prediction for %v (the first is in %s): want one", key, first)
		}
		seen[i], scores[i] = r.Where, r.Number(field)
		return nil
	})
	return &RatingPredictions{s, scores}, p.Err()
}

// Guess generates scores: drawn from rng, or constant if rng is nil.
func (s *Ratings) Guess(rng *rand.Rand) *RatingPredictions {
	return &RatingPredictions{s, RandomScores(rng, len(s.Keys))}
}

// RatingPredictions are scores of rated items, NaN if missing. A benchmark embeds them and adds its numbers.
type RatingPredictions struct {
	*Ratings
	Scores []float64
}

// Units implements Predictions.
func (j *RatingPredictions) Units() int { return len(j.UnitItems) }

// Complete implements Predictions: all items of a unit have a score.
func (j *RatingPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.UnitItems[unit], func(i int) bool { return math.IsNaN(j.Scores[i]) })
}

// GroupsJSON are the correlations of groups in a JSON result.
type GroupsJSON struct {
	PerModel  map[string]Value `json:"per_model"`
	Undefined []string         `json:"undefined"`
}

// Result returns what all benchmarks of ratings report: a table of the groups' correlations, plots, and examples with
// the pictures of items, if there are any.
func (j *RatingPredictions) Result(title string, numbers []Number, items []*edit.Edit) (*Result, GroupsJSON) {
	r := &Result{Notes: slices.Clone(j.Notes), Numbers: numbers, Scatters: j.scatters()}
	r.Count(len(j.Keys), func(i int) bool { return !math.IsNaN(j.Scores[i]) }, func(i int) Key { return j.Keys[i] })
	rho, _ := j.Correlations(stats.UpTo(j.Units()))
	groups := GroupsJSON{map[string]Value{}, []string{}}
	t := Table{Title: title, Columns: []string{"spearman"}}
	for g, name := range j.Names {
		groups.PerModel[name] = Value(rho[g])
		t.Rows = append(t.Rows, TableRow{Name: name, Cells: Cells(rho[g])})
		if math.IsNaN(rho[g]) {
			groups.Undefined = append(groups.Undefined, name)
		}
	}
	if len(t.Rows) > 0 {
		r.Tables = []Table{t}
	}
	if n := len(groups.Undefined); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the correlation of %d of %d methods is undefined (constant or missing "+
			"predictions) and left out of the means: %s", n, len(j.Names), strings.Join(groups.Undefined, ", ")))
	}
	r.Examples = j.Examples(j.Scores, 4, func(i int) ([]CaptionedPicture, string) {
		if items == nil {
			return nil, ""
		}
		return Captions(items[i], "source", "edit"), items[i].Instruction
	})
	return r, groups
}

// group returns the group of an item, -1 if it has none.
func (s *Ratings) group(i int) int {
	if s.Group == nil {
		return -1
	}
	return s.Group[i]
}

// Correlations returns Spearman's correlation of each group, and over all items together.
func (j *RatingPredictions) Correlations(units []int) (groups []float64, global float64) {
	x, y := make([][]float64, len(j.Names)), make([][]float64, len(j.Names))
	var gx, gy []float64
	for _, u := range units {
		for _, i := range j.UnitItems[u] {
			if math.IsNaN(j.Scores[i]) {
				continue
			}
			if g := j.group(i); g >= 0 {
				x[g], y[g] = append(x[g], j.Scores[i]), append(y[g], j.Human[i])
			}
			gx, gy = append(gx, j.Scores[i]), append(gy, j.Human[i])
		}
	}
	groups = make([]float64, len(j.Names))
	for g := range groups {
		groups[g] = stats.Spearman(x[g], y[g])
	}
	return groups, stats.Spearman(gx, gy)
}

// Over returns which groups' correlations are averaged, by name, if some are undefined. what is the kind of group.
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

// scatters plots scores against human values, a plot for each group.
func (j *RatingPredictions) scatters() []Scatter {
	out := make([]Scatter, len(j.Names))
	for g, name := range j.Names {
		out[g].Title = name
	}
	if len(out) == 0 {
		out = []Scatter{{Title: "all items"}}
	}
	for i, v := range j.Scores {
		if g := max(j.group(i), 0); !math.IsNaN(v) {
			out[g].Score, out[g].Human = append(out[g].Score, v), append(out[g].Human, j.Human[i])
		}
	}
	return out
}

// Examples picks the items on which predicted and human rank agree best and worst. Of items with equal agreement,
// those with extreme human values come first: they are the most informative.
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
	order := stats.UpTo(len(with))
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

// Disagreements returns the samples on which a scorer agrees least and most with a column of humans or judges, which
// is called truth, among samples with both. Pictures are shown for samples that are among the items.
func Disagreements(truth string, keys []Key, scores, values []float64, items []*edit.Edit) []Example {
	shown := map[Key]*edit.Edit{}
	for _, it := range items {
		shown[ItemKey(it)] = it
	}
	p := Ratings{Truth: truth}
	var both []float64
	for i, v := range scores {
		if !math.IsNaN(v) && !math.IsNaN(values[i]) {
			p.Keys, p.Human, both = append(p.Keys, keys[i]), append(p.Human, values[i]), append(both, v)
		}
	}
	return p.Examples(both, 4, func(i int) ([]CaptionedPicture, string) {
		it := shown[p.Keys[i]]
		if it == nil {
			return nil, ""
		}
		return Captions(it, "source", "edit", Target), it.Instruction
	})
}

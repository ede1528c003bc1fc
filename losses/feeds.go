package losses

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"gorgonia.org/tensor"
)

// Item is what a term computes one loss for.
type Item struct {
	Edits   []int      // indices of edits in the run: one; a and b of a pair; all of an order
	Label   float64    // of an edit, in 0..1; with votes: soft, one of its ratings
	Outcome [3]float64 // of a pair: shares for a, for a tie, for b; they sum to 1
	Margin  float64    // of a pair, in the units of the logits
	Ranks   []int      // of the edits of an order: lower is better, equal is a tie
	Weight  float64    // of its loss in the sum
}

// far is added to scores that cannot be chosen: e^far is 0, for any score.
const far = -1e30

// Rows maps the rows of a term's graph inputs to items: an order has a row for each choice.
type Rows struct {
	Item []int
	n    int // rows of the inputs: at least one
}

// Sum adds up the graph's losses of the rows of each of n items.
func (r *Rows) Sum(losses []float64, n int) []float64 {
	out := make([]float64, n)
	for k, i := range r.Item {
		out[i] += losses[k]
	}
	return out
}

// Feeds returns the graph inputs of term i for its items among n edits, and the rows of its output. place returns the
// row of edit e in the graph's scores; seed is the seed of the draws. Inputs that a kind does not read are included.
// Without items there is a single row of weight 0.
func Feeds(i int, s Spec, head Head, items []Item, n int, place func(e int) int, seed uint64) (
	map[string]*tensor.Dense, *Rows, error,
) {
	f := &feeder{spec: s, head: head, n: n, place: place, floats: map[string][]float32{}}
	r, _ := Lookup(s.Kind)
	for k := range items {
		if err := f.item(r.Over, k, &items[k]); err != nil {
			return nil, nil, fmt.Errorf("losses[%d] (%s): %w", i, s.Kind, err)
		}
	}
	rows := &Rows{Item: f.rowItems, n: max(1, len(f.rowItems))}
	if len(f.rowItems) == 0 {
		f.empty(r.Over)
	}
	out := map[string]*tensor.Dense{}
	for name, v := range f.floats {
		shape := []int{rows.n}
		if w := len(v) / rows.n; w != 1 || name == "class" || name == "others" {
			shape = append(shape, w)
		}
		out[Name(i, name)] = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))
	}
	out[Name(i, "a")] = tensor.New(tensor.WithShape(rows.n), tensor.WithBacking(f.a))
	out[Name(i, "b")] = tensor.New(tensor.WithShape(rows.n), tensor.WithBacking(f.b))
	if len(f.steps) > 0 {
		out[Name(i, "step")] = tensor.New(tensor.WithShape(rows.n), tensor.WithBacking(f.steps))
	}
	if s.Draws > 0 {
		z := Draws(seed, s.Draws)
		out[Name(i, "draws")] = tensor.New(tensor.WithShape(len(z)), tensor.WithBacking(z))
	}
	return out, rows, nil
}

// Draws returns n normal draws, a function of the seed.
func Draws(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0xd2a3))
	z := make([]float32, n)
	for i := range z {
		z[i] = float32(rng.NormFloat64())
	}
	return z
}

// feeder writes rows.
type feeder struct {
	spec     Spec
	head     Head
	n        int
	place    func(int) int
	rowItems []int
	a, b     []int64
	steps    []int64 // indices of ordinal values
	floats   map[string][]float32
}

func (f *feeder) put(name string, v ...float64) {
	for _, x := range v {
		f.floats[name] = append(f.floats[name], float32(x))
	}
}

func (f *feeder) row(k, a, b int, weight float64) {
	f.rowItems = append(f.rowItems, k)
	f.a, f.b = append(f.a, int64(f.place(a))), append(f.b, int64(f.place(b)))
	f.put("weight", weight)
}

// empty writes a row that does not count.
func (f *feeder) empty(over Unit) {
	switch over {
	case Orders:
		f.order(0, &Item{Edits: []int{0, 0}, Ranks: []int{0, 1}})
	default:
		_ = f.item(over, 0, &Item{Edits: []int{0, 0}, Outcome: [3]float64{0, 1, 0}})
	}
	f.rowItems = nil
}

func (f *feeder) item(over Unit, k int, it *Item) error {
	switch over {
	case Edits:
		f.row(k, it.Edits[0], it.Edits[0], it.Weight)
		f.put("label", it.Label)
		f.class(it.Label)
		f.steps = append(f.steps, int64(Nearest(f.spec.Values, it.Label)))
	case Pairs:
		f.row(k, it.Edits[0], it.Edits[1], it.Weight)
		w, t, l := it.Outcome[0], it.Outcome[1], it.Outcome[2]
		f.put("better", w+t/2)
		f.put("win", w)
		f.put("tie", t)
		f.put("loss_share", l)
		f.put("outcome", w, t, l)
		f.put("margin", it.Margin)
	case Orders:
		if f.spec.Ties == "refuse" {
			seen := slices.Clone(it.Ranks)
			slices.Sort(seen)
			if len(slices.Compact(seen)) != len(it.Ranks) {
				return fmt.Errorf("two edits of a group have the same rank (%v), and ties is refuse: with ties: breslow they "+
					"count as equal", it.Ranks)
			}
		}
		f.order(k, it)
	}
	return nil
}

// class writes the one-hot class of a label. A rating between two values is divided between them, so that the mean is
// preserved: the two-hot target of Schrittwieser et al., MuZero, 2020 (appendix F).
func (f *feeder) class(label float64) {
	v := f.head.Values
	if len(v) == 0 {
		return
	}
	p := make([]float64, len(v))
	k := sort.SearchFloat64s(v, label)
	switch {
	case f.spec.Votes != VotesSoft || k == 0 || k == len(v):
		p[Nearest(v, label)] = 1
	default:
		p[k] = (label - v[k-1]) / (v[k] - v[k-1])
		p[k-1] = 1 - p[k]
	}
	f.put("class", p...)
}

// order writes a row for each edit that is not the only remaining choice.
func (f *feeder) order(k int, it *Item) {
	for i, e := range it.Edits {
		others := slices.Repeat([]float64{far}, f.n)
		left := 0
		for j, o := range it.Edits {
			if it.Ranks[j] >= it.Ranks[i] {
				others[f.place(o)] = 0
				left++
			}
		}
		if left > 1 {
			f.row(k, e, e, it.Weight)
			f.put("others", others...)
		}
	}
}

// AllItems returns the largest possible set of items for n edits: each edit, every pair, and an order of all edits.
func AllItems(specs []Spec, n int) [][]Item {
	out := make([][]Item, len(specs))
	for i, s := range specs {
		switch s.Over() {
		case Edits:
			for e := range n {
				out[i] = append(out[i], Item{Edits: []int{e}})
			}
		case Pairs:
			for a := range n {
				for b := range a {
					out[i] = append(out[i], Item{Edits: []int{a, b}, Outcome: [3]float64{0, 1, 0}})
				}
			}
		case Orders:
			all := Item{}
			for e := range n {
				all.Edits, all.Ranks = append(all.Edits, e), append(all.Ranks, e)
			}
			out[i] = []Item{all}
		}
	}
	return out
}

package model

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/losses"
	"assay/model/batch"
	"assay/model/nn"
)

// A step graph with prefixes has a fixed number of groups, and fixes which group follows which. Edits of several
// sources in one run would need a new graph for almost every micro-batch, and opening one takes longer than many steps
// of a small model. So a micro-batch runs in parts, each with samples whose graph is the same. Samples with prefixes
// are grouped by the lengths of the prefix and of what follows it; all others run together. If nothing has a prefix, as
// in a prompt whose source and edit are one picture, groups of several edits run by their length.

// stepParts are the samples of each run of a step. Edits of one loss item stay together.
func (t *Tuner) stepParts(samples []*batch.Sample, items [][]losses.Item) [][]int {
	all := newUnits(len(samples))
	pk := t.stepPacking()
	if pk.Share == 0 || t.o.Fixed || t.net.Plan.Kernels == nn.Fused { // one graph serves all: see even
		return [][]int{all}
	}
	sequences := t.stepSequences(samples)
	each := len(sequences) / len(samples)
	spans := make([]batch.Span, len(sequences))
	for i, s := range sequences {
		spans[i] = pk.Span(s, i)
	}
	u := newUnits(len(samples))
	families := pk.Families(spans, sequences, pk.Share, 0)
	for _, f := range families {
		for _, i := range f.Members {
			u.join(f.Members[0]/each, i/each)
		}
	}
	for _, term := range items {
		for _, it := range term {
			for _, e := range it.Edits {
				u.join(it.Edits[0], e)
			}
		}
	}
	if u.alone() { // each sample is a step as it was without groups, bit for bit
		return [][]int{all}
	}
	spans = pk.SharePrefixes(spans, sequences)
	pk.Level(spans)
	kinds := u.kinds(spans, each, len(families) == 0)
	return batch.BatchesBy(len(samples), func(i int) (kind string, most int) { return kinds[u.of(i)], len(samples) })
}

// units are samples that have to run together.
type units []int

func newUnits(n int) units {
	u := make(units, n)
	for i := range u {
		u[i] = i
	}
	return u
}

// of is the first sample of the unit that a sample is in.
func (u units) of(i int) int {
	for u[i] != i {
		i = u[i]
	}
	return i
}

func (u units) join(i, j int) {
	i, j = u.of(i), u.of(j)
	u[max(i, j)] = min(i, j)
}

// alone reports whether no two samples are in one unit.
func (u units) alone() bool {
	for i := range u {
		if u.of(i) != i {
			return false
		}
	}
	return true
}

// kinds are the shapes of each unit's groups in a graph, by its first sample; each is the number of sequences of a
// sample. A unit without a prefix has "", unless apart is set.
func (u units) kinds(spans []batch.Span, each int, apart bool) map[int]string {
	shapes, shared := map[int][]string{}, map[int]bool{}
	for _, s := range spans {
		at := u.of(s.Index / each)
		shapes[at] = append(shapes[at], fmt.Sprint(s.IsPrefix, s.From, s.Filled, s.Selected))
		shared[at] = shared[at] || s.IsPrefix || apart
	}
	kinds := map[int]string{}
	for at, all := range shapes {
		if shared[at] {
			slices.Sort(all)
			kinds[at] = strings.Join(slices.Compact(all), ", ")
		}
	}
	return kinds
}

// inParts runs the parts of a step in sequence, and combines their results: run gets the samples of a part and its
// dropout seed.
func (t *Tuner) inParts(
	samples []*batch.Sample, items [][]losses.Item, seed uint64, run func(part []int, seed uint64) (*StepResult, error),
) (*StepResult, error) {
	parts := t.stepParts(samples, items)
	if len(parts) == 1 {
		return run(parts[0], seed)
	}
	n := len(samples)
	sum := &StepResult{Loss: make([]float64, n), CE: make([]float64, n), ScoreLoss: make([]float64, n),
		Score: make([]float64, n)}
	for k, part := range parts {
		one, err := run(part, seed+uint64(k))
		if err != nil {
			return nil, err
		}
		for place, i := range part {
			sum.Loss[i], sum.CE[i] = one.Loss[place], one.CE[place]
			sum.ScoreLoss[i], sum.Score[i] = one.ScoreLoss[place], one.Score[place]
		}
		sum.Tokens += one.Tokens
		if sum.Grads == nil {
			sum.Grads = one.Grads
			continue
		}
		for name, g := range one.Grads {
			addTo(sum.Grads[name], g)
		}
	}
	return sum, nil
}

// addTo adds values to a sum.
func addTo(sum, more *tensor.Dense) {
	s, m := sum.Data().([]float32), more.Data().([]float32)
	for i, v := range m {
		s[i] += v
	}
}

// itemsOf are the items of each term whose edits are in a part, with indices into the part, and their places among all
// items.
func itemsOf(items [][]losses.Item, part []int) (own [][]losses.Item, places [][]int) {
	within := map[int]int{}
	for place, i := range part {
		within[i] = place
	}
	own, places = make([][]losses.Item, len(items)), make([][]int, len(items))
	for k, term := range items {
		for j, it := range term {
			if _, ok := within[it.Edits[0]]; !ok {
				continue
			}
			edits := make([]int, len(it.Edits))
			for e, i := range it.Edits {
				edits[e] = within[i]
			}
			it.Edits = edits
			own[k], places[k] = append(own[k], it), append(places[k], j)
		}
	}
	return own, places
}

package model

import "slices"

// leastShared is the number of samples from which on their common prefix runs once.
const leastShared = 2

// batch is what runs together.
type batch struct {
	samples []int // indices
	packing
}

// batches sorts samples into runs: those that begin alike share prefixes, the others run with those of their length.
// oneGraph: a second graph would need weights of its own, so that all samples that can go through that of prefixes do.
func (l limits) batches(pk packing, samples []*Sample, oneGraph bool) (out []batch) {
	pk.even = l.near > 1
	spans := make([]span, len(samples))
	for i, s := range samples {
		spans[i] = pk.span(s, i)
	}
	least := leastShared
	if oneGraph {
		least = 1
	}
	shares := pk
	shares.share = 1
	shared := make([]bool, len(samples))
	for _, part := range l.sharing(spans, pk.families(spans, samples, least, l.near), least) {
		out = append(out, batch{part, shares})
		for _, i := range part {
			shared[i] = true
		}
	}
	var alone []int
	for i := range samples {
		if !shared[i] {
			alone = append(alone, i)
		}
	}
	type shape struct{ length, selected int }
	for _, part := range batchesBy(len(alone), func(k int) (shape, int) {
		sp := spans[alone[k]]
		length := l.rounded(sp.length)
		return shape{length, sp.selected}, l.rows / length
	}) {
		out = append(out, batch{pick(alone, part), pk})
	}
	return out
}

// sharing sorts families into runs of one shape, as full as the limits allow. A family that is too large for one is cut
// into parts of equal size, unless these would have less than least members.
func (l limits) sharing(spans []span, families []*family, least int) (runs [][]int) {
	type shape struct{ cut, length, selected int }
	type open struct{ run, rows int }
	at := map[shape]*open{}
	for _, f := range families {
		first := spans[f.members[0]]
		length := l.rounded(first.length)
		each, most := length-f.cut, l.shared
		fit := max(least, (most-f.cut)/each)
		if least > 1 && f.cut+least*each > most {
			continue
		}
		parts := (len(f.members) + fit - 1) / fit
		k := shape{f.cut, length, first.selected}
		for part := range slices.Chunk(f.members, (len(f.members)+parts-1)/parts) {
			rows := f.cut + len(part)*each
			if at[k] == nil || at[k].rows+rows > most {
				at[k] = &open{run: len(runs)}
				runs = append(runs, nil)
			}
			at[k].rows += rows
			runs[at[k].run] = append(runs[at[k].run], part...)
		}
	}
	return runs
}

// count counts the tokens of a run, and of the samples each by itself.
func (o packing) count(samples []*Sample) (together, alone int) {
	spans := make([]span, len(samples))
	for i, s := range samples {
		spans[i] = o.span(s, i)
		alone += spans[i].length
	}
	for _, s := range o.branch(spans, samples) {
		together += s.length - s.from
	}
	return together, alone
}

package batch

import "slices"

// MinShared is the minimum number of samples for their common prefix to run once.
const MinShared = 2

// Run is a set of samples that run together.
type Run struct {
	Samples []int // indices
	Packer
}

// Batches sorts samples into runs: samples with the same start share prefixes, the others run with samples of their
// length. oneGraph: a second graph would need its own weights, so that all samples that can use the prefix graph do.
func (l Limits) Batches(pk Packer, samples []*Sample, oneGraph bool) (out []Run) {
	pk.Even = l.Near > 1
	spans := make([]Span, len(samples))
	for i, s := range samples {
		spans[i] = pk.Span(s, i)
	}
	least := MinShared
	if oneGraph {
		least = 1
	}
	shares := pk
	shares.Share = 1
	shared := make([]bool, len(samples))
	for _, part := range l.sharing(spans, pk.Families(spans, samples, least, l.Near), least) {
		out = append(out, Run{part, shares})
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
	for _, part := range BatchesBy(len(alone), func(k int) (shape, int) {
		sp := spans[alone[k]]
		length := l.rounded(sp.Length)
		return shape{length, sp.Selected}, l.Rows / length
	}) {
		out = append(out, Run{Pick(alone, part), pk})
	}
	return out
}

// sharing sorts families into runs of one shape, as full as the limits allow. A family that is too large for one is cut
// into parts of equal size, unless these would have fewer than least members.
func (l Limits) sharing(spans []Span, families []*PrefixGroup, least int) (runs [][]int) {
	type shape struct{ cut, length, selected int }
	type open struct{ run, rows int }
	at := map[shape]*open{}
	for _, f := range families {
		first := spans[f.Members[0]]
		length := l.rounded(first.Length)
		each, most := length-f.cut, l.Shared
		if length > most { // it is exceeded anyway, and two that share have fewer rows than two separate ones
			most = f.cut + least*each
		}
		fit := max(least, (most-f.cut)/each)
		if least > 1 && f.cut+least*each > most {
			continue
		}
		parts := (len(f.Members) + fit - 1) / fit
		k := shape{f.cut, length, first.Selected}
		for part := range slices.Chunk(f.Members, (len(f.Members)+parts-1)/parts) {
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

// Count returns the number of tokens of a run, and of the samples run separately.
func (o Packer) Count(samples []*Sample) (together, alone int) {
	spans := make([]Span, len(samples))
	for i, s := range samples {
		spans[i] = o.Span(s, i)
		alone += spans[i].Length
	}
	for _, s := range o.SharePrefixes(spans, samples) {
		together += s.Length - s.From
	}
	return together, alone
}

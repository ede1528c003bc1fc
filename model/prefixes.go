package model

import (
	"encoding/binary"
	"slices"
)

// contexts are the numbers of columns that the rows of each group look at.
func (p *packed) contexts() []int64 {
	lengths := p.feeds["group_lengths"].Data().([]int64)
	out := slices.Clone(lengths)
	for i := range out {
		if p.follows == nil {
			break
		}
		if before := p.follows[i]; before >= 0 {
			out[i] += lengths[before]
		} else if child := slices.Index(p.follows, i); child >= 0 {
			out[i] += lengths[child]
		}
	}
	return out
}

// family is what samples of a batch begin with.
type family struct {
	cut     int // tokens of the prefix
	members []int
}

// cut is the number of tokens that a sample may share with others: up to the beginning of its last picture, which is
// the edit in most layouts. They are at least two, and have a picture. 0: none. Of a choice it is what all choices have
// in common.
func (o packing) cut(s *Sample, sp *span) int {
	at := s.common
	if n := len(s.Pictures); at == 0 && n > 1 {
		at = s.Tokens.Pictures[n-1]
	}
	if o.loss && o.all {
		at = min(at, sp.scorePos)
	} else {
		at = min(at, sp.first)
	}
	// No product has a single row: see packing.span.
	if at < 2 || sp.length-at < 2 || slices.Contains(s.IDs[:at], o.vocab) {
		return 0
	}
	n := 0
	for i, p := range s.Pictures {
		switch from := s.Tokens.Pictures[i]; {
		case from+p.Tokens <= at:
			n++
		case from < at: // a picture is in the prefix, or it is not
			return 0
		}
	}
	if n == 0 {
		return 0
	}
	return at
}

// beginning is the same for samples that begin with the same tokens and pictures.
func (s *Sample) beginning(cut int) string {
	key := make([]byte, 0, 8*cut+64)
	for _, id := range s.IDs[:cut] {
		key = binary.LittleEndian.AppendUint64(key, uint64(id))
	}
	for i, p := range s.Pictures {
		if s.Tokens.Pictures[i] < cut {
			key = append(key, p.key[:]...)
		}
	}
	return string(key)
}

// families finds samples that begin alike, at least least of each kind: of one length when it is rounded up to a
// multiple of near, unless that is 0. They come in the order of their first samples.
func (o packing) families(spans []span, samples []*Sample, least, near int) (out []*family) {
	type kind struct {
		beginning        string
		length, selected int
	}
	at := map[kind]*family{}
	for i, s := range samples {
		cut := o.cut(s, &spans[i])
		if cut == 0 {
			continue
		}
		k := kind{beginning: s.beginning(cut)}
		if near > 0 {
			k.length, k.selected = limits{near: near}.rounded(spans[i].length), spans[i].selected
		}
		if at[k] == nil {
			at[k] = &family{cut: cut}
			out = append(out, at[k])
		}
		at[k].members = append(at[k].members, i)
	}
	return slices.DeleteFunc(out, func(f *family) bool { return len(f.members) < least })
}

// branch takes what several samples begin with out of their spans, and makes spans of it.
func (o packing) branch(spans []span, samples []*Sample) []span {
	if o.share == 0 {
		return spans
	}
	families := o.families(spans, samples, o.share, 0)
	if o.even && !uniform(families, len(samples)) {
		return spans
	}
	slices.SortStableFunc(families, func(a, b *family) int { return a.cut - b.cut })
	all := o.loss && o.all
	for k, f := range families {
		prefix := span{length: f.cut, index: f.members[0], leads: true}
		for _, i := range f.members {
			s := &spans[i]
			s.from, s.prefix = f.cut, k+1
			if all {
				s.first, s.selected, s.predicted = f.cut, s.selected-f.cut, s.predicted-f.cut
			}
		}
		if all {
			prefix.selected, prefix.predicted = f.cut, f.cut
		}
		spans = append(spans, prefix)
	}
	return spans
}

// uniform says whether prefixes of one length stand before all of n samples: any others would make one more graph.
func uniform(families []*family, n int) bool {
	for _, f := range families {
		n -= len(f.members)
		if f.cut != families[0].cut {
			return false
		}
	}
	return n == 0
}

// pictures are those of a span of a sample.
func (s *span) pictures(of *Sample) (out []*Picture) {
	for i, p := range of.Pictures {
		if at := of.Tokens.Pictures[i]; at >= s.from && at < s.length {
			out = append(out, p)
		}
	}
	return out
}

// alike reports whether two spans can be in one group of a graph.
func (s *span) alike(t *span) bool {
	return s.leads == t.leads && s.from == t.from && s.filled == t.filled && s.selected == t.selected
}

// prefixPlace is where a prefix stands: which group, and which sequence of it.
type prefixPlace struct{ group, sequence int }

// leading are the places of the prefixes, which stand first.
func (o packing) leading(spans []span) (out []prefixPlace) {
	for i := range spans {
		at := prefixPlace{}
		switch {
		case !spans[i].leads:
			return out
		case i == 0:
		case !spans[i].alike(&spans[i-1]):
			at.group = out[i-1].group + 1
		default:
			at = prefixPlace{out[i-1].group, out[i-1].sequence + 1}
		}
		out = append(out, at)
	}
	return out
}

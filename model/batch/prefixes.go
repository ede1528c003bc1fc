package batch

import (
	"encoding/binary"
	"slices"

	"assay/model/backbone"
)

// Contexts returns the number of columns that the rows of each group attend to.
func (p *Inputs) Contexts() []int64 {
	lengths := p.Feeds["group_lengths"].Data().([]int64)
	out := slices.Clone(lengths)
	for i := range out {
		if p.Follows == nil {
			break
		}
		if before := p.Follows[i]; before >= 0 {
			out[i] += lengths[before]
		} else if child := slices.Index(p.Follows, i); child >= 0 {
			out[i] += lengths[child]
		}
	}
	return out
}

// PrefixGroup is a prefix and the samples of a batch that share it.
type PrefixGroup struct {
	cut     int // tokens of the prefix
	Members []int
}

// cut returns the number of tokens that a sample may share with others: up to the start of its last picture, which is
// the edit in most layouts. They are at least two, and include a picture. 0: none. For choices and answers it is the
// part that all of them have in common.
func (o Packer) cut(s *Sample, sp *Span) int {
	at := s.Common
	if n := len(s.Pictures); at == 0 && n > 1 {
		at = s.Tokens.Pictures[n-1]
	}
	if o.Loss && o.All {
		at = min(at, sp.ScorePos)
	} else {
		at = min(at, sp.First)
	}
	// No product has a single row: see Packer.Span.
	if at < 2 || sp.Length-at < 2 || slices.Contains(s.IDs[:at], o.Vocab) {
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
	if n == 0 && s.Common == 0 {
		return 0
	}
	return at
}

// beginning returns a key that is equal for samples that start with the same tokens and pictures.
func (s *Sample) beginning(cut int) string {
	key := binary.LittleEndian.AppendUint64(make([]byte, 0, 8*cut+64), uint64(s.Member))
	for _, id := range s.IDs[:cut] {
		key = binary.LittleEndian.AppendUint64(key, uint64(id))
	}
	for i, p := range s.Pictures {
		if s.Tokens.Pictures[i] < cut {
			key = append(key, p.Key[:]...)
		}
	}
	return string(key)
}

// Families finds groups of at least least samples with the same start, and of one length when rounded up to a multiple
// of near, unless near is 0. They are in the order of their first samples.
func (o Packer) Families(spans []Span, samples []*Sample, least, near int) (out []*PrefixGroup) {
	type kind struct {
		beginning        string
		length, selected int
	}
	at := map[kind]*PrefixGroup{}
	for i, s := range samples {
		cut := o.cut(s, &spans[i])
		if cut == 0 {
			continue
		}
		k := kind{beginning: s.beginning(cut)}
		if near > 0 {
			k.length, k.selected = Limits{Near: near}.rounded(spans[i].Length), spans[i].Selected
		}
		if at[k] == nil {
			at[k] = &PrefixGroup{cut: cut}
			out = append(out, at[k])
		}
		at[k].Members = append(at[k].Members, i)
	}
	return slices.DeleteFunc(out, func(f *PrefixGroup) bool { return len(f.Members) < least })
}

// SharePrefixes removes prefixes that several samples share from their spans, and appends them as separate spans.
func (o Packer) SharePrefixes(spans []Span, samples []*Sample) []Span {
	if o.Share == 0 {
		return spans
	}
	families := o.Families(spans, samples, o.Share, 0)
	if o.Even && !uniform(families, len(samples)) {
		return spans
	}
	slices.SortStableFunc(families, func(a, b *PrefixGroup) int { return a.cut - b.cut })
	all := o.Loss && o.All
	for k, f := range families {
		prefix := Span{Length: f.cut, Index: f.Members[0], IsPrefix: true}
		for _, i := range f.Members {
			s := &spans[i]
			s.From, s.prefix = f.cut, k+1
			if all {
				s.First, s.Selected, s.Predicted = f.cut, s.Selected-f.cut, s.Predicted-f.cut
			}
		}
		if all {
			prefix.Selected, prefix.Predicted = f.cut, f.cut
		}
		spans = append(spans, prefix)
	}
	return spans
}

// uniform reports whether all n samples have prefixes of one length: otherwise one more graph would be needed.
func uniform(families []*PrefixGroup, n int) bool {
	for _, f := range families {
		n -= len(f.Members)
		if f.cut != families[0].cut {
			return false
		}
	}
	return n == 0
}

// pictures returns the pictures in a span of a sample.
func (s *Span) pictures(of *Sample) (out []*backbone.Picture) {
	for i, p := range of.Pictures {
		if at := of.Tokens.Pictures[i]; at >= s.From && at < s.Length {
			out = append(out, p)
		}
	}
	return out
}

// alike reports whether two spans can be in one group of a graph.
func (s *Span) alike(t *Span) bool {
	return s.IsPrefix == t.IsPrefix && s.From == t.From && s.Filled == t.Filled && s.Selected == t.Selected
}

// prefixPlace is the place of a prefix: which group, and which sequence in it.
type prefixPlace struct{ group, sequence int }

// prefixPlaces returns the places of the prefixes, which come first.
func (o Packer) prefixPlaces(spans []Span) (out []prefixPlace) {
	for i := range spans {
		at := prefixPlace{}
		switch {
		case !spans[i].IsPrefix:
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

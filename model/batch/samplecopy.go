package batch

import (
	"slices"

	"assay/model/backbone"
)

// Copy returns a sample that can be scored at the same time as this one: what scoring writes is its own, pixels are
// shared.
func (s *Sample) Copy() *Sample {
	c := *s
	c.Pictures = make([]*backbone.Picture, len(s.Pictures))
	for i, p := range s.Pictures {
		own := *p
		c.Pictures[i] = &own
	}
	c.Rest, c.Choices = copySamples(s.Rest), copySamples(s.Choices)
	return &c
}

func copySamples(all []*Sample) (out []*Sample) {
	for _, s := range all {
		out = append(out, s.Copy())
	}
	return out
}

// Sequences are the samples of all passes.
func (s *Sample) Sequences() []*Sample { return append([]*Sample{s}, s.Rest...) }

// Saying is the sample after the model has said some tokens.
func (s *Sample) Saying(said []int64) *Sample {
	out := *s
	out.IDs = slices.Concat(s.IDs, said)
	out.ScoreIndex = len(out.IDs) - 1
	return &out
}

// Other is a sample like this one with pictures of its own, that it shares with those of the same round.
func (s *Sample) Other(round byte) *Sample {
	if round == 0 {
		return s
	}
	out := *s
	out.Pictures, out.Rest = slices.Clone(s.Pictures), slices.Clone(s.Rest)
	for i, p := range s.Pictures {
		q := *p
		q.Key[0] ^= round
		out.Pictures[i] = &q
	}
	for i, r := range s.Rest {
		out.Rest[i] = r.Other(round)
	}
	return &out
}

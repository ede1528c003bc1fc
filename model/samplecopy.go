package model

import "slices"

// Copy returns a sample that can be scored at the same time as this one: what scoring writes is its own, pixels are
// shared.
func (s *Sample) Copy() *Sample {
	c := *s
	c.Pictures = make([]*Picture, len(s.Pictures))
	for i, p := range s.Pictures {
		own := *p
		c.Pictures[i] = &own
	}
	c.rest, c.choices = copySamples(s.rest), copySamples(s.choices)
	return &c
}

func copySamples(all []*Sample) (out []*Sample) {
	for _, s := range all {
		out = append(out, s.Copy())
	}
	return out
}

// sequences are the samples of all passes.
func (s *Sample) sequences() []*Sample { return append([]*Sample{s}, s.rest...) }

// saying is the sample after the model has said some tokens.
func (s *Sample) saying(said []int64) *Sample {
	out := *s
	out.IDs = slices.Concat(s.IDs, said)
	out.ScoreIndex = len(out.IDs) - 1
	return &out
}

// other is a sample like this one with pictures of its own, that it shares with those of the same round.
func (s *Sample) other(round byte) *Sample {
	if round == 0 {
		return s
	}
	out := *s
	out.Pictures, out.rest = slices.Clone(s.Pictures), slices.Clone(s.rest)
	for i, p := range s.Pictures {
		q := *p
		q.key[0] ^= round
		out.Pictures[i] = &q
	}
	for i, r := range s.rest {
		out.rest[i] = r.other(round)
	}
	return &out
}

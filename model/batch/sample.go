package batch

import (
	"slices"

	"assay/edit"
	"assay/model/backbone"
	"assay/model/text"
)

// Sample is an edit ready for the graph: tokens and pictures. In format 2 ScoreIndex is the state that is read.
type Sample struct {
	text.Tokens
	Pictures []*backbone.Picture

	// Share is what the mean over the sample's text targets counts in a step's text loss, relative to other samples;
	// 0: as much as any other's, 1.
	Share float64

	Member int // of an ensemble: which of its scorers reads it

	Pass int       // index of the pass that it is made for
	Rest []*Sample // of the other passes

	Choices []*Sample // of joint choices: each behind the prompt
	Common  int       // of a choice or an answer: tokens that it begins with as the others do
}

// Size implements [edit.Inputs]: values of pixels, without pictures that the sample before shows, too.
func (s *Sample) Size(before edit.Inputs) (n int) {
	shared := map[*float32]bool{}
	if b, ok := before.(*Sample); ok && b != nil {
		for _, p := range b.Pictures {
			if len(p.Pixels) > 0 {
				shared[&p.Pixels[0]] = true
			}
		}
	}
	for _, p := range s.Pictures {
		if len(p.Pixels) > 0 && !shared[&p.Pixels[0]] {
			n += len(p.Pixels)
		}
	}
	return n
}

// ImageTokens is the number of tokens that its pictures take.
func (s *Sample) ImageTokens() int {
	n := 0
	for _, p := range s.Pictures {
		n += p.Tokens
	}
	return n
}

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

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

	// Share is the weight of the mean over the sample's text targets in a step's text loss, relative to other samples;
	// 0: the default, 1.
	Share float64

	Member int // in an ensemble: which of its scorers reads it

	Pass int       // index of the pass that it is for
	Rest []*Sample // of the other passes

	Choices []*Sample // for joint choices: each after the prompt
	Common  int       // for a choice or an answer: initial tokens in common with the others
}

// Size implements [edit.Inputs]: the number of pixel values, without pictures that are also in the previous
// sample.
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

// ImageTokens returns the number of tokens that its pictures take.
func (s *Sample) ImageTokens() int {
	n := 0
	for _, p := range s.Pictures {
		n += p.Tokens
	}
	return n
}

// Copy returns a sample that can be scored at the same time as this one: it has its own copy of what scoring writes,
// and shares pixels.
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

// Sequences returns the samples of all passes.
func (s *Sample) Sequences() []*Sample { return append([]*Sample{s}, s.Rest...) }

// Saying returns the sample after the model has generated some tokens.
func (s *Sample) Saying(said []int64) *Sample {
	out := *s
	out.IDs = slices.Concat(s.IDs, said)
	out.ScoreIndex = len(out.IDs) - 1
	return &out
}

// Other returns a sample like this one but with different picture keys, which it shares with samples of the same round.
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

package language

import (
	"slices"

	"gorgonia.org/tensor"

	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
)

// Prompt is a conversation up to an answer, followed by the tokens generated so far.
type Prompt struct {
	batch.Sample
	prompt int       // tokens of the prompt
	words  int       // tokens that are not of pictures
	axes   [][]int64 // rotary positions, [axes][tokens]
	next   int64     // position of the next token
}

// Begin is the index of the first token after the prompt.
func (s *Prompt) Begin() int { return s.prompt }

// Append adds a token, with the next position on every axis; after pictures, this is less than its index.
func (s *Prompt) Append(id int64) {
	s.IDs = append(s.IDs, id)
	for a := range s.axes {
		s.axes[a] = append(s.axes[a], s.next)
	}
	s.next++
	s.words++
}

// Fork returns a copy that can be continued differently.
func (s *Prompt) Fork() *Prompt {
	f := *s
	f.IDs, f.axes = slices.Clone(s.IDs), slices.Clone(s.axes)
	for i := range f.axes {
		f.axes[i] = slices.Clone(f.axes[i])
	}
	return &f
}

// Shared is the length of the longest common prefix of two sequences, in tokens, with the same pictures.
func (s *Prompt) Shared(o *Prompt) int {
	n := 0
	for n < min(len(s.IDs), len(o.IDs)) && s.IDs[n] == o.IDs[n] {
		n++
	}
	for i, at := range s.Tokens.Pictures {
		if at >= n {
			break
		}
		if i >= len(o.Pictures) || o.Tokens.Pictures[i] != at || o.Pictures[i].Key != s.Pictures[i].Key {
			return at // the same placeholders for another picture
		}
	}
	return n
}

// Forget frees the memory of the pictures, once their keys and values are in the cache.
func (s *Prompt) Forget() {
	for _, p := range s.Pictures {
		p.Features, p.Pixels = nil, nil
	}
}

// packStretches lays out stretches one after another: each row's source, its position, and its place in attention.
func (l *Model) packStretches(stretches []Stretch) *batch.Inputs {
	p := &batch.Inputs{Feeds: map[string]*tensor.Dense{}}
	var texts, images int
	longest := attended(stretches)
	ids, axes := []int64{}, make([][]int64, l.net.Backbone.Decoder().Rope.Axes())
	var order, selected, gather []int64
	var last []int32
	spread, most := make([]int64, len(stretches)*longest), longest
	for i, s := range stretches {
		kind := s.kinds(images)
		for k := s.From; k < s.To; k++ {
			place := i*longest + k - s.From
			spread[place] = int64(len(order))
			gather = append(gather, int64(place))
			if k >= s.To-s.Logits {
				selected = append(selected, int64(len(order)))
			}
			if kind[k-s.From] >= 0 {
				order = append(order, -1-kind[k-s.From]) // after the texts, whose number is not known yet
			} else {
				order = append(order, int64(texts))
				ids, texts = append(ids, s.IDs[k]), texts+1
			}
		}
		for a := range axes {
			axes[a] = append(axes[a], s.axes[a][s.From:s.To]...)
		}
		end := s.To
		if s.From > 0 && longest > 1 { // not the first: padding rows are appended too, and overwritten by the next
			end = s.From + longest
		}
		last, most = append(last, int32(end-1)), max(most, end)
		for _, q := range s.seen() {
			p.Pictures, images = append(p.Pictures, q), images+q.Tokens
		}
	}
	if texts == 0 { // pictures only: the table is still read once
		ids = append(ids, 0)
	}
	for i, v := range order {
		if v < 0 {
			order[i] = int64(len(ids)) - 1 - v
		}
	}
	p.Feeds[nn.InTextIDs], p.Feeds[nn.InOrder] = batch.Vector(ids), batch.Vector(order)
	p.Feeds[nn.InPositions] = batch.Stack(axes)
	p.Feeds["select"], p.Feeds[nn.InGather] = batch.Vector(selected), batch.Vector(gather)
	p.Feeds[nn.InSpread] = tensor.New(tensor.WithShape(len(stretches), longest), tensor.WithBacking(spread))
	p.Feeds[nn.InLast] = tensor.New(tensor.WithShape(len(last)), tensor.WithBacking(last))
	p.Feeds[nn.InMost] = tensor.New(tensor.WithShape(1), tensor.WithBacking([]int32{int32(most)}))
	return p
}

// attended is the number of rows of the longest stretch in attention. The runtime processes rows in tiles of an even
// number, and sums a tile of one row in another order. So an odd number is padded, and a row of a prompt does not
// depend on what runs with it. Tokens of answers always come one at a time.
func attended(stretches []Stretch) int {
	longest, prompts := 0, false
	for _, s := range stretches {
		longest = max(longest, s.To-s.From)
		prompts = prompts || s.From < s.prompt
	}
	if longest == 1 && !prompts {
		return 1
	}
	return (longest + 1) / 2 * 2
}

// seen returns the pictures that have tokens in the stretch.
func (s Stretch) seen() []*backbone.Picture {
	var out []*backbone.Picture
	for i, at := range s.Tokens.Pictures {
		if at < s.To && at+s.Pictures[i].Tokens > s.From {
			out = append(out, s.Pictures[i])
		}
	}
	return out
}

// kinds returns the row of the image features of each token of the stretch, -1 for text tokens. The features of the
// pictures seen start at row images.
func (s Stretch) kinds(images int) []int64 {
	out := slices.Repeat([]int64{-1}, s.To-s.From)
	for i, at := range s.Tokens.Pictures {
		n := s.Pictures[i].Tokens
		if at >= s.To || at+n <= s.From {
			continue
		}
		for k := max(at, s.From); k < min(at+n, s.To); k++ {
			out[k-s.From] = int64(images + k - at)
		}
		images += n
	}
	return out
}

// plainFeeds are the additional inputs of a graph with a plain cache.
func plainFeeds(stretches []Stretch, heads int) map[string]*tensor.Dense {
	longest := attended(stretches)
	var at []int64
	places, length := make([]int64, len(stretches)*longest), 0
	for i, s := range stretches {
		length = max(length, s.To)
		for k := s.From; k < s.To; k++ {
			places[i*longest+k-s.From] = int64(k)
			for h := range heads {
				at = append(at, int64(i), int64(h), int64(k))
			}
		}
	}
	return map[string]*tensor.Dense{
		nn.InCacheRows:   tensor.New(tensor.WithShape(len(at)/3/heads, heads, 3), tensor.WithBacking(at)),
		nn.InCachePlaces: tensor.New(tensor.WithShape(len(stretches), longest), tensor.WithBacking(places)),
		nn.InCacheLength: tensor.New(tensor.WithShape(1), tensor.WithBacking([]int64{int64(length)})),
	}
}

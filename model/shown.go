package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/data"
	"assay/edit"
)

// pairs are the ways in which a scorer shows source and edit together, as [Architecture.CanPair] takes them.
func (c *ScorerConfig) pairs() []string {
	var out []string
	for _, q := range c.Passes {
		switch {
		case q.joined():
			out = append(out, q.Pictures[0])
		case len(q.Pictures) > 1:
			out = append(out, Sequence)
		}
	}
	return out
}

// NeedsSource reports whether any pass shows the source: a judge of one picture sees only the edit.
func (c *ScorerConfig) NeedsSource() bool {
	return slices.ContainsFunc(c.Passes, func(q PassConfig) bool {
		return !slices.Equal(q.Pictures, []string{"edit"})
	})
}

// Asks reports whether a prompt contains a mark.
func (c *ScorerConfig) Asks(mark string) bool {
	return slices.ContainsFunc(c.Passes, func(q PassConfig) bool {
		return strings.Contains(string(q.Prompt), mark)
	})
}

// takes reports whether a pass shows all sources of an edit, however many they are.
func (c *ScorerConfig) takes(q *PassConfig) bool {
	return slices.Contains(q.Pictures, "sources") || c.AddsToken() && !q.joined()
}

// sources is the number of sources that every pass shows: 0, 1 or [edit.Any].
func (c *ScorerConfig) sources() int {
	if !c.NeedsSource() {
		return 0
	}
	for i := range c.Passes {
		if q := &c.Passes[i]; !c.takes(q) && !slices.Equal(q.Pictures, []string{"edit"}) {
			return 1
		}
	}
	return edit.Any
}

// places are the pictures that a pass without joining shows of an edit with that many sources: indices of sources, -1
// for the edit.
func (c *ScorerConfig) places(q *PassConfig, sources int) (out []int) {
	for _, name := range q.Pictures {
		switch {
		case name == "edit":
			out = append(out, -1)
		case c.takes(q):
			for i := range sources {
				out = append(out, i)
			}
		default:
			out = append(out, 0)
		}
	}
	return out
}

// show arranges the pictures of an edit for a pass: pictures for the backbone, each a list of frames.
func (c *ScorerConfig) show(q *PassConfig, s shownPictures) ([][]*data.Picture, error) {
	var err error
	ready := shownPictures{sources: slices.Clone(s.sources)}
	for i, p := range s.sources {
		if ready.sources[i], err = c.resized(p); err != nil {
			return nil, fmt.Errorf("%s: %w", edit.SourceRole(i), err)
		}
	}
	if ready.output, err = c.resized(s.output); err != nil {
		return nil, fmt.Errorf("edit: %w", err)
	}
	if q.joined() {
		return Join(q.Pictures[0], c.PairSize, ready.sources[0], ready.output)
	}
	var out [][]*data.Picture
	for _, i := range c.places(q, len(s.sources)) {
		p := ready.at(i)
		if len(c.PairSize) == 2 {
			p = p.Resize(c.PairSize[1], c.PairSize[0], data.Bicubic)
		}
		out = append(out, []*data.Picture{p})
	}
	return out, nil
}

// resized is a picture with alpha and pixel limits applied, as all passes take it.
func (c *ScorerConfig) resized(p *data.Picture) (*data.Picture, error) {
	if c.Alpha == "drop" {
		var err error
		if p, err = p.DropAlpha(); err != nil {
			return nil, err
		}
	}
	if c.Pixels != nil {
		return c.Pixels.resize(p)
	}
	return p, nil
}

// resize is the smart_resize of EditReward and HPSv3, with Pillow's bicubic filter. Unlike the one in transformers, it
// does not let a side round to 0 before the limits are checked.
func (l *PixelLimits) resize(p *data.Picture) (*data.Picture, error) {
	h, w := float64(p.Height), float64(p.Width)
	if max(h, w) > 200*min(h, w) {
		return nil, fmt.Errorf("a picture of %dx%d pixels: aspect ratios of at most 200:1 are supported", p.Width, p.Height)
	}
	f := float64(l.Factor)
	hh, ww := max(f, math.RoundToEven(h/f)*f), max(f, math.RoundToEven(w/f)*f)
	if hh*ww > float64(l.Most) {
		beta := math.Sqrt(h * w / float64(l.Most))
		hh, ww = math.Floor(h/beta/f)*f, math.Floor(w/beta/f)*f
	} else if hh*ww < float64(l.Least) {
		beta := math.Sqrt(float64(l.Least) / (h * w))
		hh, ww = math.Ceil(h*beta/f)*f, math.Ceil(w*beta/f)*f
	}
	if hh < 1 || ww < 1 {
		return nil, fmt.Errorf("a picture of %dx%d pixels has no size within %d pixels in multiples of %d", p.Width,
			p.Height, l.Most, l.Factor)
	}
	return p.Resize(int(ww), int(hh), data.Bicubic), nil
}

// showAdjoint backpropagates through show: from the gradients of its results, frame by frame, to those of the given
// pictures, which it adds to.
func (c *ScorerConfig) showAdjoint(q *PassConfig, s shownPictures, shown []*data.Gradient, to *edit.Gradient) {
	add := func(into **data.Gradient, g *data.Gradient, of *data.Picture) {
		if g = g.Resize(of.Width, of.Height, data.Bicubic); *into == nil {
			*into = g
		} else {
			(*into).Add(g)
		}
	}
	if q.joined() {
		source, output := s.sources[0], s.output
		if c.Pixels != nil { // what was joined had these sizes
			source, _ = c.Pixels.resize(source)
			output, _ = c.Pixels.resize(output)
		}
		a, b := joinAdjoint(q.Pictures[0], c.PairSize, source, output, shown)
		add(&to.Sources[0], a, s.sources[0])
		add(&to.Output, b, s.output)
		return
	}
	for k, i := range c.places(q, len(s.sources)) {
		into := &to.Output
		if i >= 0 {
			into = &to.Sources[i]
		}
		add(into, shown[k], s.at(i))
	}
}

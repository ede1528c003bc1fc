package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/data"
)

// pairs are the ways in which a scorer shows source and edit together, as [Architecture.CanPair] knows them.
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

// NeedsSource reports whether any pass shows the source: a judge of one picture is asked about the edit alone.
func (c *ScorerConfig) NeedsSource() bool {
	return slices.ContainsFunc(c.Passes, func(q PassConfig) bool {
		return !slices.Equal(q.Pictures, []string{"edit"})
	})
}

// Asks reports whether a prompt holds a mark.
func (c *ScorerConfig) Asks(mark string) bool {
	return slices.ContainsFunc(c.Passes, func(q PassConfig) bool {
		return strings.Contains(string(q.Prompt), mark)
	})
}

// show arranges the pictures of an edit for a pass: pictures for the backbone, each a list of frames.
func (c *ScorerConfig) show(q *PassConfig, s shownPictures) ([][]*data.Picture, error) {
	named := map[string]*data.Picture{"source": s.source, "edit": s.output}
	for _, name := range []string{"source", "edit"} {
		if name == "source" && !c.NeedsSource() {
			continue
		}
		p, err := named[name], error(nil)
		if c.Alpha == "drop" {
			p, err = p.DropAlpha()
		}
		if err == nil && c.Pixels != nil {
			p, err = c.Pixels.resize(p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		named[name] = p
	}
	if q.joined() {
		return Join(q.Pictures[0], c.PairSize, named["source"], named["edit"])
	}
	var out [][]*data.Picture
	for _, name := range q.Pictures {
		p := named[name]
		if len(c.PairSize) == 2 {
			p = p.Resize(c.PairSize[1], c.PairSize[0], data.Bicubic)
		}
		out = append(out, []*data.Picture{p})
	}
	return out, nil
}

// resize is the smart_resize of EditReward and HPSv3, with Pillow's bicubic filter. Unlike that of transformers it lets
// no side round to 0 before the limits are looked at.
func (l *PixelLimits) resize(p *data.Picture) (*data.Picture, error) {
	h, w := float64(p.Height), float64(p.Width)
	if max(h, w) > 200*min(h, w) {
		return nil, fmt.Errorf("a picture of %dx%d pixels: sides of at most 200 to 1 are taken", p.Width, p.Height)
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

// showAdjoint goes back through show: from the gradients of what it made, frame by frame, to those of source and edit
// as they were given, which it adds to.
func (c *ScorerConfig) showAdjoint(
	q *PassConfig, s shownPictures, shown []*data.Gradient, source, output **data.Gradient,
) {
	add := func(into **data.Gradient, g *data.Gradient, of *data.Picture) {
		if g = g.Resize(of.Width, of.Height, data.Bicubic); *into == nil {
			*into = g
		} else {
			(*into).Add(g)
		}
	}
	if q.joined() {
		joined := s
		if c.Pixels != nil { // what was joined had these sizes
			joined.source, _ = c.Pixels.resize(s.source)
			joined.output, _ = c.Pixels.resize(s.output)
		}
		a, b := joinAdjoint(q.Pictures[0], c.PairSize, joined.source, joined.output, shown)
		add(source, a, s.source)
		add(output, b, s.output)
		return
	}
	for i, name := range q.Pictures {
		if name == "source" {
			add(source, shown[i], s.source)
		} else {
			add(output, shown[i], s.output)
		}
	}
}

package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"

	"assay/data"
	"assay/store"
)

// Background is the component bg_rmse, FED-Bench's background difference. It is the root of the mean squared difference
// of source and edit over the pixels outside of the source's region, which a mask or a box says. Values have 8 bits, 0
// to 255, and the mean is over the three channels, too (arXiv 2603.29697, equation 4, before its Norm). The edit is
// resized to the source's size (bicubic).
type Background struct {
	places      *Places
	fingerprint string
}

// openBackground takes the regions from a file of boxes.
func openBackground(places *Places) (*Background, error) {
	if places == nil {
		return nil, errors.New("bg_rmse needs a file of boxes, with a box or a mask of every source")
	}
	digest, err := places.digest()
	if err != nil {
		return nil, err
	}
	return &Background{places, store.KeyOf("bg_rmse-pixels-1", digest).String()}, nil
}

// Name implements Measurer.
func (b *Background) Name() string { return "bg_rmse" }

// Fingerprint implements Measurer.
func (b *Background) Fingerprint() string { return b.fingerprint }

// Roles implements Measurer.
func (b *Background) Roles() []string { return []string{"edit", "source"} }

// Close implements Measurer.
func (b *Background) Close() error { return nil }

// Value implements Measurer.
func (b *Background) Value(_ context.Context, s *Sample) (any, error) {
	source, edit := s.Pictures["source"], s.Pictures["edit"]
	if source == nil || edit == nil {
		return nil, errors.New("there is no picture to compare")
	}
	place, err := b.places.of(s, "source")
	if err != nil {
		return nil, err
	}
	inside, err := place.region(source.Width, source.Height)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	edit = edit.Resize(source.Width, source.Height, data.Bicubic)
	sum, n := 0.0, 0
	for i, in := range inside {
		if in {
			continue
		}
		for c := 3 * i; c < 3*i+3; c++ {
			d := float64(source.Pix[c]) - float64(edit.Pix[c])
			sum += d * d
		}
		n += 3
	}
	if n == 0 {
		return nil, errors.New("the region covers the whole source: there is no background")
	}
	return math.Sqrt(sum / float64(n)), nil
}

// region says of every pixel of a picture, row by row, whether it belongs to the place: to its mask, or to its box.
func (p *Place) region(width, height int) ([]bool, error) {
	inside := make([]bool, width*height)
	if p.Mask == "" {
		left, top, w, h, err := p.pixels(width, height)
		if err != nil {
			return nil, err
		}
		for y := top; y < top+h; y++ {
			for x := left; x < left+w; x++ {
				inside[y*width+x] = true
			}
		}
		return inside, nil
	}
	mask, err := data.Open(p.Mask, data.Limits{})
	if err != nil {
		return nil, err
	}
	if mask.Width != width || mask.Height != height {
		return nil, fmt.Errorf("the mask %s has %d x %d pixels, the picture %d x %d", p.Mask, mask.Width, mask.Height, width,
			height)
	}
	for i := range inside {
		r, g, b := mask.Pix[3*i], mask.Pix[3*i+1], mask.Pix[3*i+2]
		if r != g || g != b || r != 0 && r != 255 {
			return nil, fmt.Errorf("the mask %s has the colour (%d, %d, %d) at %d, %d: black (0) and white (255, the region) "+
				"were expected", p.Mask, r, g, b, i%width, i/width)
		}
		inside[i] = r == 255
	}
	return inside, nil
}

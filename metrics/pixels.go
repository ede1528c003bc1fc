package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
)

// background is the component bg_rmse, FED-Bench's background difference. It is the root mean squared difference of
// source and edit over the pixels outside the source's region, given by a mask or a box. Values are 8-bit, 0 to 255,
// and the mean includes the three channels (arXiv 2603.29697, equation 4, before its Norm). The edit is resized to
// the source's size (bicubic).
type background struct{ places *Places }

// openBackground takes the regions from a boxes file.
func openBackground(places *Places) (*Metric, error) {
	if places == nil {
		return nil, errors.New("bg_rmse needs a boxes file, with a box or a mask for every source")
	}
	digest, err := places.digest()
	if err != nil {
		return nil, err
	}
	return &Metric{name: "bg_rmse", fingerprint: store.KeyOf("bg_rmse-pixels-2", digest).String(),
		roles: []string{"edit", "source"}, value: background{places}.value}, nil
}

func (b background) value(_ context.Context, s *edit.Views) (edit.Score, error) {
	source := s.ByRole["source"]
	place, err := b.places.of(s.Edit, "source")
	if err != nil {
		return edit.Score{}, err
	}
	inside, err := place.region(source.Width, source.Height)
	if err != nil {
		return edit.Score{}, fmt.Errorf("source: %w", err)
	}
	output := s.ByRole["edit"].Resize(source.Width, source.Height, data.Bicubic)
	sum, n := 0.0, 0
	for i, in := range inside {
		if in {
			continue
		}
		for c := 3 * i; c < 3*i+3; c++ {
			d := float64(source.Pix[c]) - float64(output.Pix[c])
			sum += d * d
		}
		n += 3
	}
	if n == 0 {
		return edit.Score{}, errors.New("the region covers the whole source: there is no background")
	}
	v := math.Sqrt(sum / float64(n))
	return edit.Score{Value: v, Score01: v, Unbounded: true}, nil
}

// region reports for every pixel of a picture, row by row, whether it belongs to the place: to its mask, or to its
// box.
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
	if err == nil { // black that is transparent, too, is outside, as in Pillow's convert("L"); over white it would not be
		mask, err = mask.DropAlpha()
	}
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
			return nil, fmt.Errorf("the mask %s has the colour (%d, %d, %d) at %d, %d: want only black (0) and white (255, the "+
				"region)", p.Mask, r, g, b, i%width, i/width)
		}
		inside[i] = r == 255
	}
	return inside, nil
}

// Distances are the names of the pixel distances.
var Distances = []string{"l1", "l2", "l1_source", "l2_source"}

// distance compares the edit with the target pixel by pixel, as MagicBrush does: values on 0..1, the edit resized to
// the target's size (bicubic). l1 is mean |a - b|, l2 mean (a - b)^2. l1_source and l2_source compare with the source
// instead.
type distance string

func openDistance(name string) *Metric {
	d := distance(name)
	return &Metric{name: name, fingerprint: name + "-pixels-1", roles: []string{"edit", d.from()}, value: d.value}
}

// from is the picture that the edit is compared with.
func (d distance) from() string {
	if strings.HasSuffix(string(d), "_source") {
		return "source"
	}
	return "target"
}

func (d distance) value(_ context.Context, s *edit.Views) (edit.Score, error) {
	target := s.ByRole[d.from()]
	output := s.ByRole["edit"].Resize(target.Width, target.Height, data.Bicubic)
	sum := 0.0
	for i, v := range output.Pix {
		difference := math.Abs(float64(v)-float64(target.Pix[i])) / 255
		if strings.HasPrefix(string(d), "l2") {
			difference *= difference
		}
		sum += difference
	}
	v := sum / float64(len(output.Pix))
	return edit.Score{Value: v, Score01: v, Unbounded: true}, nil
}

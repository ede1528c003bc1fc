package data

import (
	"fmt"
	"math"
	"testing"

	"assay/internal/testfile"
)

// gradientOf returns a picture's values as a gradient.
func gradientOf(p *Picture) *Gradient {
	s := NewGradient(p.Width, p.Height)
	for i, v := range p.Pix {
		s.Values[i] = float32(v)
	}
	return s
}

func dots(s *Gradient, p *Picture) (out [3]float64) {
	for i, v := range s.Values {
		out[i%3] += float64(v) * float64(p.Pix[i])
	}
	return out
}

func TestGradientResizeIsTheTransposeOfPillows(t *testing.T) {
	var cases []struct {
		Size, Resized []int
		Filter        string
		Dots          [3]float64
	}
	testfile.ReadJSON(t, "testdata/resize_adjoint.json", &cases)
	for _, c := range cases {
		t.Run(fmt.Sprint(c.Size, c.Resized, c.Filter), func(t *testing.T) {
			u := noise(c.Resized[0], c.Resized[1]).Rotate90(2)
			back := gradientOf(u).Resize(c.Size[0], c.Size[1], filters[c.Filter])
			if back.Width != c.Size[0] || back.Height != c.Size[1] {
				t.Fatalf("got %d x %d, want %d x %d", back.Width, back.Height, c.Size[0], c.Size[1])
			}
			got := dots(back, noise(c.Size[0], c.Size[1]))
			for i, want := range c.Dots {
				if !(math.Abs(got[i]-want) <= 2e-6*math.Abs(want)) {
					t.Errorf("channel %d: %g, Pillow %g", i, got[i], want)
				}
			}
		})
	}
}

// The others copy values, so that both sides of <u, A x> = <A' u, x> are exact.
func TestGradientOfCopies(t *testing.T) {
	x := noise(17, 11)
	for _, r := range [][4]int{{0, 0, 17, 11}, {3, 2, 5, 4}, {-4, -3, 30, 20}, {10, 8, 12, 9}, {20, 0, 3, 3}} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			y := x.Crop(r[0], r[1], r[2], r[3])
			u := noise(r[2], r[3]).Rotate90(2)
			back := NewGradient(17, 11)
			back.Paste(gradientOf(u), r[0], r[1])
			if got, want := dots(back, x), dots(gradientOf(u), y); got != want {
				t.Errorf("crop %v: %v, want %v", r, got, want)
			}
		})
	}
	a, b := noise(9, 7), noise(5, 7).Rotate90(2)
	u := noise(14, 7).FlipVertical()
	left, right := gradientOf(u).Crop(0, 0, 9, 7), gradientOf(u).Crop(9, 0, 5, 7)
	got, want := dots(left, a), dots(gradientOf(u), SideBySide(a, b))
	for i, v := range dots(right, b) {
		got[i] += v
	}
	if got != want {
		t.Errorf("side by side: %v, want %v", got, want)
	}
}

func TestGradientNormalize(t *testing.T) {
	mean, std := [3]float32{0.5, 0.4, 0.3}, [3]float32{0.25, 0.2, 0.5}
	p := noise(6, 5)
	u := p.Rotate90(2).Normalize(mean, std) // any numbers
	s := NewGradient(6, 5)
	s.Normalize(u, std)
	// increase each pixel by one level in turn, through Normalize itself
	for i := range p.Pix {
		q := p.Crop(0, 0, 6, 5)
		q.Pix[i] ^= 128
		step := float64(q.Pix[i]) - float64(p.Pix[i])
		at := i%3*30 + i/3
		change := float64(u[at]) * (float64(q.Normalize(mean, std)[at]) - float64(p.Normalize(mean, std)[at]))
		if got := float64(s.Values[i]) * step; !(math.Abs(got-change) <= 1e-5*math.Abs(change)) {
			t.Fatalf("value %d: %g, want %g", i, got, change)
		}
	}
}

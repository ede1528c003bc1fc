package data

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestResizeFloat: except for 8-bit rounding and clipping it equals Resize, and Gradient.Resize is its transpose, for
// both bicubic filters: <resize x, y> = <x, transposed y>.
func TestResizeFloat(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := NewPicture(23, 17)
	for i := range p.Pix {
		p.Pix[i] = byte(100 + rng.IntN(50))
	}
	for _, size := range [][2]int{{11, 8}, {40, 31}, {23, 9}, {5, 17}, {1, 1}} {
		rounded := p.Resize(size[0], size[1], Bicubic)
		for i, v := range p.ResizeFloat(size[0], size[1], Bicubic) {
			if !(math.Abs(float64(v)-float64(rounded.Pix[i])) <= 1.5) { // two passes are rounded
				t.Fatalf("%v: got %v at %d, want %v but for rounding", size, v, i, rounded.Pix[i])
			}
		}
		for name, f := range map[string]Filter{"antialias": Bicubic, "none": TorchBicubic} {
			y, forward, backward := NewGradient(size[0], size[1]), 0.0, 0.0
			for i, v := range p.ResizeFloat(size[0], size[1], f) {
				y.Values[i] = rng.Float32() - 0.5
				forward += float64(v) * float64(y.Values[i])
			}
			for i, v := range y.Resize(p.Width, p.Height, f).Values {
				backward += float64(v) * float64(p.Pix[i])
			}
			if !(math.Abs(forward-backward) <= 1e-3*float64(len(y.Values))) {
				t.Errorf("%v, %s: got %v by the transpose, want %v", size, name, backward, forward)
			}
		}
	}
}

package data

import "testing"

// TestHeatmap: red where the gradient is largest, pale grey where it is zero.
func TestHeatmap(t *testing.T) {
	const n = 200
	p, g := NewPicture(n, n), NewGradient(n, n)
	for y := 90; y < 110; y++ {
		for x := 20; x < 40; x++ {
			g.Values[3*(y*n+x)+1] = -5
		}
	}
	got := g.Heatmap(p)
	at := func(x, y int) [3]byte { return [3]byte(got.Pix[3*(y*n+x):][:3]) }
	if c := at(29, 99); c[0] < 200 || c[1] > 40 || c[2] > 40 {
		t.Errorf("where the gradient is: got %v, want red", c)
	}
	if c := at(150, 50); c != [3]byte{128, 128, 128} {
		t.Errorf("black without a gradient: got %v, want pale grey", c)
	}
	if got := NewGradient(n, n).Heatmap(p); got.Pix[0] != 128 {
		t.Errorf("no gradient at all: got %d, want grey", got.Pix[0])
	}
}

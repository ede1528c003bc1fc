package data

import (
	"math"
	"slices"
)

// Heatmap overlays the gradient's norm at each pixel on its picture p in pale grey, from transparent through yellow to
// red. It is smoothed over a fiftieth of the diagonal; full red is the 99th percentile.
func (s *Gradient) Heatmap(p *Picture) *Picture {
	heat := make([]float64, p.Width*p.Height)
	for i := range heat {
		r, g, b := float64(s.Values[3*i]), float64(s.Values[3*i+1]), float64(s.Values[3*i+2])
		heat[i] = math.Sqrt(r*r + g*g + b*b)
	}
	radius := int(math.Hypot(float64(p.Width), float64(p.Height)) / 50)
	for range 3 { // three boxes are close to a Gaussian
		heat = boxBlurRows(heat, p.Width, radius)
		heat = transpose(boxBlurRows(transpose(heat, p.Width), p.Height, radius), p.Height)
	}
	sorted := slices.Sorted(slices.Values(heat))
	full := sorted[len(sorted)*99/100]
	if full == 0 {
		full = 1
	}
	out := NewPicture(p.Width, p.Height)
	for i, h := range heat {
		t := min(h/full, 1)
		grey := 0.5*255 + 0.5*(0.299*float64(p.Pix[3*i])+0.587*float64(p.Pix[3*i+1])+0.114*float64(p.Pix[3*i+2]))
		for c, hot := range [3]float64{230, 200 * (1 - t), 30 * (1 - t)} {
			out.Pix[3*i+c] = byte(grey*(1-0.85*t) + hot*0.85*t + 0.5)
		}
	}
	return out
}

// boxBlurRows averages each value with its neighbours in the row, fewer at the edges.
func boxBlurRows(v []float64, width, radius int) []float64 {
	out := make([]float64, len(v))
	sums := make([]float64, width+1)
	for y := 0; y < len(v); y += width {
		for x := range width {
			sums[x+1] = sums[x] + v[y+x]
		}
		for x := range width {
			lo, hi := max(x-radius, 0), min(x+radius+1, width)
			out[y+x] = (sums[hi] - sums[lo]) / float64(hi-lo)
		}
	}
	return out
}

func transpose(v []float64, width int) []float64 {
	height := len(v) / width
	out := make([]float64, len(v))
	for y := range height {
		for x := range width {
			out[x*height+y] = v[y*width+x]
		}
	}
	return out
}

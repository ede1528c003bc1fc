package encoders

import "math"

// resample returns a position table [side*side, width] on a grid of height x length cells, as torch's bicubic
// interpolate with align_corners false does. antialias selects its other filter, the one of DINOv2 with registers.
func resample(table []float32, side, height, length, width int, antialias bool) []float32 {
	taps := bicubicTaps
	if antialias {
		taps = antialiasedTaps
	}
	rows := make([]float64, height*side*width) // [height, side, width]
	for y, weights := range taps(side, height) {
		for source, weight := range weights {
			for i := range side * width {
				rows[y*side*width+i] += weight * float64(table[source*side*width+i])
			}
		}
	}
	out := make([]float32, height*length*width)
	columns := taps(side, length)
	cell := make([]float64, width)
	for y := range height {
		for x, weights := range columns {
			clear(cell)
			for source, weight := range weights {
				for i := range cell {
					cell[i] += weight * rows[(y*side+source)*width+i]
				}
			}
			for i, v := range cell {
				out[(y*length+x)*width+i] = float32(v)
			}
		}
	}
	return out
}

// bicubicTaps returns for every one of out cells the weight of each of in cells: four neighbours, a = -0.75, those
// beyond the edge counted to the edge.
func bicubicTaps(in, out int) [][]float64 {
	rows := make([][]float64, out)
	for i := range rows {
		rows[i] = make([]float64, in)
		x := (float64(i)+0.5)*float64(in)/float64(out) - 0.5
		for at := int(math.Floor(x)) - 1; at <= int(math.Floor(x))+2; at++ {
			rows[i][min(max(at, 0), in-1)] += cubic(x-float64(at), -0.75)
		}
	}
	return rows
}

// antialiasedTaps is Pillow's filter: a = -0.5, widened when shrinking, cut at the edges and normalised.
func antialiasedTaps(in, out int) [][]float64 {
	rows := make([][]float64, out)
	scale := float64(in) / float64(out)
	wide := max(scale, 1)
	for i := range rows {
		rows[i] = make([]float64, in)
		centre, sum := (float64(i)+0.5)*scale, 0.0
		for at := max(int(centre-2*wide+0.5), 0); at < min(int(centre+2*wide+0.5), in); at++ {
			rows[i][at] = cubic((float64(at)-centre+0.5)/wide, -0.5)
			sum += rows[i][at]
		}
		for at := range rows[i] {
			rows[i][at] /= sum
		}
	}
	return rows
}

// cubic is Keys' convolution kernel.
func cubic(x, a float64) float64 {
	switch x = math.Abs(x); {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

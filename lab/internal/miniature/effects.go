package miniature

import "assay/data"

// canvas is a square picture with three values from 0 to 1 per pixel. The float32 conversions of products in this
// package forbid fused multiply-add, so every machine draws the same pixels.
type canvas struct {
	side int
	pix  []float32
}

func newCanvas(side int) *canvas { return &canvas{side, make([]float32, 3*side*side)} }

func (c *canvas) clone() *canvas { return &canvas{c.side, append([]float32(nil), c.pix...)} }

func (c *canvas) at(x, y int) []float32 {
	i := 3 * (y*c.side + x)
	return c.pix[i : i+3 : i+3]
}

// picture rounds to 8 bits.
func (c *canvas) picture() *data.Picture {
	p := data.NewPicture(c.side, c.side)
	for i, v := range c.pix {
		p.Pix[i] = byte(float32(clip(v)*255) + 0.5)
	}
	return p
}

func clip(v float32) float32 { return min(1, max(0, v)) }

// mix returns a + t (b - a).
func mix(a, b, t float32) float32 { return a + float32(t*(b-a)) }

// apply returns the canvas after an effect on the whole picture. Effects without a strength (invert, blur, blocks,
// borders) are applied to half of the picture, or with a smaller size, if the step is not complete.
func apply(c *canvas, step Step) *canvas {
	s := float32(step.Strength)
	switch step.Family {
	case Grey:
		return c.pixels(func(_ int, v []float32) {
			grey := luminance(v)
			v[0], v[1], v[2] = mix(v[0], grey, s), mix(v[1], grey, s), mix(v[2], grey, s)
		})
	case Sepia:
		return c.pixels(func(_ int, v []float32) {
			r, g, b := v[0], v[1], v[2]
			for i, w := range sepia {
				v[i] = mix(v[i], clip(float32(w[0]*r)+float32(w[1]*g)+float32(w[2]*b)), s)
			}
		})
	case Invert:
		to := c.side
		if !step.complete() {
			to /= 2
		}
		return c.pixels(func(x int, v []float32) {
			if x < to {
				v[0], v[1], v[2] = 1-v[0], 1-v[1], 1-v[2]
			}
		})
	case Temperature:
		d := 0.16 * s
		if step.Variant == "cooler" {
			d = -d
		}
		return c.pixels(
			func(_ int, v []float32) { v[0], v[1], v[2] = clip(v[0]+d), clip(v[1]+float32(0.12*d)), clip(v[2]-d) })
	case Light:
		factor, offset := 1+float32(0.45*s), float32(0.1*s)
		if step.Variant == "darker" {
			factor, offset = 1-float32(0.5*s), 0
		}
		return c.pixels(func(_ int, v []float32) {
			for i := range v {
				v[i] = clip(float32(v[i]*factor) + offset)
			}
		})
	case Focus:
		if step.Variant == "blur" {
			return c.blur(sized(step, 8, 1))
		}
		soft, out := c.blur(2), c.clone()
		for i, v := range c.pix {
			out.pix[i] = clip(v + float32(float32(2.2*s)*(v-soft.pix[i])))
		}
		return out
	case Pixelate:
		return c.blocks(sized(step, c.side/8, c.side*3/64))
	case Border:
		return c.border(sized(step, c.side*5/64, c.side*2/64), colours[step.Colour])
	}
	return c.turn(step.Edit)
}

var sepia = [3][3]float32{{0.393, 0.769, 0.189}, {0.349, 0.686, 0.168}, {0.272, 0.534, 0.131}}

func luminance(v []float32) float32 {
	return float32(0.3*v[0]) + float32(0.59*v[1]) + float32(0.11*v[2])
}

// sized returns complete or half, depending on whether the step is complete.
func sized(step Step, complete, half int) int {
	if step.complete() {
		return complete
	}
	return half
}

// pixels returns a copy in which f has changed every pixel.
func (c *canvas) pixels(f func(x int, v []float32)) *canvas {
	out := c.clone()
	for i := 0; i < len(out.pix); i += 3 {
		f(i/3%c.side, out.pix[i:i+3:i+3])
	}
	return out
}

// blur filters with (1, 2, 1)/4 in both directions, often enough to look like the given number of times at 64 pixels.
func (c *canvas) blur(times int) *canvas {
	out, tmp := c.clone(), newCanvas(c.side)
	n, row := c.side, 3*c.side
	for range max(1, times*n*n/4096) {
		for i, v := range out.pix {
			up, down := i-row, i+row
			if up < 0 {
				up = i
			}
			if down >= len(out.pix) {
				down = i
			}
			tmp.pix[i] = 0.25 * (out.pix[up] + 2*v + out.pix[down])
		}
		for y := range n {
			in, to := tmp.pix[y*row:(y+1)*row], out.pix[y*row:(y+1)*row]
			for i, v := range in {
				left, right := i-3, i+3
				if left < 0 {
					left = i
				}
				if right >= row {
					right = i
				}
				to[i] = 0.25 * (in[left] + 2*v + in[right])
			}
		}
	}
	return out
}

// blocks paints every block of size pixels in its mean colour.
func (c *canvas) blocks(size int) *canvas {
	out := c.clone()
	for top := 0; top < c.side; top += size {
		for left := 0; left < c.side; left += size {
			bottom, right := min(top+size, c.side), min(left+size, c.side)
			var sum [3]float32
			for y := top; y < bottom; y++ {
				for x := left; x < right; x++ {
					for i, v := range c.at(x, y) {
						sum[i] += v
					}
				}
			}
			for i := range sum {
				sum[i] /= float32((bottom - top) * (right - left))
			}
			out.fill(left, top, right-left, bottom-top, sum)
		}
	}
	return out
}

func (c *canvas) fill(left, top, width, height int, colour [3]float32) {
	for y := top; y < top+height; y++ {
		for x := left; x < left+width; x++ {
			copy(c.at(x, y), colour[:])
		}
	}
}

func (c *canvas) border(width int, colour [3]float32) *canvas {
	out := c.clone()
	n := c.side
	out.fill(0, 0, n, width, colour)
	out.fill(0, n-width, n, width, colour)
	out.fill(0, 0, width, n, colour)
	out.fill(n-width, 0, width, n, colour)
	return out
}

// turn flips or rotates the picture.
func (c *canvas) turn(e Edit) *canvas {
	out := newCanvas(c.side)
	last := c.side - 1
	for y := range c.side {
		for x := range c.side {
			fx, fy := x, y
			switch e.Variant {
			case "horizontally":
				fx = last - x
			case "vertically":
				fy = last - y
			case "clockwise":
				fx, fy = y, last-x
			case "counterclockwise":
				fx, fy = last-y, x
			case "half":
				fx, fy = last-x, last-y
			}
			copy(out.at(x, y), c.at(fx, fy))
		}
	}
	return out
}

// difference returns the mean absolute difference of two canvases.
func difference(a, b *canvas) float64 {
	sum := 0.0
	for i, v := range a.pix {
		sum += float64(max(v-b.pix[i], b.pix[i]-v))
	}
	return sum / float64(len(a.pix))
}

package main

import (
	"math"
	"math/rand/v2"

	"assay/data"
)

// family is one kind of edit: how it is asked for, and what it does to a picture. strength 1 is the right edit, 0.5 half of
// it, 2 too much.
type family struct {
	name    string
	wording []string
	apply   func(p *data.Picture, strength float64) *data.Picture
}

// families of the demonstration. They are few and easy on purpose: global changes of colour, light and sharpness.
var families = []family{
	{"grey", []string{"make it black and white", "remove the colours", "turn the picture grey", "convert this to a greyscale photo"}, grey},
	{"brighter", []string{"make it brighter", "add more light", "brighten the picture", "it is too dark, lighten it"}, light(0.55)},
	{"darker", []string{"make it darker", "reduce the light", "darken the picture", "it is too bright, dim it"}, light(-0.55)},
	{"red", tintWords("red"), tint(230, 40, 40)},
	{"blue", tintWords("blue"), tint(50, 80, 230)},
	{"blurred", []string{"blur the picture", "make it blurry", "put it out of focus", "soften everything"}, blur},
}

func tintWords(colour string) []string {
	return []string{"tint it " + colour, "give it a " + colour + " tone", "add a " + colour + " cast", "make everything look " + colour}
}

// each returns a picture with f applied to every pixel (r, g, b on 0..255).
func each(p *data.Picture, f func(r, g, b float64) (float64, float64, float64)) *data.Picture {
	out := data.NewPicture(p.Width, p.Height)
	for i := 0; i < len(p.Pix); i += 3 {
		r, g, b := f(float64(p.Pix[i]), float64(p.Pix[i+1]), float64(p.Pix[i+2]))
		out.Pix[i], out.Pix[i+1], out.Pix[i+2] = level(r), level(g), level(b)
	}
	return out
}

func level(v float64) byte { return byte(math.Max(0, math.Min(255, math.Round(v)))) }

func mix(a, b, t float64) float64 { return a + (b-a)*t }

// vary gives a source picture other light, contrast and colours, so that a few photographs make many different pictures.
func vary(p *data.Picture, rng *rand.Rand) *data.Picture {
	gamma, contrast := math.Exp(0.5*rng.NormFloat64()), math.Exp(0.25*rng.NormFloat64())
	order := rng.Perm(3)
	var gain [3]float64
	for i := range gain {
		gain[i] = math.Exp(0.15 * rng.NormFloat64())
	}
	return each(p, func(r, g, b float64) (float64, float64, float64) {
		in, out := [3]float64{r, g, b}, [3]float64{}
		for i, from := range order {
			v := 255 * math.Pow(in[from]/255, gamma) * gain[i]
			out[i] = 128 + (v-128)*contrast
		}
		return out[0], out[1], out[2]
	})
}

// grey loses its colours; too much of it loses the contrast as well.
func grey(p *data.Picture, s float64) *data.Picture {
	return each(p, func(r, g, b float64) (float64, float64, float64) {
		y := 0.299*r + 0.587*g + 0.114*b
		t := math.Min(s, 1)
		r, g, b = mix(r, y, t), mix(g, y, t), mix(b, y, t)
		if s > 1 {
			flat := 0.75 * (s - 1)
			r, g, b = mix(r, 128, flat), mix(g, 128, flat), mix(b, 128, flat)
		}
		return r, g, b
	})
}

// light moves values by a power: positive brightens, negative darkens, black and white stay.
func light(by float64) func(*data.Picture, float64) *data.Picture {
	return func(p *data.Picture, s float64) *data.Picture {
		gamma := math.Exp(-by * 1.4 * s)
		return each(p, func(r, g, b float64) (float64, float64, float64) {
			f := func(v float64) float64 { return 255 * math.Pow(v/255, gamma) }
			return f(r), f(g), f(b)
		})
	}
}

func tint(tr, tg, tb float64) func(*data.Picture, float64) *data.Picture {
	return func(p *data.Picture, s float64) *data.Picture {
		t := math.Min(0.38*s, 0.9)
		return each(p, func(r, g, b float64) (float64, float64, float64) { return mix(r, tr, t), mix(g, tg, t), mix(b, tb, t) })
	}
}

// blur shrinks the picture and enlarges it again.
func blur(p *data.Picture, s float64) *data.Picture {
	factor := 1 + 4*s
	w, h := max(1, int(float64(p.Width)/factor)), max(1, int(float64(p.Height)/factor))
	return p.Resize(w, h, data.Bilinear).Resize(p.Width, p.Height, data.Bilinear)
}

// damage spoils a picture as a broken editor would: noise, a black bar, or shuffled blocks.
func damage(p *data.Picture, rng *rand.Rand) *data.Picture {
	out := p.Crop(0, 0, p.Width, p.Height)
	switch rng.IntN(3) {
	case 0:
		for i := range out.Pix {
			out.Pix[i] = level(float64(out.Pix[i]) + 90*rng.NormFloat64())
		}
	case 1:
		top := rng.IntN(p.Height / 2)
		clear(out.Pix[3*p.Width*top : 3*p.Width*(top+p.Height/2)])
	default:
		const n = 4
		w, h := p.Width/n, p.Height/n
		for i, j := range rng.Perm(n * n) {
			block := p.Crop(j%n*w, j/n*h, w, h)
			for y := range h {
				copy(out.Pix[3*((i/n*h+y)*p.Width+i%n*w):], block.Pix[3*y*w:3*(y+1)*w])
			}
		}
	}
	return out
}

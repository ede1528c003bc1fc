package labeling

import (
	"bytes"
	"image"
	"image/jpeg"
	"path/filepath"
	"testing"

	"assay/data"
)

const photos = "../../examples/photos"

func filled(w, h int, r, g, b byte) *data.Picture {
	p := data.NewPicture(w, h)
	for i := 0; i < len(p.Pix); i += 3 {
		p.Pix[i], p.Pix[i+1], p.Pix[i+2] = r, g, b
	}
	return p
}

// laid draws a picture on another one.
func laid(on, p *data.Picture, left, top int) *data.Picture {
	for y := range p.Height {
		copy(on.Pix[3*((top+y)*on.Width+left):], p.Pix[3*y*p.Width:3*(y+1)*p.Width])
	}
	return on
}

func crop(p *data.Picture, left, top, right, bottom float64) *data.Picture {
	w, h := float64(p.Width), float64(p.Height)
	x0, y0, x1, y1 := int(left*w+.5), int(top*h+.5), int((1-right)*w+.5), int((1-bottom)*h+.5)
	return p.Crop(x0, y0, x1-x0, y1-y0)
}

func asJPEG(p *data.Picture, quality int) *data.Picture {
	rgba := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(rgba.Pix[4*i:], append(p.Pix[3*i:3*i+3:3*i+3], 255))
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, rgba, &jpeg.Options{Quality: quality}); err != nil {
		panic(err)
	}
	out, err := data.Image{Bytes: b.Bytes()}.Open("", data.Limits{})
	if err != nil {
		panic(err)
	}
	return out
}

// watermark draws half-transparent stripes over the lower right corner: a quarter of the width, a tenth of the
// height.
func watermark(p *data.Picture) *data.Picture {
	out := p.Crop(0, 0, p.Width, p.Height)
	w, h := p.Width/4, max(p.Height/10, 1)
	for y := p.Height - 3*h/2; y < p.Height-h/2; y++ {
		for x := p.Width - 9*w/8; x < p.Width-w/8; x++ {
			if x/2%3 != 0 {
				for c := range 3 {
					i := 3*(y*p.Width+x) + c
					out.Pix[i] = byte((int(p.Pix[i]) + 255) / 2)
				}
			}
		}
	}
	return out
}

// tiles cuts photographs into pictures that show different things, made 96 pixels wide and high.
func tiles(t *testing.T) (out []*data.Picture) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(photos, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	const side, every = 48, 5
	n := 0
	for _, name := range names {
		p, err := data.Open(name, data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for y := 0; y+side <= p.Height; y += side {
			for x := 0; x+side <= p.Width; x += side {
				if n++; n%every == 0 {
					out = append(out, p.Crop(x, y, side, side).Resize(96, 96, data.Lanczos))
				}
			}
		}
	}
	return out
}

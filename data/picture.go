// Package data reads and writes pictures and tables of edits.
//
//	Picture   decoded RGB, the same pixels as Pillow's: Decode, Resize, Crop, Normalize, Digest
//	Image     a picture as a table stores it: a path, or the bytes of a file; Image.Open decodes it
//	Table     a Parquet, JSONL, JSON, CSV or TSV file, read row by row in any order
//	Record    a row of any table, with its columns in order; Table.Rewrite writes the rows back with added columns
//	Row       a row of a label table: an edit, its label, and the rule that labelled it
//	Edits     a table as training reads it, in any of three layouts (OpenEdits): Rows with labels and ranks by
//	          dimension, and the Verdict on the two edits of a row of preferences
//
// Package data/parquet reads and writes the Parquet format; package data/readers reads the layouts of published
// datasets.
package data

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"

	"assay/internal/atomicfile"
)

// Picture is an 8-bit RGB picture. Pix holds Height rows of Width pixels, three bytes each, without padding.
type Picture struct {
	Width, Height int
	Pix           []byte

	bare     []byte // like Pix, but not composited over white; nil: the file has no transparency. See DropAlpha
	bareLost bool   // the file has transparency, and the decoder did not keep the colours
}

// PictureEndings are the file name extensions, in lower case, of the picture formats that are read.
var PictureEndings = []string{".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"}

// Check validates a picture that a caller assembled: it must have exactly 3 bytes per pixel.
func (p *Picture) Check() error {
	if p == nil {
		return errors.New("no picture")
	}
	if p.Width <= 0 || p.Height <= 0 {
		return fmt.Errorf("a picture of %d x %d pixels: both sides must be positive", p.Width, p.Height)
	}
	if p.Height > math.MaxInt/3/p.Width || len(p.Pix) != 3*p.Width*p.Height {
		return fmt.Errorf("a picture of %d x %d pixels has %d bytes, want three per pixel",
			p.Width, p.Height, len(p.Pix))
	}
	return nil
}

// Decode returns the picture itself, which is already decoded.
func (p *Picture) Decode() (*Picture, error) { return p, nil }

// NewPicture returns a black picture of width x height pixels.
func NewPicture(width, height int) *Picture {
	return &Picture{Width: width, Height: height, Pix: make([]byte, 3*width*height)}
}

// row returns the 3*Width bytes of row y.
func (p *Picture) row(y int) []byte { return p.Pix[3*p.Width*y : 3*p.Width*(y+1)] }

// Crop copies the rectangle of width x height pixels whose top left corner is (left, top). Pixels outside the picture
// are black, as in Pillow's crop.
func (p *Picture) Crop(left, top, width, height int) *Picture {
	out := NewPicture(width, height)
	from, to := max(left, 0), min(left+width, p.Width)
	if from >= to {
		return out
	}
	for y := max(top, 0); y < min(top+height, p.Height); y++ {
		copy(out.row(y - top)[3*(from-left):], p.row(y)[3*from:3*to])
	}
	return out
}

// FlipHorizontal mirrors left and right.
func (p *Picture) FlipHorizontal() *Picture {
	out := NewPicture(p.Width, p.Height)
	for y := range p.Height {
		src, dst := p.row(y), out.row(y)
		for i, j := 0, len(dst)-3; j >= 0; i, j = i+3, j-3 {
			dst[j], dst[j+1], dst[j+2] = src[i], src[i+1], src[i+2]
		}
	}
	return out
}

// FlipVertical mirrors top and bottom.
func (p *Picture) FlipVertical() *Picture {
	out := NewPicture(p.Width, p.Height)
	for y := range p.Height {
		copy(out.row(p.Height-1-y), p.row(y))
	}
	return out
}

// Transpose mirrors at the main diagonal: rows become columns.
func (p *Picture) Transpose() *Picture {
	out := NewPicture(p.Height, p.Width)
	for y := range p.Height {
		src := p.row(y)
		for x, j := 0, 3*y; x < p.Width; x, j = x+1, j+3*p.Height {
			copy(out.Pix[j:j+3], src[3*x:3*x+3])
		}
	}
	return out
}

// Rotate90 turns the picture counter-clockwise by the given number of quarter turns (any integer), as Pillow's
// ROTATE_90 does.
func (p *Picture) Rotate90(turns int) *Picture {
	switch turns & 3 {
	case 1:
		return p.Transpose().FlipVertical()
	case 2:
		return p.FlipVertical().FlipHorizontal()
	case 3:
		return p.Transpose().FlipHorizontal()
	}
	return p.Crop(0, 0, p.Width, p.Height)
}

// SideBySide pastes b to the right of a; if their heights differ, the shorter one is padded with black.
func SideBySide(a, b *Picture) *Picture {
	out := NewPicture(a.Width+b.Width, max(a.Height, b.Height))
	for y := range a.Height {
		copy(out.row(y), a.row(y))
	}
	for y := range b.Height {
		copy(out.row(y)[3*a.Width:], b.row(y))
	}
	return out
}

// Normalize returns the picture channels first, [3, Height, Width], the way transformers' PIL image processors do: v
// = float32(float64(x) / 255), then (v - mean) / std in float32. A channel has only 256 values, so it uses a lookup
// table.
func (p *Picture) Normalize(mean, std [3]float32) []float32 {
	n := p.Width * p.Height
	out := make([]float32, 3*n)
	var table [256]float32
	for c := range 3 {
		for x := range table {
			table[x] = (float32(float64(x)/255) - mean[c]) / std[c]
		}
		plane := out[c*n : (c+1)*n]
		for i := range plane {
			plane[i] = table[p.Pix[3*i+c]]
		}
	}
	return out
}

// EncodePNG writes the picture as an 8-bit RGB PNG.
func (p *Picture) EncodePNG(w io.Writer) error {
	m := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i, j := 0, 0; i+2 < len(p.Pix); i, j = i+3, j+4 {
		m.Pix[j], m.Pix[j+1], m.Pix[j+2], m.Pix[j+3] = p.Pix[i], p.Pix[i+1], p.Pix[i+2], 255
	}
	return png.Encode(w, m)
}

// WritePNG writes the picture to a PNG file, atomically.
func (p *Picture) WritePNG(path string) error { return atomicfile.Write(path, p.EncodePNG) }

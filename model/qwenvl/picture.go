package qwenvl

import (
	"fmt"
	"math"

	"assay/data"
	"assay/model/backbone"
)

// Grid is a picture's size in patches.
type Grid struct{ Rows, Cols int }

// Prepare resizes a picture to whole tokens and cuts it into patches (transformers' Qwen2VLImageProcessor with Pillow).
// Pixels are [patches, 3*frames*patch*patch], normalised, each row laid out (channel, frame, y, x); the patches of a
// token are consecutive. One picture fills all frames of a patch; otherwise there is one picture per frame.
func (b *Family) Prepare(frames ...*data.Picture) (*backbone.Picture, error) {
	v := b.Tower
	if len(frames) != 1 && len(frames) != v.Frames {
		return nil, fmt.Errorf("%s takes one picture, or %d as the frames of one, not %d", b.Name, v.Frames, len(frames))
	}
	first := frames[0]
	for _, p := range frames[1:] {
		if p.Width != first.Width || p.Height != first.Height {
			return nil, fmt.Errorf("frames of one picture have different sizes: %dx%d and %dx%d", first.Width, first.Height,
				p.Width, p.Height)
		}
	}
	h, w, err := b.smartSize(first.Height, first.Width)
	if err != nil {
		return nil, err
	}
	at := Grid{h / v.Patch, w / v.Patch}
	pixels := make([]float32, at.Rows*at.Cols*v.Values())
	for k := range v.Frames {
		if k < len(frames) {
			b.patchify(pixels, frames[k].Resize(w, h, data.Bicubic).Normalize(b.colours.Mean, b.colours.Std), at, k)
		} else {
			b.repeat(pixels, k)
		}
	}
	return &backbone.Picture{
		Height: first.Height,
		Width:  first.Width,
		Pixels: pixels,
		Rows:   at.Rows * at.Cols,
		Seen:   at.Rows * at.Cols,
		Tokens: at.Rows * at.Cols / v.Unit(),
		Layout: at,
	}, nil
}

// Processing describes everything that Prepare depends on.
func (b *Family) Processing() string {
	return fmt.Sprint(b.Name+" ", b.Tower.Patch, b.Tower.Frames, b.Tower.Merge, b.least, b.most, b.colours)
}

// ProcessorConfig returns the sizes of patches and pictures.
func (b *Family) ProcessorConfig() backbone.ProcessorConfig {
	return backbone.ProcessorConfig{
		ModelType:         b.Name,
		ImageMean:         b.colours.Mean,
		ImageStd:          b.colours.Std,
		PatchSize:         b.Tower.Patch,
		MergeSize:         b.Tower.Merge,
		TemporalPatchSize: b.Tower.Frames,
		MinPixels:         b.least,
		MaxPixels:         b.most,
	}
}

// patchify writes frame f of every patch from a picture [3, H, W].
func (b *Family) patchify(to, picture []float32, at Grid, f int) {
	b.eachRow(at, f, func(patch, from, p int) { copy(to[patch:patch+p], picture[from:from+p]) })
}

// eachRow calls do for every row of p pixels of every patch, with its offset in frame f of the patches and in a picture
// [3, H, W].
func (b *Family) eachRow(at Grid, f int, do func(patch, picture, p int)) {
	v := b.Tower
	p, width := v.Patch, at.Cols*v.Patch
	plane := at.Rows * p * width
	b.EachPatch(at, func(i, row, col int) {
		for c := range 3 {
			for y := range p {
				do((((i*3+c)*v.Frames+f)*p+y)*p, c*plane+(row*p+y)*width+col*p, p)
			}
		}
	})
}

// repeat copies frame 0 of every patch to frame f.
func (b *Family) repeat(pixels []float32, f int) {
	n := b.Tower.Patch * b.Tower.Patch
	for i := 0; i < len(pixels); i += b.Tower.Frames * n {
		copy(pixels[i+f*n:i+(f+1)*n], pixels[i:i+n])
	}
}

// EachPatch calls f with the index of every patch in pixel_values and its row and column in the picture: tokens row by
// row, and the patches of a token row by row.
func (b *Family) EachPatch(at Grid, f func(i, row, col int)) {
	m, i := b.Tower.Merge, 0
	for row := 0; row < at.Rows; row += m {
		for col := 0; col < at.Cols; col += m {
			for k := range m * m {
				f(i, row+k/m, col+k%m)
				i++
			}
		}
	}
}

// smartSize returns the height and width that a picture is resized to: multiples of a token's edge, between the two
// limits, close to the picture's aspect ratio (transformers' smart_resize, with Python's rounding).
func (b *Family) smartSize(h, w int) (int, int, error) {
	if h < 1 || w < 1 || max(h, w) > 200*min(h, w) {
		return 0, 0, fmt.Errorf("a picture of %dx%d pixels: %s takes aspect ratios of at most 200:1", w, h, b.Name)
	}
	factor := b.Tower.Patch * b.Tower.Merge
	f, height, width := float64(factor), float64(h), float64(w)
	hh, ww := int(math.RoundToEven(height/f))*factor, int(math.RoundToEven(width/f))*factor
	if hh*ww > b.most {
		beta := math.Sqrt(height * width / float64(b.most))
		return max(factor, int(math.Floor(height/beta/f))*factor), max(factor, int(math.Floor(width/beta/f))*factor), nil
	}
	if hh*ww < b.least {
		beta := math.Sqrt(float64(b.least) / (height * width))
		return int(math.Ceil(height*beta/f)) * factor, int(math.Ceil(width*beta/f)) * factor, nil
	}
	return hh, ww, nil
}

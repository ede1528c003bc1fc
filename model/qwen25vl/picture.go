package qwen25vl

import (
	"fmt"
	"math"

	"assay/data"
	"assay/model"
)

// grid is a picture's size in patches.
type grid struct{ rows, cols int }

// Prepare resizes a picture to whole tokens and cuts it into patches (transformers' Qwen2VLImageProcessor with Pillow).
// Pixels are [patches, 3*frames*patch*patch], normalised, each row laid out (channel, frame, y, x); the patches of a
// token follow each other. One picture fills all frames of a patch; otherwise there is a picture for each.
func (b *Architecture) Prepare(frames ...*data.Picture) (*model.Picture, error) {
	v := b.vision
	if len(frames) != 1 && len(frames) != v.Frames {
		return nil, fmt.Errorf("qwen2_5_vl takes one picture, or %d as the frames of one, not %d", v.Frames, len(frames))
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
	at := grid{h / v.Patch, w / v.Patch}
	pixels := make([]float32, at.rows*at.cols*3*v.Frames*v.Patch*v.Patch)
	for f := range v.Frames {
		if f < len(frames) {
			b.patchify(pixels, frames[f].Resize(w, h, data.Bicubic).Normalize(b.colours.Mean, b.colours.Std), at, f)
		} else {
			b.repeat(pixels, f)
		}
	}
	return &model.Picture{
		Height: first.Height,
		Width:  first.Width,
		Pixels: pixels,
		Rows:   at.rows * at.cols,
		Tokens: at.rows * at.cols / v.unit(),
		Layout: at,
	}, nil
}

// patchify writes frame f of every patch from a picture [3, H, W].
func (b *Architecture) patchify(to, picture []float32, at grid, f int) {
	v := b.vision
	p, width := v.Patch, at.cols*v.Patch
	plane := at.rows * p * width
	b.eachPatch(at, func(i, row, col int) {
		for c := range 3 {
			patch := to[((i*3+c)*v.Frames+f)*p*p:]
			for y := range p {
				from := c*plane + (row*p+y)*width + col*p
				copy(patch[y*p:(y+1)*p], picture[from:from+p])
			}
		}
	})
}

// repeat copies frame 0 of every patch to frame f.
func (b *Architecture) repeat(pixels []float32, f int) {
	n := b.vision.Patch * b.vision.Patch
	for i := 0; i < len(pixels); i += b.vision.Frames * n {
		copy(pixels[i+f*n:i+(f+1)*n], pixels[i:i+n])
	}
}

// eachPatch calls f with the place of every patch in pixel_values and in the picture: tokens row by row, and the
// patches of a token row by row.
func (b *Architecture) eachPatch(at grid, f func(i, row, col int)) {
	m, i := b.vision.Merge, 0
	for row := 0; row < at.rows; row += m {
		for col := 0; col < at.cols; col += m {
			for k := range m * m {
				f(i, row+k/m, col+k%m)
				i++
			}
		}
	}
}

// smartSize is the size that a picture is resized to: multiples of a token's edge, between the two limits, near the
// picture's aspect (transformers' smart_resize, with Python's rounding).
func (b *Architecture) smartSize(h, w int) (int, int, error) {
	if h < 1 || w < 1 || max(h, w) > 200*min(h, w) {
		return 0, 0, fmt.Errorf("a picture of %dx%d pixels: qwen2_5_vl takes sides of at most 200 to 1", w, h)
	}
	factor := b.vision.Patch * b.vision.Merge
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

// Positions follow text on all three axes alike; a picture that begins at s has time s, and s plus row and column of
// each token; what follows it goes on behind the longer side (get_rope_index).
func (b *Architecture) Positions(ids []int64, pictures []*model.Picture) [][]int64 {
	axes := make([][]int64, 3)
	for a := range axes {
		axes[a] = make([]int64, len(ids))
	}
	next := int64(0)
	for i := 0; i < len(ids); {
		if ids[i] != b.decoder.ImageToken || len(pictures) == 0 {
			for a := range axes {
				axes[a][i] = next
			}
			next, i = next+1, i+1
			continue
		}
		at := pictures[0].Layout.(grid)
		rows, cols := at.rows/b.vision.Merge, at.cols/b.vision.Merge
		for k := 0; k < rows*cols && i+k < len(ids); k++ {
			axes[0][i+k], axes[1][i+k], axes[2][i+k] = next, next+int64(k/cols), next+int64(k%cols)
		}
		next, i, pictures = next+int64(max(rows, cols)), i+rows*cols, pictures[1:]
	}
	return axes
}

package llavanext

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/model/backbone"
	"assay/model/nn"
)

// layout describes one picture for packing: the grid of its tiles' features and the part of it that is kept.
type layout struct {
	gridH, gridW int // features of all tiles as one grid
	top, left    int // rows and columns cut on each side (unpadding)
	rows, cols   int // the part that is kept
}

// Prepare cuts a picture into tiles: the full picture squashed to S x S, then an any-resolution grid of S x S tiles
// (transformers' LlavaNextImageProcessor with Pillow). Pixels are [tiles, 3, S, S], normalised.
func (b *Architecture) Prepare(frames ...*data.Picture) (*backbone.Picture, error) {
	if len(frames) != 1 {
		return nil, fmt.Errorf("llava_next takes one picture at a time, not %d frames", len(frames))
	}
	p := frames[0]
	gridH, gridW := b.bestResolution(p.Height, p.Width)
	tilesH, tilesW := gridH/b.crop, gridW/b.crop

	size := 3 * b.crop * b.crop
	pixels := make([]float32, 0, (1+tilesH*tilesW)*size)
	pixels = append(pixels, p.Resize(b.crop, b.crop, data.Bicubic).Normalize(b.colours.Mean, b.colours.Std)...)

	h, w := fit(p.Height, p.Width, gridH, gridW)
	canvas := p.Resize(w, h, data.Bicubic).Crop(-((gridW - w) / 2), -((gridH - h) / 2), gridW, gridH) // black around it
	for y := range tilesH {
		for x := range tilesW {
			pixels = append(pixels, canvas.Crop(x*b.crop, y*b.crop, b.crop, b.crop).Normalize(b.colours.Mean, b.colours.Std)...)
		}
	}
	l := b.unpad(p.Height, p.Width, gridH, gridW)
	side := b.side()
	return &backbone.Picture{
		Height: p.Height,
		Width:  p.Width,
		Pixels: pixels,
		Rows:   1 + tilesH*tilesW,
		Tokens: side*side + l.rows*(l.cols+1),
		Layout: l,
	}, nil
}

// Processing describes everything that Prepare depends on.
func (b *Architecture) Processing() string {
	return fmt.Sprint("llava_next ", b.crop, b.pinpoints, b.vision.Patch, b.colours)
}

// ProcessorConfig returns the sizes of tiles.
func (b *Architecture) ProcessorConfig() backbone.ProcessorConfig {
	return backbone.ProcessorConfig{
		ModelType:     "llava_next",
		ImageMean:     b.colours.Mean,
		ImageStd:      b.colours.Std,
		PatchSize:     b.vision.Patch,
		ImageSize:     b.crop,
		GridPinpoints: b.pinpoints,
	}
}

// side is the number of features along one edge of a tile.
func (b *Architecture) side() int { return b.crop / b.vision.Patch }

// bestResolution picks the pinpoint grid that keeps the most of the picture, and among those wastes the least
// (select_best_resolution).
func (b *Architecture) bestResolution(h, w int) (gridH, gridW int) {
	best, waste := -1, 0
	for _, hw := range b.pinpoints {
		scale := math.Min(float64(hw[1])/float64(w), float64(hw[0])/float64(h))
		effective := min(int(float64(w)*scale)*int(float64(h)*scale), w*h)
		wasted := hw[0]*hw[1] - effective
		if effective > best || effective == best && wasted < waste {
			best, waste, gridH, gridW = effective, wasted, hw[0], hw[1]
		}
	}
	return gridH, gridW
}

// fit returns the height and width of the picture resized into the grid with its aspect ratio kept.
func fit(h, w, gridH, gridW int) (int, int) {
	scaleW, scaleH := float64(gridW)/float64(w), float64(gridH)/float64(h)
	if scaleW < scaleH {
		return min(int(math.Ceil(float64(h)*scaleW)), gridH), gridW
	}
	return gridH, min(int(math.Ceil(float64(w)*scaleH)), gridW)
}

// unpad finds the features on the picture, not on its padding (transformers' unpad_image). It rounds differently from
// the padding, so that an odd remainder stays in.
func (b *Architecture) unpad(h, w, gridH, gridW int) layout {
	side := b.side() // a tile may be larger than its whole patches
	l := layout{gridH: gridH / b.crop * side, gridW: gridW / b.crop * side}
	l.rows, l.cols = l.gridH, l.gridW
	if float64(w)/float64(h) > float64(l.gridW)/float64(l.gridH) {
		n := int(round7(float64(h) * (float64(l.gridW) / float64(w))))
		l.top = (l.gridH - n) / 2
		l.rows -= 2 * l.top
	} else {
		n := int(round7(float64(w) * (float64(l.gridH) / float64(h))))
		l.left = (l.gridW - n) / 2
		l.cols -= 2 * l.left
	}
	return l
}

func round7(x float64) float64 { return math.RoundToEven(x*1e7) / 1e7 }

// Feeds joins pictures: pixel_values [tiles, 3, S, S], the joined pixels; feature_order, the row of concat(features,
// newlines) at each image token.
func (b *Architecture) Feeds(pictures []*backbone.Picture, pixels []float32) (map[string]*tensor.Dense, error) {
	tiles, tokens := 0, 0
	for _, p := range pictures {
		tiles, tokens = tiles+p.Rows, tokens+p.Tokens
	}
	if tiles == 0 {
		return nil, fmt.Errorf("llava_next: no picture")
	}
	side := b.side()
	per := side * side
	order := make([]int64, 0, tokens)
	newline, first := tiles*per, 0
	for _, p := range pictures {
		for i := range per {
			order = append(order, int64(first*per+i))
		}
		l := p.Layout.(layout)
		for y := l.top; y < l.top+l.rows; y++ {
			for x := l.left; x < l.left+l.cols; x++ {
				tile := first + 1 + y/side*(l.gridW/side) + x/side
				order = append(order, int64(tile*per+y%side*side+x%side))
			}
			order = append(order, int64(newline))
			newline++
		}
		first += p.Rows
	}
	var segments nn.SegmentTable
	for i := range tiles {
		n := per + 1 // with the class token
		segments.Add(i*n, n, i*n, n, n)
	}
	return map[string]*tensor.Dense{
		inSegments: segments.Tensor(),
		inPixels:   tensor.New(tensor.WithShape(tiles, 3, b.crop, b.crop), tensor.WithBacking(pixels)),
		inOrder:    tensor.New(tensor.WithShape(len(order)), tensor.WithBacking(order)),
	}, nil
}

const (
	inPixels   = "pixel_values"
	inOrder    = "feature_order"
	inSegments = "tile_segments"
)

package qwen25vl

import (
	"gorgonia.org/tensor"

	"assay/model/backbone"
	"assay/model/qwenvl"
)

// Inputs of the vision tower besides those of qwenvl. Inside the tower patches are ordered window by window, so that
// windows and pictures are both contiguous ranges of places.
const (
	inPatches = "patch_order"   // [patches] int64: row of pixel_values at each place
	inTokens  = "feature_order" // [image tokens] int64: place of each image token
	positions = "patch_positions"
)

// Feeds joins pictures; see the constants above and qwenvl.Segments.
func (b *Architecture) Feeds(pictures []*backbone.Picture, pixels []float32) (map[string]*tensor.Dense, error) {
	to, err := b.Family.Feeds(pictures, pixels)
	if err != nil {
		return nil, err
	}
	patches, tokens := to[positions].Shape()[1], 0
	for _, p := range pictures {
		tokens += p.Tokens
	}
	t := b.Tower
	order, features := make([]int64, 0, patches), make([]int64, tokens)
	var windows qwenvl.Stretches
	first := 0 // token
	for _, p := range pictures {
		at := p.Layout.(qwenvl.Grid)
		rows, cols, edge := at.Rows/t.Merge, at.Cols/t.Merge, b.cells()
		for top := 0; top < rows; top += edge {
			for left := 0; left < cols; left += edge {
				bottom, right := min(top+edge, rows), min(left+edge, cols)
				windows.Add((bottom - top) * (right - left) * t.Unit())
				for y := top; y < bottom; y++ {
					for x := left; x < right; x++ {
						token := first + y*cols + x
						features[token] = int64(len(order) / t.Unit())
						for k := range t.Unit() {
							order = append(order, int64(token*t.Unit()+k))
						}
					}
				}
			}
		}
		first += p.Tokens
	}
	at := to[positions].Data().([]int64)
	moved := make([]int64, 2*patches) // rows, then columns, of the places
	for i, from := range order {
		moved[i], moved[patches+i] = at[from], at[patches+int(from)]
	}
	to[positions] = tensor.New(tensor.WithShape(2, patches), tensor.WithBacking(moved))
	to[inPatches] = tensor.New(tensor.WithShape(patches), tensor.WithBacking(order))
	to[inTokens] = tensor.New(tensor.WithShape(tokens), tensor.WithBacking(features))
	windows.Feeds("window", patches, to)
	return to, nil
}

// ProcessorConfig adds the windows.
func (b *Architecture) ProcessorConfig() backbone.ProcessorConfig {
	p := b.Family.ProcessorConfig()
	p.WindowSize = b.window
	return p
}

// Inputs describes the inputs of Vision.
func (b *Architecture) Inputs() map[string]string {
	all := b.Family.Inputs()
	all[inPatches] = "for every place, window by window, its row in pixel_values"
	all[inTokens] = "for every image token its place, in tokens"
	all["window_rows"] = "places of each window; distinct numbers from `patches` on fill it up to the longest"
	all["window_back"] = "for every place its index in window_rows, flat"
	return all
}

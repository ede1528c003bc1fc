package qwen25vl

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"assay/model"
	"assay/onnx"
)

// Inputs of the vision tower. Inside it patches are ordered window by window, so that windows and pictures are both
// stretches of rows.
const (
	inPixels    = "pixel_values"
	inPatches   = "patch_order"     // [patches] int64: row of pixel_values at each place
	inPositions = "patch_positions" // [2, patches] int64: row and column of each place in its picture
	inTokens    = "feature_order"   // [image tokens] int64: place of each image token
)

// segments is a division of the places into stretches that attend within themselves: the windows, or the pictures. All
// are padded to the longest one, so that the graph does not depend on how many there are and of which sizes: windows
// are smaller only at the right and bottom edges, and pictures of one size usually come together.
type segments struct {
	rows string // [segments, length] int64: places, then distinct numbers from `patches` on where there is none
	back string // [patches] int64: where each place is in the flat rows
	mask string // [segments, 1, 1, length]: added to scores
	pads string // [1] int64: how many of the rows are padding
	cos  string // [segments, length, head_dim/2]
	sin  string
}

func (b *Architecture) segments(g *model.Graph, name, cos, sin string) *segments {
	s := &segments{
		rows: g.Input(name+"_rows", onnx.Int64, onnx.Dims(name+"s", name+"_length")),
		back: g.Input(name+"_back", onnx.Int64, onnx.Dims("patches")),
	}
	patches := g.SizeOf(cos, 0)
	s.pads = g.Op("Sub", g.OpA("ReduceProd", onnx.Attrs{"keepdims": 1}, g.Op("Shape", s.rows)), patches)
	real := g.Op("Unsqueeze", g.Op("Less", s.rows, patches), g.Ints(1, 2))
	s.mask = g.Op("Where", real, g.Scalar(onnx.Float, 0), g.Scalar(onnx.Float, -math.MaxFloat32))
	half := b.vision.Hidden / b.vision.Heads / 2
	s.cos, s.sin = s.fill(g, cos, half), s.fill(g, sin, half)
	return s
}

// fill lays rows [patches, width] out as [segments, length, width], with zeros behind the end of short segments.
func (s *segments) fill(g *model.Graph, x string, width int) string {
	zeros := g.Op("Expand", g.Scalar(onnx.Float, 0), g.Shape(s.pads, width))
	return g.Pick(g.OpA("Concat", onnx.Attrs{"axis": 0}, x, zeros), s.rows, 0)
}

// stretches collects segments by their lengths.
type stretches struct{ lengths []int }

func (s *stretches) add(n int) { s.lengths = append(s.lengths, n) }

// feeds writes the inputs that Backbone.segments declares.
func (s *stretches) feeds(name string, patches int, to map[string]*tensor.Dense) {
	longest := 0
	for _, n := range s.lengths {
		longest = max(longest, n)
	}
	rows, back := make([]int64, 0, len(s.lengths)*longest), make([]int64, 0, patches)
	place, pad := int64(0), int64(patches)
	for _, n := range s.lengths {
		for i := range longest {
			if i < n {
				back = append(back, int64(len(rows)))
				rows = append(rows, place)
				place++
			} else {
				rows = append(rows, pad)
				pad++
			}
		}
	}
	to[name+"_rows"] = tensor.New(tensor.WithShape(len(s.lengths), longest), tensor.WithBacking(rows))
	to[name+"_back"] = tensor.New(tensor.WithShape(patches), tensor.WithBacking(back))
}

// Feeds joins pictures; see the constants above and segments.
func (b *Architecture) Feeds(pictures []*model.Picture) (map[string]*tensor.Dense, error) {
	patches, tokens := 0, 0
	for _, p := range pictures {
		patches, tokens = patches+p.Rows, tokens+p.Tokens
	}
	if patches == 0 {
		return nil, fmt.Errorf("qwen2_5_vl: no picture")
	}
	v := b.vision
	width := 3 * v.Frames * v.Patch * v.Patch
	pixels := make([]float32, 0, patches*width)
	order, features := make([]int64, 0, patches), make([]int64, tokens)
	positions := make([]int64, 2*patches) // rows, then columns
	var windows, whole stretches
	first := 0 // token
	for _, p := range pictures {
		pixels = append(pixels, p.Pixels...)
		whole.add(p.Rows)
		at := p.Layout.(grid)
		rows, cols, edge := at.rows/v.Merge, at.cols/v.Merge, v.cells()
		for top := 0; top < rows; top += edge {
			for left := 0; left < cols; left += edge {
				bottom, right := min(top+edge, rows), min(left+edge, cols)
				windows.add((bottom - top) * (right - left) * v.unit())
				for y := top; y < bottom; y++ {
					for x := left; x < right; x++ {
						token := first + y*cols + x
						features[token] = int64(len(order) / v.unit())
						for k := range v.unit() {
							i := len(order)
							positions[i], positions[patches+i] = int64(y*v.Merge+k/v.Merge), int64(x*v.Merge+k%v.Merge)
							order = append(order, int64(token*v.unit()+k))
						}
					}
				}
			}
		}
		first += p.Tokens
	}
	to := map[string]*tensor.Dense{
		inPixels:    tensor.New(tensor.WithShape(patches, width), tensor.WithBacking(pixels)),
		inPatches:   tensor.New(tensor.WithShape(patches), tensor.WithBacking(order)),
		inPositions: tensor.New(tensor.WithShape(2, patches), tensor.WithBacking(positions)),
		inTokens:    tensor.New(tensor.WithShape(tokens), tensor.WithBacking(features)),
	}
	windows.feeds("window", patches, to)
	whole.feeds("picture", patches, to)
	return to, nil
}

// Inputs explains the inputs of Vision.
func (b *Architecture) Inputs() map[string]string {
	return map[string]string{
		inPatches:      "for every place, window by window, its row in pixel_values",
		inPositions:    "row and column of every place in its picture, in patches",
		inTokens:       "for every image token its place, in tokens",
		"window_rows":  "places of each window; distinct numbers from `patches` on fill it up to the longest",
		"window_back":  "for every place its index in window_rows, flat",
		"picture_rows": "places of each picture; distinct numbers from `patches` on fill it up to the longest",
		"picture_back": "for every place its index in picture_rows, flat",
	}
}

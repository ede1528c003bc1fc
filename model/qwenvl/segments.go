package qwenvl

import (
	"fmt"

	"gorgonia.org/tensor"

	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
)

// Segments is a division of the places into segments that attend only within themselves: the windows, or the pictures.
// All are padded to the longest one, so that the graph does not depend on their number and sizes. Little is padded:
// windows are smaller only at the right and bottom edges, and pictures in a batch usually have the same size.
type Segments struct {
	whole bool   // full pictures, of any length
	rows  string // [segments, length] int64: places, then distinct numbers starting at `patches` as padding
	back  string // [patches] int64: index of each place in the flat rows
	mask  string // [segments, 1, 1, length]: added to scores
	pads  string // [1] int64: number of padding rows
	cos   string // [segments, length, head_dim/2]
	sin   string

	table string      // with fused operators, instead of these: see nn.InSegments
	turns nn.Rotation // [patches, head_dim/2]
}

// Segments declares the inputs of the division with that name.
func (b *Family) Segments(g *nn.Graph, name string, t Turns) *Segments {
	if g.Kernels == nn.Fused {
		return &Segments{table: g.Segments(name + "_segments"), turns: nn.Rotation(t)}
	}
	s := &Segments{
		whole: name == pictures,
		rows:  g.Input(name+"_rows", onnx.Int64, onnx.Dims(name+"s", name+"_length")),
		back:  g.Input(name+"_back", onnx.Int64, onnx.Dims("patches")),
	}
	patches := g.SizeOf(t.Cos, 0)
	s.pads = g.Op("Sub", g.OpA("ReduceProd", onnx.Attrs{"keepdims": 1}, g.Op("Shape", s.rows)), patches)
	real := g.Op("Unsqueeze", g.Op("Less", s.rows, patches), g.Ints(1, 2))
	s.mask = g.Mask(real)
	half := b.Tower.Hidden / b.Tower.Heads / 2
	s.cos, s.sin = g.Narrow(s.fill(g, onnx.Float, t.Cos, half)), g.Narrow(s.fill(g, onnx.Float, t.Sin, half))
	return s
}

// fill lays out rows [patches, width] as [segments, length, width], padding short segments with zeros.
func (s *Segments) fill(g *nn.Graph, t onnx.DType, x string, width int) string {
	zeros := g.Op("Expand", g.Scalar(t, 0), g.Shape(s.pads, width))
	return g.Pick(g.OpA("Concat", onnx.Attrs{"axis": 0}, x, zeros), s.rows, 0)
}

// Stretches collects the lengths of segments.
type Stretches struct{ lengths []int }

// Add appends a segment of n places.
func (s *Stretches) Add(n int) { s.lengths = append(s.lengths, n) }

// Feeds writes the inputs that Family.Segments declares.
func (s *Stretches) Feeds(name string, patches int, to map[string]*tensor.Dense) {
	longest := 0
	for _, n := range s.lengths {
		longest = max(longest, n)
	}
	rows, back := make([]int64, 0, len(s.lengths)*longest), make([]int64, 0, patches)
	place, pad := int64(0), int64(patches)
	var segments nn.SegmentTable
	for _, n := range s.lengths {
		segments.Add(int(place), n, int(place), n, n)
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
	to[name+"_segments"] = segments.Tensor()
	to[name+"_back"] = tensor.New(tensor.WithShape(patches), tensor.WithBacking(back))
}

// Feeds joins pictures whose patches are in the order of pixel_values.
func (b *Family) Feeds(all []*backbone.Picture, pixels []float32) (map[string]*tensor.Dense, error) {
	patches := 0
	for _, p := range all {
		patches += p.Rows
	}
	if patches == 0 {
		return nil, fmt.Errorf("%s: no picture", b.Name)
	}
	positions := make([]int64, 2*patches) // rows, then columns
	var whole Stretches
	first := 0
	for _, p := range all {
		whole.Add(p.Rows)
		b.EachPatch(p.Layout.(Grid), func(i, row, col int) {
			positions[first+i], positions[patches+first+i] = int64(row), int64(col)
		})
		first += p.Rows
	}
	to := map[string]*tensor.Dense{
		inPixels:    tensor.New(tensor.WithShape(patches, b.Tower.Values()), tensor.WithBacking(pixels)),
		inPositions: tensor.New(tensor.WithShape(2, patches), tensor.WithBacking(positions)),
	}
	whole.Feeds(pictures, patches, to)
	return to, nil
}

// Inputs describes the inputs of the tower.
func (b *Family) Inputs() map[string]string {
	return map[string]string{
		inPositions:        "row and column of every place in its picture, in patches",
		pictures + "_rows": "places of each picture; distinct numbers from `patches` on fill it up to the longest",
		pictures + "_back": "for every place its index in picture_rows, flat",
	}
}

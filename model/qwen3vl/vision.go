package qwen3vl

import (
	"slices"
	"strconv"

	"gorgonia.org/tensor"

	"assay/model/backbone"
	"assay/model/nn"
	"assay/model/qwenvl"
	"assay/onnx"
)

// Inputs of the vision tower besides those of qwenvl: the rows of the position table for each patch, and their weights.
const (
	inRows    = "table_rows"    // [patches, 4] int64
	inWeights = "table_weights" // [patches, 4, 1]
)

func (b *Architecture) tableKey() string { return b.Prefix.Key + "pos_embed.weight" }

// Vision builds the tower and its mergers: [image tokens, feature width], the tokens followed by the features that each
// tapped layer adds to the language model.
func (b *Architecture) Vision(g *nn.Graph) string {
	x := g.Op("Add", b.Patches(g), b.places2D(g))
	var added []string // in the order of the layers, regardless of the order of the mergers
	x = b.Whole(g, x, func(at nn.Prefix) *qwenvl.Block {
		mlp := at.Sub("mlp.")
		return b.Block(at, norm, &nn.MLP{
			First:      mlp.Linear("linear_fc1"),
			Second:     mlp.Linear("linear_fc2"),
			Activation: b.Tower.Activation,
		})
	}, func(i int, x string) {
		if k := slices.Index(b.taps, i); k >= 0 {
			m := b.merger("deepstack_merger_list." + strconv.Itoa(k) + ".")
			m.Joined = true
			added = append(added, m.Forward(g, x))
		}
	})
	tokens := b.merger("merger.").Forward(g, x)
	if len(added) == 0 {
		return tokens
	}
	return g.OpA("Concat", onnx.Attrs{"axis": 1}, slices.Insert(added, 0, tokens)...)
}

func norm(key string) nn.Module { return &nn.LayerNorm{Key: key, Eps: qwenvl.Eps} }

func (b *Architecture) merger(name string) *qwenvl.Merger {
	at := b.Prefix.Sub(name)
	return b.Merger(at, norm(at.Key+"norm"), "linear_fc1", "linear_fc2")
}

// places2D resamples the position table to the patches, [patches, hidden].
func (b *Architecture) places2D(g *nn.Graph) string {
	rows := g.Input(inRows, onnx.Int64, onnx.Dims("patches", 4))
	weights := g.Input(inWeights, onnx.Float, onnx.Dims("patches", 4, 1))
	near := g.OpA("Gather", onnx.Attrs{"axis": 0}, g.Param(b.tableKey()), rows)
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", near, weights), g.Ints(1))
}

// Feeds joins pictures. The position table is stretched over each, corners on corners (bilinear, align_corners).
func (b *Architecture) Feeds(pictures []*backbone.Picture, pixels []float32) (map[string]*tensor.Dense, error) {
	to, err := b.Family.Feeds(pictures, pixels)
	if err != nil {
		return nil, err
	}
	side := b.side()
	var rows []int64
	var weights []float32
	for _, p := range pictures {
		at := p.Layout.(qwenvl.Grid)
		b.EachPatch(at, func(_, row, col int) {
			y, x := spread(row, at.Rows, side), spread(col, at.Cols, side)
			for i := range 2 {
				for j := range 2 {
					rows = append(rows, int64(y.at[i]*side+x.at[j]))
					weights = append(weights, y.weight[i]*x.weight[j])
				}
			}
		})
	}
	n := len(rows) / 4
	to[inRows] = tensor.New(tensor.WithShape(n, 4), tensor.WithBacking(rows))
	to[inWeights] = tensor.New(tensor.WithShape(n, 4, 1), tensor.WithBacking(weights))
	return to, nil
}

// between holds two neighbours along an axis of the table, and their weights.
type between struct {
	at     [2]int
	weight [2]float32
}

// spread maps place i of n to an axis of the table, 0 first and n-1 last, in float32 as in transformers.
func spread(i, n, side int) between {
	at := float32(i) * float32(side-1) / float32(max(n-1, 1))
	low := int(at)
	first := 1 - (at - float32(low))
	return between{[2]int{min(low, side-1), min(low+1, side-1)}, [2]float32{first, 1 - first}}
}

// ProcessorConfig adds the position table.
func (b *Architecture) ProcessorConfig() backbone.ProcessorConfig {
	p := b.Family.ProcessorConfig()
	p.PositionRows = b.places
	return p
}

// Inputs describes the inputs of Vision.
func (b *Architecture) Inputs() map[string]string {
	all := b.Family.Inputs()
	all[inRows] = "for every patch the four rows of the position table around it"
	all[inWeights] = "and their weights (bilinear, corners on corners)"
	return all
}

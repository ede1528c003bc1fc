package llavanext

import (
	"slices"
	"strings"

	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
)

// Vision builds the CLIP tower, the projector and the packing of tiles into rows: [image tokens, hidden].
func (b *Architecture) Vision(g *nn.Graph) string {
	v := b.vision
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("tiles", 3, b.crop, b.crop))
	order := g.Input(inOrder, onnx.Int64, onnx.Dims("image_tokens"))

	n, rows := b.side()*b.side()+1, g.Ints(-1, int64(v.Hidden))
	tower := nn.ViT{
		Hidden:     v.Hidden,
		Heads:      v.Heads,
		Activation: v.Activation,
		Eps:        v.Eps,
		Key:        b.tower,
		Module:     "model.vision_tower.",
	}
	class := g.Op("Reshape", g.Param(b.tower+"embeddings.class_embedding"), g.Ints(1, 1, -1))
	cut := nn.Patches{Size: v.Patch, Height: b.crop, Width: b.crop}
	x := tower.Embed(g, pixels, cut, b.tower+"embeddings.patch_embedding", class,
		g.Param(b.tower+"embeddings.position_embedding.weight"))
	x = g.LayerNorm(x, b.tower+"pre_layrnorm", v.Eps) // (sic)
	x = g.Op("Reshape", x, rows)                      // [tiles*n, C]: linear layers see rows
	tile := g.Ints(-1, int64(n), int64(v.Hidden))     // rows of a tile attend to each other
	tiles := nn.Span{Shape: tile}
	if g.Kernels == nn.Fused {
		tiles.Segments = g.Segments(inSegments)
	}
	states := []string{x} // by the number of layers before it
	for i := range slices.Max(b.layers) {
		x = tower.Layer(g, x, i, tiles)
		states = append(states, x)
	}
	if x = states[b.layers[0]]; len(b.layers) > 1 {
		var parts []string
		for _, n := range b.layers {
			parts = append(parts, states[n])
		}
		x = g.OpA("Concat", onnx.Attrs{"axis": 1}, parts...)
		rows, tile = g.Ints(-1, int64(v.Hidden*len(parts))), g.Ints(-1, int64(n), int64(v.Hidden*len(parts)))
	}
	x = g.Op("Reshape", x, tile)
	x = g.OpA("Slice", nil, x, g.Ints(1), g.Ints(int64(n)), g.Ints(1)) // without the class token
	x = g.Op("Reshape", x, rows)

	x = g.WideLinear(x, "multi_modal_projector.linear_1", "model.multi_modal_projector.linear_1")
	x = g.WideLinear(g.Activation(x, b.act), "multi_modal_projector.linear_2", "model.multi_modal_projector.linear_2")

	// A newline row for every row of tiles, at most: their number, unlike an input, is on the host without a wait. It is
	// rounded to the type of features, in training as well.
	row := g.Op("Reshape", g.Wide(g.Narrow(g.Param("image_newline"))), g.Ints(1, 1, -1))
	row = g.Op("Expand", row, g.Shape(g.SizeOf(pixels, 0), b.side(), b.decoder.Hidden))
	row = g.Op("Reshape", row, g.Ints(-1, int64(b.decoder.Hidden)))
	return g.Pick(g.OpA("Concat", onnx.Attrs{"axis": 0}, x, row), order, 0)
}

// Decoder, Keys and the rest describe the checkpoint to package model.
func (b *Architecture) Decoder() *nn.Decoder { return &b.decoder }

// HeadSizes returns the head sizes of the decoder and of the tower.
func (b *Architecture) HeadSizes() []int {
	return []int{b.decoder.HeadDim, b.vision.Hidden / b.vision.Heads}
}

// Keys returns the names of the parameters outside the layers.
func (b *Architecture) Keys() nn.Keys { return b.keys }

// Placeholder represents a picture in prompts.
func (b *Architecture) Placeholder() string { return "<image>" }

// EndOfTurn is the tokenizer's end of sequence: Llama 3's <|eot_id|>, Mistral's and Vicuna's </s>.
func (b *Architecture) EndOfTurn() string { return "" }

// CanPair accepts two pictures or one joined picture; there is no temporal axis for frames.
func (b *Architecture) CanPair(pair string) bool { return pair == "sequence" || pair == "concat" }

// Inputs describes the inputs of Vision.
func (b *Architecture) Inputs() map[string]string {
	return map[string]string{
		inOrder: "for every image token the row of concat(features of all tiles, newline rows)",
	}
}

// VisionKey reports whether a parameter belongs to the tower, the projector or the newline row.
func (b *Architecture) VisionKey(key string) bool {
	return strings.HasPrefix(key, b.tower) || strings.HasPrefix(key, "multi_modal_projector.") || key == "image_newline"
}

// Positions are 0, 1, 2... over the expanded sequence.
func (b *Architecture) Positions([]int64, []*backbone.Picture) [][]int64 { return nil }

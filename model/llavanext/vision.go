package llavanext

import (
	"fmt"
	"strings"

	"assay/model"
	"assay/onnx"
)

// Vision builds the CLIP tower, the projector and the packing of tiles into rows: [image tokens, hidden].
func (b *Backbone) Vision(g *model.Graph) string {
	v := b.vision
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("tiles", 3, b.crop, b.crop))
	order := g.Input(inOrder, onnx.Int64, onnx.Dims("image_tokens"))
	newlines := g.Input(inNewlines, onnx.Int64, onnx.Dims(1))

	n, rows := b.side()*b.side()+1, g.Ints(-1, int64(v.Hidden))
	x := b.patches(g, pixels)                         // [tiles, n, C]
	x = g.LayerNorm(x, b.tower+"pre_layrnorm", v.Eps) // (sic)
	x = g.Op("Reshape", x, rows)                      // [tiles*n, C]: linear layers see rows
	for i := range b.layer {
		name := fmt.Sprintf("encoder.layers.%d.", i)
		g.Segment(strings.TrimSuffix(name, "."), func() { x = b.encoderLayer(g, x, name, n) })
	}
	x = g.Op("Reshape", x, g.Ints(-1, int64(n), int64(v.Hidden)))
	x = g.OpA("Slice", nil, x, g.Ints(1), g.Ints(int64(n)), g.Ints(1)) // without the class token
	x = g.Op("Reshape", x, rows)

	x = g.Linear(x, "multi_modal_projector.linear_1", "model.multi_modal_projector.linear_1")
	x = g.Linear(g.Activation(x, b.act), "multi_modal_projector.linear_2", "model.multi_modal_projector.linear_2")

	row := g.Op("Unsqueeze", g.Param("image_newline"), g.Ints(0))
	row = g.Op("Expand", row, g.Shape(newlines, b.decoder.Hidden))
	return g.Pick(g.OpA("Concat", onnx.Attrs{"axis": 0}, x, row), order, 0)
}

// patches embeds pixels [tiles, 3, S, S] as [tiles, 1 + patches, C] with class token and positions.
func (b *Backbone) patches(g *model.Graph, pixels string) string {
	v, p := b.vision, b.vision.Patch
	x := g.OpA("Conv", onnx.Attrs{"strides": []int{p, p}, "kernel_shape": []int{p, p}}, pixels, g.Param(b.tower+"embeddings.patch_embedding.weight"))
	x = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1}}, g.Op("Reshape", x, g.Ints(0, int64(v.Hidden), -1)))
	class := g.Op("Reshape", g.Param(b.tower+"embeddings.class_embedding"), g.Ints(1, 1, -1))
	class = g.Op("Expand", class, g.Shape(g.SizeOf(pixels, 0), 1, v.Hidden))
	x = g.OpA("Concat", onnx.Attrs{"axis": 1}, class, x)
	return g.Op("Add", x, g.Param(b.tower+"embeddings.position_embedding.weight"))
}

// encoderLayer is one pre-norm block over x [tiles*n, C]; attention stays within a tile's n rows.
func (b *Backbone) encoderLayer(g *model.Graph, x, name string, n int) string {
	v, key, module := b.vision, b.tower+name, "model.vision_tower."+name
	linear := func(x, part string) string { return g.Linear(x, key+part, module+part) }
	y := g.LayerNorm(x, key+"layer_norm1", v.Eps)
	tiles := func(t string) string { return g.Op("Reshape", t, g.Ints(-1, int64(n), int64(v.Hidden))) }
	q, k, value := tiles(linear(y, "self_attn.q_proj")), tiles(linear(y, "self_attn.k_proj")), tiles(linear(y, "self_attn.v_proj"))
	x = g.Op("Add", x, linear(g.Attend(q, k, value, "", v.Heads, v.Hidden/v.Heads), "self_attn.out_proj"))
	y = g.Activation(linear(g.LayerNorm(x, key+"layer_norm2", v.Eps), "mlp.fc1"), v.Activation)
	return g.Op("Add", x, linear(y, "mlp.fc2"))
}

// Decoder, Keys and the rest describe the checkpoint to package model.
func (b *Backbone) Decoder() *model.Decoder { return &b.decoder }

// Keys names the parameters outside the layers.
func (b *Backbone) Keys() model.Keys { return b.keys }

// Placeholder stands for a picture in prompts.
func (b *Backbone) Placeholder() string { return "<image>" }

// EndOfTurn is the tokenizer's end of sequence: Llama 3's <|eot_id|>, Mistral's and Vicuna's </s>.
func (b *Backbone) EndOfTurn() string { return "" }

// CanPair: two pictures, or one joined; there is no temporal axis for frames.
func (b *Backbone) CanPair(pair string) bool { return pair == "sequence" || pair == "concat" }

// Inputs explains the inputs of Vision.
func (b *Backbone) Inputs() map[string]string {
	return map[string]string{
		inOrder:    "for every image token the row of concat(features of all tiles, newline rows)",
		inNewlines: "how many newline rows there are",
	}
}

// VisionKey reports whether a parameter belongs to the tower, the projector or the newline row.
func (b *Backbone) VisionKey(key string) bool {
	return strings.HasPrefix(key, b.tower) || strings.HasPrefix(key, "multi_modal_projector.") || key == "image_newline"
}

// Positions are 0, 1, 2... over the expanded sequence.
func (b *Backbone) Positions([]int64, []*model.Picture) [][]int64 { return nil }

package encoders

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/model"
	"assay/onnx"
)

func readDINO(m *Model, raw []byte) (towers, error) {
	c := struct {
		towerConfig
		ModelType string `json:"model_type"`
	}{towerConfig: towerConfig{Layers: 12, Heads: 12, Activation: "gelu", Eps: 1e-6}}
	if err := json.Unmarshal(raw, &c); err != nil {
		return towers{}, fmt.Errorf("config.json: %w", err)
	}
	w := dinoWeights{m.weights}
	w.rename()
	return towers{weights: w, images: func(g *model.Graph) (string, int64, error) {
		return dinoVision(g, w, c.towerConfig, m.processor, c.ModelType == "dinov2_with_registers")
	}}, nil
}

// dinoVision builds pixels -> layernorm(class token of the last layer), which is pooler_output.
func dinoVision(g *model.Graph, w model.Weights, c towerConfig, p *processor, registers bool) (string, int64, error) {
	conv, err := shape(w, "embeddings.patch_embeddings.projection.weight", 0, 3, 0, 0)
	if err != nil {
		return "", 0, err
	}
	hidden, patch := conv[0], int(conv[2])
	v, err := c.vit(hidden, "")
	if err != nil {
		return "", 0, err
	}
	positions, err := dinoPositions(g, w, hidden, p.height/patch, p.width/patch, registers)
	if err != nil {
		return "", 0, err
	}
	rows := (p.height/patch)*(p.width/patch) + 1
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("pictures", 3, p.height, p.width))
	x := v.Embed(g, pixels, patch, "embeddings.patch_embeddings.projection", g.Param("embeddings.cls_token"), positions)
	if registers { // [1, registers, hidden], without positions, between class token and patches
		tokens, err := shape(w, "embeddings.register_tokens", 1, 0, hidden)
		if err != nil {
			return "", 0, err
		}
		part := func(from, to int64) string { return g.Op("Slice", x, g.Ints(from), g.Ints(to), g.Ints(1)) }
		more := g.Op("Expand", g.Param("embeddings.register_tokens"), g.Shape(g.SizeOf(pixels, 0), int(tokens[1]), v.Hidden))
		x = g.OpA("Concat", onnx.Attrs{"axis": 1}, part(0, 1), more, part(1, int64(rows)))
		rows += int(tokens[1])
	}
	return g.LayerNorm(classTokens(g, v, x, pixels, rows, c.Layers), "layernorm", v.Eps), hidden, nil
}

// dinoPositions returns the positions [1, 1 + height*length, hidden] of a grid of patches: the stored square table, for other
// grids resampled, since published models are trained on larger pictures (518 pixels) than they are used with. A resampled
// table is a constant.
func dinoPositions(g *model.Graph, w model.Weights, hidden int64, height, length int, antialias bool) (string, error) {
	const name = "embeddings.position_embeddings"
	size, err := shape(w, name, 1, 0, hidden)
	if err != nil {
		return "", err
	}
	side := int(math.Sqrt(float64(size[1] - 1)))
	if side*side != int(size[1])-1 {
		return "", fmt.Errorf("%s has %d places, which is no square and a class token", name, size[1])
	}
	if height == side && length == side {
		return g.Param(name), nil
	}
	table, err := values(w, name)
	if err != nil {
		return "", err
	}
	grid := resample(table[hidden:], side, height, length, int(hidden), antialias)
	return g.Floats([]int64{1, int64(height*length) + 1, hidden}, append(slices.Clone(table[:hidden]), grid...)...), nil
}

// dinoWeights is a DINOv2 checkpoint under CLIP's names, with the two matrices that published giant models store as one
// (mlp.weights_in: gate, then up) seen as halves of it.
type dinoWeights struct{ *checkpoints.Weights }

// rename makes every layer's parameters, in the published spelling or in that of transformers 5, known as model.ViT asks for
// them. The tower of a larger model has its name in front.
func (w dinoWeights) rename() {
	names := strings.NewReplacer("encoder.layer.", "encoder.layers.", ".norm1.", ".layer_norm1.", ".norm2.", ".layer_norm2.",
		".attention.attention.query.", ".self_attn.q_proj.", ".attention.attention.key.", ".self_attn.k_proj.",
		".attention.attention.value.", ".self_attn.v_proj.", ".attention.output.dense.", ".self_attn.out_proj.",
		".attention.o_proj.", ".self_attn.out_proj.", ".attention.", ".self_attn.", ".mlp.weights_out.", ".mlp.down_proj.")
	for _, stored := range w.Names() {
		name := strings.TrimPrefix(strings.TrimPrefix(stored, "dinov2."), "dinov2_with_registers.")
		w.Alias(names.Replace(name), stored)
	}
}

// half finds a parameter that is one half of a stored one.
func (w dinoWeights) half(name string) (stored string, second, ok bool) {
	stored = strings.NewReplacer(".gate_proj.", ".weights_in.", ".up_proj.", ".weights_in.").Replace(name)
	return stored, strings.Contains(name, ".up_proj."), stored != name && w.Weights.Has(stored)
}

// Has reports whether the checkpoint holds a parameter.
func (w dinoWeights) Has(name string) bool {
	_, _, ok := w.half(name)
	return ok || w.Weights.Has(name)
}

// Tensor refers to a parameter where it lies.
func (w dinoWeights) Tensor(name string) (*onnx.Tensor, error) {
	stored, second, ok := w.half(name)
	if !ok {
		return w.Weights.Tensor(name)
	}
	t, err := w.Weights.Tensor(stored)
	if err != nil {
		return nil, err
	}
	half := onnx.Tensor{Name: name, Type: t.Type, Shape: append([]int64{t.Shape[0] / 2}, t.Shape[1:]...)}
	place := *t.External
	place.Length /= 2
	if second {
		place.Offset += place.Length
	}
	half.External = &place
	return &half, nil
}

package encoders

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"assay/model"
	"assay/onnx"
)

// towerConfig is text_config or vision_config of a CLIP checkpoint, without what the tensors' shapes tell.
type towerConfig struct {
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	Activation string  `json:"hidden_act"`
	Eps        float64 `json:"layer_norm_eps"`
	EndToken   int64   `json:"eos_token_id"` // of the text tower
}

func (c *towerConfig) vit(hidden int64, key string) (*model.ViT, error) {
	if c.Heads <= 0 || hidden%int64(c.Heads) != 0 {
		return nil, fmt.Errorf("config.json: %d attention heads do not share a width of %d evenly", c.Heads, hidden)
	}
	return &model.ViT{Hidden: int(hidden), Heads: c.Heads, Activation: c.Activation, Eps: c.Eps, Key: key}, nil
}

// readTowers reads both towers' configurations; of a clip_vision_model the top level is the vision tower's.
func readTowers(raw []byte) (text, vision towerConfig, err error) {
	text = towerConfig{Layers: 12, Heads: 8, Activation: "quick_gelu", Eps: 1e-5, EndToken: 49407}
	vision = towerConfig{Layers: 12, Heads: 12, Activation: "quick_gelu", Eps: 1e-5}
	var c struct {
		ModelType  string          `json:"model_type"`
		Text       json.RawMessage `json:"text_config"`
		TextDict   json.RawMessage `json:"text_config_dict"` // older files; it goes before text_config
		Vision     json.RawMessage `json:"vision_config"`
		VisionDict json.RawMessage `json:"vision_config_dict"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return text, vision, fmt.Errorf("config.json: %w", err)
	}
	if c.ModelType == "clip_vision_model" {
		c.Vision = raw
	}
	read := func(into *towerConfig, raw, older json.RawMessage) {
		if len(older) > 0 && string(older) != "null" {
			raw = older
		}
		if e := json.Unmarshal(raw, into); err == nil && len(raw) > 0 && e != nil {
			err = fmt.Errorf("config.json: %w", e)
		}
	}
	read(&text, c.Text, c.TextDict)
	read(&vision, c.Vision, c.VisionDict)
	return text, vision, err
}

func readCLIP(m *Model, raw []byte) (towers, error) {
	text, vision, err := readTowers(raw)
	if err != nil {
		return towers{}, err
	}
	w := m.weights
	t := towers{weights: w, images: func(g *model.Graph) (string, int64, error) { return clipVision(g, w, vision, m.processor) }}
	if !w.Has("text_projection.weight") {
		return t, nil // a vision tower alone
	}
	table, err := shape(w, "text_model.embeddings.position_embedding.weight", 0, 0)
	if err != nil {
		return t, err
	}
	tokenizer, err := openTokenizer(m.path, int(table[0]))
	if err != nil {
		return t, err
	}
	m.texts = &textTower{tokenizer: tokenizer, end: endOfText(text.EndToken), padded: true}
	t.texts = func(g *model.Graph) (string, int64, error) { return clipText(g, w, text, table[1]) }
	return t, nil
}

// Names of the graphs' inputs and outputs.
const (
	inPixels     = "pixel_values" // [pictures, 3, height, width]
	inIDs        = "input_ids"    // [texts, length] int64; behind a text's end token anything
	inEnds       = "end_rows"     // [texts] int64: row of each text's end token in [texts*length]
	outEmbedding = "embedding"    // [pictures or texts, width]
)

// clipVision builds pixels -> visual_projection(post_layernorm(class token of the last layer)).
func clipVision(g *model.Graph, w model.Weights, c towerConfig, p *processor) (string, int64, error) {
	const key = "vision_model."
	conv, err := shape(w, key+"embeddings.patch_embedding.weight", 0, 3, 0, 0)
	if err != nil {
		return "", 0, err
	}
	hidden, patch := conv[0], int(conv[2])
	rows := (p.height/patch)*(p.width/patch) + 1
	table, err := shape(w, key+"embeddings.position_embedding.weight", 0, hidden)
	if err != nil {
		return "", 0, err
	}
	if int(table[0]) != rows {
		return "", 0, fmt.Errorf("crops of %dx%d pixels make %d patches of %d pixels; the position table has %d (plus the class token): "+
			"the preprocessor's crop_size does not fit the model", p.height, p.width, rows-1, patch, table[0]-1)
	}
	v, err := c.vit(hidden, key)
	if err != nil {
		return "", 0, err
	}
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("pictures", 3, p.height, p.width))
	class := g.Op("Reshape", g.Param(key+"embeddings.class_embedding"), g.Ints(1, 1, -1))
	x := v.Embed(g, pixels, patch, key+"embeddings.patch_embedding", class, g.Param(key+"embeddings.position_embedding.weight"))
	x = g.LayerNorm(x, key+"pre_layrnorm", v.Eps) // (sic)
	x = g.LayerNorm(classTokens(g, v, x, pixels, rows, c.Layers), key+"post_layernorm", v.Eps)
	return project(g, w, x, "visual_projection", hidden)
}

// classTokens runs x [pictures, rows, hidden] through the layers and returns the first row of each: [pictures, hidden]. The
// last layer computes no others.
func classTokens(g *model.Graph, v *model.ViT, x, pixels string, rows, layers int) string {
	x = g.Op("Reshape", x, g.Ints(-1, int64(v.Hidden)))
	n := g.Op("Squeeze", g.SizeOf(pixels, 0))
	first := g.Op("Mul", g.Op("Range", g.Int(0), n, g.Int(1)), g.Int(int64(rows)))
	return layersOf(g, v, x, layers, model.Span{Shape: g.Ints(-1, int64(rows), int64(v.Hidden))}, first, "")
}

// layersOf runs x through all layers; the last one delivers the picked rows alone, and lastMask is its mask.
func layersOf(g *model.Graph, v *model.ViT, x string, layers int, s model.Span, pick, lastMask string) string {
	if layers == 0 {
		return g.Pick(x, pick, 0)
	}
	for i := range layers - 1 {
		x = v.Layer(g, x, i, s)
	}
	return v.Layer(g, x, layers-1, model.Span{Shape: s.Shape, Mask: lastMask, Pick: pick})
}

// clipText builds ids -> text_projection(final_layer_norm(state at the end token)). Attention is causal, so what stands
// behind the end token of a shorter text changes nothing.
func clipText(g *model.Graph, w model.Weights, c towerConfig, hidden int64) (string, int64, error) {
	const key = "text_model."
	v, err := c.vit(hidden, key)
	if err != nil {
		return "", 0, err
	}
	ids := g.Input(inIDs, onnx.Int64, onnx.Dims("texts", "length"))
	ends := g.Input(inEnds, onnx.Int64, onnx.Dims("texts"))
	length := g.SizeOf(ids, 1)
	x := g.OpA("Gather", onnx.Attrs{"axis": 0}, g.Param(key+"embeddings.token_embedding.weight"), ids)
	x = g.Op("Add", x, g.Op("Slice", g.Param(key+"embeddings.position_embedding.weight"), g.Ints(0), length))
	x = g.Op("Reshape", x, g.Ints(-1, hidden))

	places := g.Op("Range", g.Int(0), g.Op("Squeeze", length), g.Int(1))
	upTo := func(last string) string { // 0 for places up to last, minus infinity, almost, behind
		return g.Op("Where", g.Op("LessOrEqual", places, last), g.Scalar(onnx.Float, 0), g.Scalar(onnx.Float, -math.MaxFloat32))
	}
	causal := upTo(g.Op("Unsqueeze", places, g.Ints(1)))                           // [length, length]
	toEnd := upTo(g.Op("Reshape", g.Op("Mod", ends, length), g.Ints(-1, 1, 1, 1))) // [texts, 1, 1, length]
	span := model.Span{Shape: g.Shape(-1, length, int(hidden)), Mask: causal}
	x = g.LayerNorm(layersOf(g, v, x, c.Layers, span, ends, toEnd), key+"final_layer_norm", v.Eps)
	return project(g, w, x, "text_projection", hidden)
}

// project returns the product with a projection matrix [width, hidden], and its width.
func project(g *model.Graph, w model.Weights, x, matrix string, hidden int64) (string, int64, error) {
	size, err := shape(w, matrix+".weight", 0, hidden)
	if err != nil {
		return "", 0, err
	}
	return g.Linear(x, matrix, ""), size[0], nil
}

// endOfText returns the rule by which transformers finds a text's end token: at the first eos_token_id, but where that is 2,
// as in OpenAI's published files, at the first of the highest ids.
func endOfText(token int64) func(ids []int64) (int, error) {
	return func(ids []int64) (int, error) {
		best := 0
		for i, id := range ids {
			if token != 2 && id == token {
				return i, nil
			}
			if id > ids[best] {
				best = i
			}
		}
		if token != 2 {
			return 0, fmt.Errorf("the tokenizer puts no token %d (text_config.eos_token_id) at the end of texts: tokenizer and config.json do not belong together", token)
		}
		if len(ids) == 0 {
			return 0, errors.New("the text has no tokens")
		}
		return best, nil
	}
}

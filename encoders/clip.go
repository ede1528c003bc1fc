package encoders

import (
	"errors"
	"fmt"

	"assay/internal/strictjson"
	"assay/model/nn"
	"assay/onnx"
)

// towerConfig is the configuration of one transformer of an encoder.
type towerConfig struct {
	Hidden       int
	Intermediate int
	Layers       int
	Heads        int
	Activation   string
	Eps          float64
	Dropout      float64 // the highest of the training dropouts
}

func (c *towerConfig) vit(key string) *nn.ViT {
	return &nn.ViT{Hidden: c.Hidden, Heads: c.Heads, Activation: c.Activation, Eps: c.Eps, Key: key}
}

// read reads the keys common to all towers.
func (c *towerConfig) read(o *strictjson.Object, dropouts ...string) {
	nn.ReadSizes(o, map[string]*int{
		"hidden_size":         &c.Hidden,
		"num_hidden_layers":   &c.Layers,
		"num_attention_heads": &c.Heads,
	})
	if c.Hidden%c.Heads != 0 {
		o.Failf("hidden_size", "%d attention heads do not share a width of %d evenly", c.Heads, c.Hidden)
	}
	o.Get("hidden_act", &c.Activation)
	nn.CheckActivation(o, "hidden_act", c.Activation)
	o.Get("layer_norm_eps", &c.Eps)
	for _, key := range dropouts {
		c.Dropout = max(c.Dropout, nn.ReadDropout(o, key))
	}
}

// clipConfig is the configuration of a CLIP, with the defaults of transformers' classes.
type clipConfig struct {
	text, vision towerConfig
	projection   int // width of the embeddings
	vocab        int
	context      int // maximum tokens of a text
	end          int64
	image, patch int // pixels
}

// clipHarmless are keys that do not affect embeddings, or not with the values listed.
var clipHarmless = strictjson.Harmless{
	"logit_scale_init_value": nil, // initial logit scale for training
	"dropout":                nil, // in published files; no class uses it
	"num_channels":           {3},
	"tie_word_embeddings":    nil, // there is no output layer
	"projection_dim":         nil, // in text_config and vision_config: the top-level one is used
	"vocab_size":             nil, // in vision_config
}

// readCLIPConfig reads both towers' configurations; for a clip_vision_model, the top level is the vision tower's.
func readCLIPConfig(o *strictjson.Object) clipConfig {
	const act, eps = "quick_gelu", 1e-5
	c := clipConfig{
		text:       towerConfig{Hidden: 512, Intermediate: 2048, Layers: 12, Heads: 8, Activation: act, Eps: eps},
		vision:     towerConfig{Hidden: 768, Intermediate: 3072, Layers: 12, Heads: 12, Activation: act, Eps: eps},
		projection: 512,
		vocab:      49408,
		context:    77,
		end:        49407,
		image:      224,
		patch:      32,
	}
	kind := ""
	if o.Get("model_type", &kind); kind == "clip_vision_model" {
		o.Get("projection_dim", &c.projection)
		c.readVision(o)
		return c
	}
	o.Get("projection_dim", &c.projection)
	// Files from 2022 have a second copy of the configuration; in transformers it takes precedence, completed with
	// the class's defaults.
	for key, read := range map[string]func(*strictjson.Object){"text_config": c.readText, "vision_config": c.readVision} {
		part, older := o.Sub(key), o.Sub(key+"_dict")
		if older != nil {
			part = older
		}
		if part == nil {
			part = o.None(key)
		}
		read(part)
	}
	o.Close(clipHarmless, nn.Legacy)
	return c
}

func (c *clipConfig) readText(o *strictjson.Object) {
	c.text.read(o, "attention_dropout")
	o.Get("intermediate_size", &c.text.Intermediate)
	o.Get("vocab_size", &c.vocab)
	o.Get("max_position_embeddings", &c.context)
	o.Get("eos_token_id", &c.end)
	o.Close(clipHarmless, nn.Legacy)
}

func (c *clipConfig) readVision(o *strictjson.Object) {
	c.vision.read(o, "attention_dropout")
	o.Get("intermediate_size", &c.vision.Intermediate)
	o.Get("image_size", &c.image)
	if o.Get("patch_size", &c.patch); c.patch < 1 || c.image < c.patch {
		o.Failf("patch_size", "%d does not fit image_size %d", c.patch, c.image)
		c.patch = 1
	}
	o.Close(clipHarmless, nn.Legacy)
}

func readCLIP(m *Model, o *strictjson.Object) (towers, error) {
	c := readCLIPConfig(o)
	if err := o.Err(); err != nil {
		return towers{}, err
	}
	w := m.weights
	m.dropout = max(c.text.Dropout, c.vision.Dropout)
	t := towers{weights: w, images: func(g *nn.Graph) (string, int64, error) {
		return clipVision(g, w, &c, m.processor)
	}}
	if !w.Has("text_projection.weight") {
		return t, nil // only a vision tower
	}
	if _, err := shape(w, "text_model.embeddings.position_embedding.weight", int64(c.context),
		int64(c.text.Hidden)); err != nil {
		return t, err
	}
	if _, err := shape(w, "text_model.embeddings.token_embedding.weight", int64(c.vocab),
		int64(c.text.Hidden)); err != nil {
		return t, err
	}
	tokenizer, err := openTokenizer(m.path, c.context)
	if err != nil {
		return t, err
	}
	m.texts = &textTower{tokenizer: tokenizer, end: endOfText(c.end)}
	t.texts = func(g *nn.Graph) (string, int64, error) { return clipText(g, w, &c) }
	return t, nil
}

// checkMLP compares the width of the first layer's MLP with the configuration; the runtime checks that the layers
// agree.
func (c *towerConfig) checkMLP(w nn.Weights, key string) error {
	_, err := shape(w, key+"encoder.layers.0.mlp.fc1.weight", int64(c.Intermediate), int64(c.Hidden))
	return err
}

// Names of the graphs' inputs and outputs.
const (
	inPixels     = "pixel_values" // [pictures, 3, height, width]
	inIDs        = "input_ids"    // [texts, length] int64; anything after a text's end token
	inEnds       = "end_rows"     // [texts] int64: row of each text's end token in [texts*length]
	outEmbedding = "embedding"    // [pictures or texts, width]
)

// clipVision builds pixels -> visual_projection(post_layernorm(class token of the last layer)).
func clipVision(g *nn.Graph, w nn.Weights, c *clipConfig, p *processor) (string, int64, error) {
	const key = "vision_model."
	hidden, patch, side := int64(c.vision.Hidden), int64(c.patch), c.image/c.patch
	if p.height != c.image || p.width != c.image {
		return "", 0, fmt.Errorf("the preprocessor produces %dx%d pixels: crop_size does not match the model's "+
			"image_size %d", p.height, p.width, c.image)
	}
	rows := side*side + 1
	_, err := shape(w, key+"embeddings.patch_embedding.weight", hidden, 3, patch, patch)
	if err == nil {
		_, err = shape(w, key+"embeddings.position_embedding.weight", int64(rows), hidden)
	}
	if err == nil {
		err = c.vision.checkMLP(w, key)
	}
	if err != nil {
		return "", 0, err
	}
	v := c.vision.vit(key)
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("pictures", 3, p.height, p.width))
	class := g.Op("Reshape", g.Param(key+"embeddings.class_embedding"), g.Ints(1, 1, -1))
	cut := nn.Patches{Size: c.patch, Height: p.height, Width: p.width}
	x := v.Embed(g, pixels, cut, key+"embeddings.patch_embedding", class,
		g.Param(key+"embeddings.position_embedding.weight"))
	x = g.LayerNorm(x, key+"pre_layrnorm", v.Eps) // (sic)
	x = g.LayerNorm(classTokens(g, v, x, pixels, rows, c.vision.Layers), key+"post_layernorm", v.Eps)
	return project(g, w, x, "visual_projection", c.projection, hidden)
}

// classTokens runs x [pictures, rows, hidden] through the layers and returns the first row of each: [pictures,
// hidden]. The last layer computes only those rows.
func classTokens(g *nn.Graph, v *nn.ViT, x, pixels string, rows, layers int) string {
	x = g.Op("Reshape", x, g.Ints(-1, int64(v.Hidden)))
	n := g.Op("Squeeze", g.SizeOf(pixels, 0))
	first := g.Op("Mul", g.Op("Range", g.Int(0), n, g.Int(1)), g.Int(int64(rows)))
	return layersOf(g, v, x, layers, nn.Span{Shape: g.Ints(-1, int64(rows), int64(v.Hidden))}, first, "")
}

// layersOf runs x through all layers; the last one computes only the picked rows, and lastMask is its mask.
func layersOf(g *nn.Graph, v *nn.ViT, x string, layers int, s nn.Span, pick, lastMask string) string {
	if layers == 0 {
		return g.Pick(x, pick, 0)
	}
	for i := range layers - 1 {
		x = v.Layer(g, x, i, s)
	}
	return v.Layer(g, x, layers-1, nn.Span{Shape: s.Shape, Mask: lastMask, Pick: pick})
}

// clipText builds ids -> text_projection(final_layer_norm(state at the end token)). Attention is causal, so anything
// after the end token of a shorter text has no effect.
func clipText(g *nn.Graph, w nn.Weights, c *clipConfig) (string, int64, error) {
	const key = "text_model."
	if err := c.text.checkMLP(w, key); err != nil {
		return "", 0, err
	}
	v, hidden := c.text.vit(key), int64(c.text.Hidden)
	ids := g.Input(inIDs, onnx.Int64, onnx.Dims("texts", "length"))
	ends := g.Input(inEnds, onnx.Int64, onnx.Dims("texts"))
	length := g.SizeOf(ids, 1)
	x := g.OpA("Gather", onnx.Attrs{"axis": 0}, g.Param(key+"embeddings.token_embedding.weight"), ids)
	x = g.Op("Add", x, g.Op("Slice", g.Param(key+"embeddings.position_embedding.weight"), g.Ints(0), length))
	x = g.Op("Reshape", x, g.Ints(-1, hidden))

	places := g.Op("Range", g.Int(0), g.Op("Squeeze", length), g.Int(1))
	upTo := func(last string) string { // mask of the positions up to last
		return g.Mask(g.Op("LessOrEqual", places, last))
	}
	causal := upTo(g.Op("Unsqueeze", places, g.Ints(1)))                           // [length, length]
	toEnd := upTo(g.Op("Reshape", g.Op("Mod", ends, length), g.Ints(-1, 1, 1, 1))) // [texts, 1, 1, length]
	span := nn.Span{Shape: g.Shape(-1, length, int(hidden)), Mask: causal}
	x = g.LayerNorm(layersOf(g, v, x, c.text.Layers, span, ends, toEnd), key+"final_layer_norm", v.Eps)
	return project(g, w, x, "text_projection", c.projection, hidden)
}

// project returns the product with a projection matrix [width, hidden], and its width.
func project(g *nn.Graph, w nn.Weights, x, matrix string, width int, hidden int64) (string, int64, error) {
	size, err := shape(w, matrix+".weight", int64(width), hidden)
	if err != nil {
		return "", 0, err
	}
	return g.Linear(x, matrix, ""), size[0], nil
}

// endOfText returns the rule by which transformers finds a text's end token: the first eos_token_id. If that is 2, as
// in OpenAI's published files, it is the first occurrence of the highest id.
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
			return 0, fmt.Errorf("the tokenizer does not end texts with token %d (text_config.eos_token_id): tokenizer "+
				"and config.json do not match", token)
		}
		if len(ids) == 0 {
			return 0, errors.New("the text has no tokens")
		}
		return best, nil
	}
}

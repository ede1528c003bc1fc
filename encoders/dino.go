package encoders

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model/nn"
	"assay/onnx"
)

// dinoConfig is the configuration of a DINOv2, with the defaults of transformers' classes.
type dinoConfig struct {
	towerConfig
	image     [2]int // height, width in pixels that the position table is for
	patch     int
	registers int // tokens besides the class token; 0: none
	swiGLU    bool
	bias      bool // of queries, keys and values
}

// dinoHarmless are keys that do not affect embeddings, or not with the values listed.
var dinoHarmless = strictjson.Harmless{
	"num_channels":        {3},
	"layerscale_value":    nil, // initial value for training
	"use_mask_token":      nil, // only for training
	"tie_word_embeddings": nil, // there is no output layer
	// only for feature maps of detectors
	"apply_layernorm": nil, "reshape_hidden_states": nil, "out_features": nil, "out_indices": nil, "_out_features": nil,
	"_out_indices": nil,
	"stage_names":  nil,
}

func readDINOConfig(o *strictjson.Object) dinoConfig {
	c := dinoConfig{towerConfig: towerConfig{Hidden: 768, Layers: 12, Heads: 12, Activation: "gelu", Eps: 1e-6}, patch: 14,
		bias: true}
	kind, ratio := "", 4
	if o.Get("model_type", &kind); kind == "dinov2_with_registers" {
		c.patch, c.registers = 16, 4
		o.Get("num_register_tokens", &c.registers)
	}
	c.read(o, "hidden_dropout_prob", "attention_probs_dropout_prob", "drop_path_rate")
	o.Get("mlp_ratio", &ratio)
	o.Get("use_swiglu_ffn", &c.swiGLU)
	o.Get("qkv_bias", &c.bias)
	image, patch := sides(o, "image_size", 224), sides(o, "patch_size", c.patch)
	if c.image, c.patch = image, patch[0]; patch[0] != patch[1] || patch[0] < 1 || min(image[0], image[1]) < patch[0] {
		o.Failf("patch_size", "%v does not fit image_size %v (square patches are supported)", patch, image)
		c.patch = 1
	}
	if c.Intermediate = c.Hidden * ratio; c.swiGLU { // two thirds of that, rounded up to a multiple of 8
		c.Intermediate = (c.Intermediate*2/3 + 7) / 8 * 8
	}
	o.Close(dinoHarmless, nn.Legacy)
	return c
}

// sides reads a size given as one number or two.
func sides(o *strictjson.Object, key string, n int) [2]int {
	raw, list := o.Raw(key), []int{}
	if json.Unmarshal(raw, &list) == nil && len(list) == 2 {
		return [2]int{list[0], list[1]}
	}
	o.Get(key, &n)
	return [2]int{n, n}
}

func readDINO(m *Model, o *strictjson.Object) (towers, error) {
	c := readDINOConfig(o)
	if err := o.Err(); err != nil {
		return towers{}, err
	}
	m.dropout = c.Dropout
	w := dinoWeights{m.weights}
	w.rename()
	return towers{weights: w, images: func(g *nn.Graph) (string, int64, error) {
		if err := c.check(w); err != nil {
			return "", 0, err
		}
		return dinoVision(g, w, &c, m.processor)
	}}, nil
}

// check compares the tensors, of the layers only the first, with the configuration; the runtime checks that the
// layers agree.
func (c *dinoConfig) check(w nn.Weights) error {
	const layer = "encoder.layers.0."
	hidden, patch := int64(c.Hidden), int64(c.patch)
	mlp := "mlp.fc1"
	if c.swiGLU {
		mlp = "mlp.gate_proj"
	}
	want := map[string][]int64{
		"embeddings.patch_embeddings.projection.weight": {hidden, 3, patch, patch},
		"embeddings.position_embeddings":                {1, int64(c.image[0]/c.patch)*int64(c.image[1]/c.patch) + 1, hidden},
		layer + mlp + ".weight":                         {int64(c.Intermediate), hidden},
		layer + "layer_scale1.lambda1":                  {hidden},
	}
	if c.registers > 0 {
		want["embeddings.register_tokens"] = []int64{1, int64(c.registers), hidden}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, err := shape(w, name, want[name]...); err != nil {
			return err
		}
	}
	if w.Has(layer+"self_attn.q_proj.bias") != c.bias {
		return fmt.Errorf("config.json: qkv_bias %v does not match the weights", c.bias)
	}
	return nil
}

// dinoVision builds pixels -> layernorm(class token of the last layer), which is pooler_output.
func dinoVision(g *nn.Graph, w nn.Weights, c *dinoConfig, p *processor) (string, int64, error) {
	hidden, patch, registers := int64(c.Hidden), c.patch, c.registers > 0
	v := c.vit("")
	positions, err := dinoPositions(g, w, hidden, p.height/patch, p.width/patch, registers)
	if err != nil {
		return "", 0, err
	}
	rows := (p.height/patch)*(p.width/patch) + 1
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("pictures", 3, p.height, p.width))
	cut := nn.Patches{Size: patch, Height: p.height, Width: p.width}
	x := v.Embed(g, pixels, cut, "embeddings.patch_embeddings.projection", g.Param("embeddings.cls_token"), positions)
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

// dinoPositions returns the position embeddings [1, 1 + height*length, hidden] of a grid of patches: the stored
// square table, resampled for other grids. Published models are trained on larger pictures (518 pixels) than they are
// used with. A resampled table is a constant of the graph.
func dinoPositions(g *nn.Graph, w nn.Weights, hidden int64, height, length int, antialias bool) (string, error) {
	const name = "embeddings.position_embeddings"
	size, err := shape(w, name, 1, 0, hidden)
	if err != nil {
		return "", err
	}
	side := int(math.Sqrt(float64(size[1] - 1)))
	if side*side != int(size[1])-1 {
		return "", fmt.Errorf("%s has %d positions, which is not a square plus a class token", name, size[1])
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

// dinoWeights is a DINOv2 checkpoint under CLIP's names. The two matrices that published giant models store as one
// (mlp.weights_in: gate, then up) appear as halves of it.
type dinoWeights struct{ *checkpoints.Weights }

// rename aliases every layer's parameters, in the published naming or that of transformers 5, to the names that
// nn.ViT uses. The tower of a larger model has its name as a prefix.
func (w dinoWeights) rename() {
	names := strings.NewReplacer("encoder.layer.", "encoder.layers.", ".norm1.", ".layer_norm1.", ".norm2.",
		".layer_norm2.",
		".attention.attention.query.", ".self_attn.q_proj.", ".attention.attention.key.", ".self_attn.k_proj.",
		".attention.attention.value.", ".self_attn.v_proj.", ".attention.output.dense.", ".self_attn.out_proj.",
		".attention.o_proj.", ".self_attn.out_proj.", ".attention.", ".self_attn.", ".mlp.weights_out.", ".mlp.down_proj.")
	for _, stored := range w.Names() {
		name := strings.TrimPrefix(strings.TrimPrefix(stored, "dinov2."), "dinov2_with_registers.")
		w.Alias(names.Replace(name), stored)
	}
}

// half finds a parameter that is one half of a stored tensor.
func (w dinoWeights) half(name string) (stored string, second, ok bool) {
	stored = strings.NewReplacer(".gate_proj.", ".weights_in.", ".up_proj.", ".weights_in.").Replace(name)
	return stored, strings.Contains(name, ".up_proj."), stored != name && w.Weights.Has(stored)
}

// Has reports whether the checkpoint holds a parameter.
func (w dinoWeights) Has(name string) bool {
	_, _, ok := w.half(name)
	return ok || w.Weights.Has(name)
}

// Tensor references a parameter in place in its file.
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

// resample resamples a position table [side*side, width] to a grid of height x length cells, as torch's bicubic
// interpolate with align_corners=False does. antialias selects the antialiased filter, which DINOv2 with registers
// uses.
func resample(table []float32, side, height, length, width int, antialias bool) []float32 {
	taps := bicubicTaps
	if antialias {
		taps = antialiasedTaps
	}
	rows := make([]float64, height*side*width) // [height, side, width]
	for y, weights := range taps(side, height) {
		for source, weight := range weights {
			for i := range side * width {
				rows[y*side*width+i] += weight * float64(table[source*side*width+i])
			}
		}
	}
	out := make([]float32, height*length*width)
	columns := taps(side, length)
	cell := make([]float64, width)
	for y := range height {
		for x, weights := range columns {
			clear(cell)
			for source, weight := range weights {
				for i := range cell {
					cell[i] += weight * rows[(y*side+source)*width+i]
				}
			}
			for i, v := range cell {
				out[(y*length+x)*width+i] = float32(v)
			}
		}
	}
	return out
}

// bicubicTaps returns for each of out cells the weight of each of in cells: four neighbours, a = -0.75, with those
// beyond the edge clamped to the edge.
func bicubicTaps(in, out int) [][]float64 {
	rows := make([][]float64, out)
	for i := range rows {
		rows[i] = make([]float64, in)
		x := (float64(i)+0.5)*float64(in)/float64(out) - 0.5
		for at := int(math.Floor(x)) - 1; at <= int(math.Floor(x))+2; at++ {
			rows[i][min(max(at, 0), in-1)] += cubic(x-float64(at), -0.75)
		}
	}
	return rows
}

// antialiasedTaps is Pillow's filter: a = -0.5, widened when shrinking, cut at the edges and normalised.
func antialiasedTaps(in, out int) [][]float64 {
	rows := make([][]float64, out)
	scale := float64(in) / float64(out)
	wide := max(scale, 1)
	for i := range rows {
		rows[i] = make([]float64, in)
		centre, sum := (float64(i)+0.5)*scale, 0.0
		for at := max(int(centre-2*wide+0.5), 0); at < min(int(centre+2*wide+0.5), in); at++ {
			rows[i][at] = cubic((float64(at)-centre+0.5)/wide, -0.5)
			sum += rows[i][at]
		}
		for at := range rows[i] {
			rows[i][at] /= sum
		}
	}
	return rows
}

// cubic is Keys' convolution kernel.
func cubic(x, a float64) float64 {
	switch x = math.Abs(x); {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

package fresh

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"
)

// weights makes every tensor of a checkpoint. The values of one depend on the seed, its name and its shape only.
type weights struct {
	seed    uint64
	tensors map[string]*tensor.Dense
}

// Init returns the tensors of a fresh model under the names of a Hugging Face checkpoint, float32. rows is the number of
// rows of the embedding table.
//
// Activations begin with a variance near 1 at every depth: a linear layer has weights of deviation 1/sqrt(fan in) and
// no bias; those that write into the residual stream, two a layer, are divided by sqrt(2 layers) (GPT-2); embeddings
// have deviation 1, as what the projector puts beside them; norms are 1; the output layer is small, so that all tokens begin
// about equally likely. Patches know from the start where they are: the position table holds two-dimensional sines and
// cosines.
func (s Sizes) Init(rows int, seed uint64) map[string]*tensor.Dense {
	w := weights{seed, map[string]*tensor.Dense{}}
	s.initLanguage(w, rows)
	s.initVision(w)
	w.linear("multi_modal_projector.linear_1", s.Hidden, s.VisionHidden, true, 1)
	w.linear("multi_modal_projector.linear_2", s.Hidden, s.Hidden, true, 1)
	w.normal("image_newline", 1, s.Hidden)
	return w.tensors
}

func (s Sizes) initLanguage(w weights, rows int) {
	const model = "language_model.model."
	residual := 1 / math.Sqrt(float64(2*s.Layers))
	keys := s.Hidden / s.Heads * s.KVHeads
	w.normal(model+"embed_tokens.weight", 1, rows, s.Hidden)
	for i := range s.Layers {
		layer := fmt.Sprintf(model+"layers.%d.", i)
		w.fill(layer+"input_layernorm.weight", 1, s.Hidden)
		w.linear(layer+"self_attn.q_proj", s.Hidden, s.Hidden, false, 1)
		w.linear(layer+"self_attn.k_proj", keys, s.Hidden, false, 1)
		w.linear(layer+"self_attn.v_proj", keys, s.Hidden, false, 1)
		w.linear(layer+"self_attn.o_proj", s.Hidden, s.Hidden, false, residual)
		w.fill(layer+"post_attention_layernorm.weight", 1, s.Hidden)
		w.linear(layer+"mlp.gate_proj", s.Intermediate, s.Hidden, false, 1)
		w.linear(layer+"mlp.up_proj", s.Intermediate, s.Hidden, false, 1)
		w.linear(layer+"mlp.down_proj", s.Hidden, s.Intermediate, false, residual)
	}
	w.fill(model+"norm.weight", 1, s.Hidden)
	w.linear("language_model.lm_head", rows, s.Hidden, false, 0.1)
}

func (s Sizes) initVision(w weights) {
	const tower = "vision_tower."
	h, residual := s.VisionHidden, 1/math.Sqrt(float64(2*s.VisionLayers))
	w.normal(tower+"embeddings.class_embedding", 1, h)
	w.normal(tower+"embeddings.patch_embedding.weight", 1/math.Sqrt(float64(3*s.Patch*s.Patch)), h, 3, s.Patch, s.Patch)
	w.put(tower+"embeddings.position_embedding.weight", positions(s.ImageSize/s.Patch, h), s.TileTokens()+1, h)
	w.norm(tower+"pre_layrnorm", h)
	for i := range s.VisionLayers {
		layer := fmt.Sprintf(tower+"encoder.layers.%d.", i)
		w.norm(layer+"layer_norm1", h)
		w.linear(layer+"self_attn.q_proj", h, h, true, 1)
		w.linear(layer+"self_attn.k_proj", h, h, true, 1)
		w.linear(layer+"self_attn.v_proj", h, h, true, 1)
		w.linear(layer+"self_attn.out_proj", h, h, true, residual)
		w.norm(layer+"layer_norm2", h)
		w.linear(layer+"mlp.fc1", s.VisionIntermediate, h, true, 1)
		w.linear(layer+"mlp.fc2", h, s.VisionIntermediate, true, residual)
	}
	w.norm(tower+"post_layernorm", h)
}

// positions is the position table [side*side + 1, width]: zeros for the class token; then for the patch at (y, x), a
// quarter of the width each: sin(x f), cos(x f), sin(y f), cos(y f), with frequencies f from 1 down to 1/100 (wavelengths
// of 6 to 600 patches).
func positions(side, width int) []float32 {
	table := make([]float32, width, (side*side+1)*width)
	quarter := width / 4
	for y := range side {
		for x := range side {
			row := make([]float32, width)
			for k := range quarter {
				f := math.Pow(100, -float64(k)/float64(quarter))
				for axis, p := range []int{x, y} {
					sin, cos := math.Sincos(float64(p) * f)
					row[2*axis*quarter+k], row[(2*axis+1)*quarter+k] = float32(sin), float32(cos)
				}
			}
			table = append(table, row...)
		}
	}
	return table
}

// linear makes NAME.weight [out, in] of deviation gain/sqrt(in), and a bias of zeros.
func (w weights) linear(name string, out, in int, bias bool, gain float64) {
	w.normal(name+".weight", gain/math.Sqrt(float64(in)), out, in)
	if bias {
		w.fill(name+".bias", 0, out)
	}
}

// norm makes the weight and bias of a layer norm.
func (w weights) norm(name string, width int) {
	w.fill(name+".weight", 1, width)
	w.fill(name+".bias", 0, width)
}

// normal draws from the normal distribution, cut at three deviations.
func (w weights) normal(name string, deviation float64, shape ...int) {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	random := rand.New(rand.NewPCG(w.seed, hash.Sum64()))
	values := make([]float32, tensor.Shape(shape).TotalSize())
	for i := range values {
		v := random.NormFloat64()
		for math.Abs(v) > 3 {
			v = random.NormFloat64()
		}
		values[i] = float32(v * deviation)
	}
	w.put(name, values, shape...)
}

func (w weights) fill(name string, value float32, shape ...int) {
	values := make([]float32, tensor.Shape(shape).TotalSize())
	for i := range values {
		values[i] = value
	}
	w.put(name, values, shape...)
}

func (w weights) put(name string, values []float32, shape ...int) {
	w.tensors[name] = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
}

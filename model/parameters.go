package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/checkpoints"
	"assay/onnx"
)

// Parameter is one tensor that a checkpoint's configuration calls for.
type Parameter struct {
	Name   string // as the checkpoint spells it
	Shape  []int64
	Role   Role
	Layers int  // how many layers write into the same residual stream, two times each; 0: it does not
	Unread bool // the model never looks at it: it may be missing
}

// Role is what a tensor is for; it decides how a fresh one begins.
type Role int

// Roles of tensors.
const (
	RoleWeight    Role = iota // of a linear layer or a convolution [out, in...]
	RoleBias                  // bias [out]
	RoleNorm                  // of a norm [width]
	RoleEmbedding             // one or more embeddings [..., width]
	RolePositions             // position table [..., side*side, width], with one more row the first is the class token's
	RoleOutput                // lm_head [V, hidden]
)

// Parameters are all tensors of a checkpoint.
type Parameters []Parameter

// Add appends a tensor.
func (p *Parameters) Add(role Role, name string, shape ...int) {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	*p = append(*p, Parameter{Name: name, Shape: dims, Role: role})
}

// Linear appends NAME.weight [out, in] and NAME.bias.
func (p *Parameters) Linear(name string, out, in int, bias bool) {
	p.Residual(name, out, in, bias, 0)
}

// Residual appends a linear layer that writes into the residual stream of that many layers.
func (p *Parameters) Residual(name string, out, in int, bias bool, layers int) {
	p.Add(RoleWeight, name+".weight", out, in)
	(*p)[len(*p)-1].Layers = layers
	if bias {
		p.Add(RoleBias, name+".bias", out)
	}
}

// LayerNorm appends NAME.weight and NAME.bias [width].
func (p *Parameters) LayerNorm(name string, width int) {
	p.Add(RoleNorm, name+".weight", width)
	p.Add(RoleBias, name+".bias", width)
}

// GatedMLP appends what a [GatedMLP] reads.
func (p *Parameters) GatedMLP(name string, hidden, intermediate int, bias bool, layers int) {
	p.Linear(name+"gate_proj", intermediate, hidden, bias)
	p.Linear(name+"up_proj", intermediate, hidden, bias)
	p.Residual(name+"down_proj", hidden, intermediate, bias, layers)
}

// Parameters lists the tensors of the language model, the two tables included.
func (d *Decoder) Parameters(k Keys) Parameters {
	var p Parameters
	p.Add(RoleEmbedding, k.Embedding, d.Vocab, d.Hidden)
	for i := range d.Layers {
		layer := d.Key + "layers." + strconv.Itoa(i) + "."
		p.Add(RoleNorm, layer+"input_layernorm.weight", d.Hidden)
		p.Linear(layer+"self_attn.q_proj", d.Heads*d.HeadDim, d.Hidden, d.InBias)
		p.Linear(layer+"self_attn.k_proj", d.KVHeads*d.HeadDim, d.Hidden, d.InBias)
		p.Linear(layer+"self_attn.v_proj", d.KVHeads*d.HeadDim, d.Hidden, d.InBias)
		p.Residual(layer+"self_attn.o_proj", d.Hidden, d.Heads*d.HeadDim, d.OutBias, d.Layers)
		p.Add(RoleNorm, layer+"post_attention_layernorm.weight", d.Hidden)
		p.GatedMLP(layer+"mlp.", d.Hidden, d.Intermediate, d.MLPBias, d.Layers)
	}
	p.Add(RoleNorm, d.Key+"norm.weight", d.Hidden)
	if k.Output != k.Embedding {
		p.Add(RoleOutput, k.Output, d.Vocab, d.Hidden)
	}
	if k.Twin != "" {
		p.Add(RoleOutput, k.Twin, d.Vocab, d.Hidden)
		p[len(p)-1].Unread = true
	}
	return p
}

// storedType is how configurations name the type of the weights, today and before transformers 5.
type storedType struct {
	Today  string `json:"dtype"`
	Before string `json:"torch_dtype"`
}

// or is the type of absent weights: the first one named, float32 if none is.
func (s storedType) or(other storedType) onnx.DType {
	types := map[string]onnx.DType{"float32": onnx.Float, "float16": onnx.Float16, "bfloat16": onnx.BFloat16}
	for _, name := range []string{s.Today, s.Before, other.Today, other.Before} {
		if t, ok := types[name]; ok {
			return t
		}
	}
	return onnx.Float
}

// shown is how many wrong tensors an error names.
const shown = 40

var floating = map[onnx.DType]bool{onnx.Float: true, onnx.Float16: true, onnx.BFloat16: true}

// leftovers are ends of names of buffers that older versions of transformers stored and newer ones compute.
var leftovers = []string{".position_ids", ".rotary_emb.inv_freq", ".rotary_pos_emb.inv_freq", ".masked_bias"}

// fit declares the parameters where weights are absent. Otherwise it reports every parameter that is missing or of
// another shape, and every stored tensor that nothing uses: then the configuration is not that of the weights.
func (p Parameters) fit(w *checkpoints.Weights, t onnx.DType) error {
	if w.Absent() {
		for _, x := range p {
			if w.Quantized(x.Name) == nil {
				w.Declare(x.Name, t, x.Shape)
			}
		}
		return nil
	}
	var wrong []error
	known := make(map[string]bool, len(p))
	for _, x := range p {
		info, ok := w.Info(x.Name)
		known[info.Name] = ok
		switch {
		case !ok && !x.Unread:
			wrong = append(wrong, fmt.Errorf("%s is missing; it should have shape %v", x.Name, x.Shape))
		case ok && !floating[info.Type]:
			wrong = append(wrong,
				fmt.Errorf("%s holds %v; float32, float16 or bfloat16 is read (are the weights quantised?)", x.Name, info.Type))
		case ok && !slices.Equal(info.Shape, x.Shape):
			wrong = append(wrong, fmt.Errorf("%s has shape %v; it should be %v", x.Name, info.Shape, x.Shape))
		}
	}
	for _, name := range w.Names() {
		if !known[name] && !slices.ContainsFunc(leftovers, func(end string) bool { return strings.HasSuffix(name, end) }) {
			wrong = append(wrong, fmt.Errorf("%s is stored, but config.json calls for no such tensor", name))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	n := len(wrong)
	if n > shown {
		wrong = append(wrong[:shown], fmt.Errorf("and %d more", n-shown))
	}
	return fmt.Errorf("%d tensors do not fit config.json, which calls for %d:\n%w", n, len(p), errors.Join(wrong...))
}

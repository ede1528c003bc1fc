package nn

import "strconv"

// Parameter is one tensor that a checkpoint's configuration calls for.
type Parameter struct {
	Name   string // as in the checkpoint
	Shape  []int64
	Role   Role
	Layers int  // how many layers write to the same residual stream, twice each; 0: this tensor does not
	Unread bool // the model never reads it: it may be missing
}

// Role is what a tensor is for; it determines how a new one is initialized.
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
	*p = append(*p, Parameter{Name: name, Shape: dimensions(shape), Role: role})
}

// dimensions converts a shape to int64, as graphs need it.
func dimensions(shape []int) []int64 {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	return dims
}

// Linear appends NAME.weight [out, in] and NAME.bias.
func (p *Parameters) Linear(name string, out, in int, bias bool) {
	p.Residual(name, out, in, bias, 0)
}

// Residual appends a linear layer that writes to the residual stream of that many layers.
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

// Keys are checkpoint names.
type Keys struct {
	Embedding string // [V, hidden]
	Output    string // lm_head [V, hidden]; equal to Embedding if tied
	Twin      string // the name of a tied lm_head that is stored anyway; "": it is not
}

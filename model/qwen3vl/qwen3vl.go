// Package qwen3vl is the Qwen3-VL family (dense): a vision tower and a Qwen3 language model whose queries and keys have
// norms. The tower has a position table, and features of several of its layers are added after the first layers of the
// language model (DeepStack). Most of it is in package qwenvl; this package adds the position table, the DeepStack
// mergers and the norms.
package qwen3vl

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/model/qwenvl"
)

func init() { backbone.Register("qwen3_vl", open) }

// Architecture is an opened Qwen3-VL checkpoint.
type Architecture struct {
	*qwenvl.Family
	places int   // rows of the position table
	taps   []int // layers of the tower whose features go through their own merger
}

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (backbone.Architecture, error) {
	b := &Architecture{places: 2304, taps: []int{8, 16, 24}}
	var err error
	b.Family, err = qwenvl.Open(dir, raw, w, qwenvl.Spec{
		ModelType: "qwen3_vl",
		Width:     "hidden_size",
		Out:       "out_hidden_size",
		Tower: qwenvl.Tower{ // transformers' Qwen3VLVisionConfig
			Layers:       27,
			Hidden:       1152,
			Intermediate: 4304,
			Heads:        16,
			Out:          3584,
			Activation:   "gelu_pytorch_tanh",
			Patch:        16,
			Frames:       2,
			Merge:        2,
			Theta:        1e4,
		},
		Read: b.readVision,
	})
	if err != nil {
		return nil, err
	}
	d := b.Decoder()
	d.Deepstack, d.Layer = b.deepstack(), b.layer
	return b, nil
}

func (b *Architecture) readVision(o *strictjson.Object, t *qwenvl.Tower) {
	o.Get("intermediate_size", &t.Intermediate)
	if o.Get("num_position_embeddings", &b.places); b.places < 1 {
		o.Failf("num_position_embeddings", "%d is not positive", b.places)
	}
	o.Get("deepstack_visual_indexes", &b.taps)
}

// side returns the edge of the position table; rows beyond side*side are never read.
func (b *Architecture) side() int { return int(math.Sqrt(float64(b.places))) }

// deepstack counts the mergers whose features go into the language model. Of two mergers of the same layer only the
// first counts; a merger of a layer that the tower does not have never counts.
func (b *Architecture) deepstack() (n int) {
	for i := range b.Tower.Layers {
		if slices.Contains(b.taps, i) {
			n++
		}
	}
	return n
}

// layer adds a norm to every head of queries and keys, before the rotary embedding.
func (b *Architecture) layer(i int, l *nn.DecoderLayer) nn.Layer {
	d := b.Decoder()
	norm := func(x nn.Module, name string) nn.Module {
		key := fmt.Sprintf("%slayers.%d.self_attn.%s", d.Key, i, name)
		return &headNorm{x, &nn.RMSNorm{Key: key, Eps: d.Eps}, d.HeadDim}
	}
	l.Attention.Query = norm(l.Attention.Query, "q_norm")
	l.Attention.Key = norm(l.Attention.Key, "k_norm")
	return l
}

// headNorm is a norm over each head of a projection's output, [rows, heads*dim].
type headNorm struct {
	projection, norm nn.Module
	dim              int
}

func (n *headNorm) Forward(g *nn.Graph, x string) string {
	y := g.Op("Reshape", g.Wide(n.projection.Forward(g, x)), g.Ints(0, -1, int64(n.dim)))
	return g.Op("Reshape", n.norm.Forward(g, y), g.Ints(0, -1))
}

// Parameters lists the tensors of language model, tower and mergers.
func (b *Architecture) Parameters() nn.Parameters {
	t, d := b.Tower, b.Decoder()
	p := b.Family.Parameters(true, func(p *nn.Parameters, key string) {
		p.LayerNorm(key+"norm1", t.Hidden)
		p.LayerNorm(key+"norm2", t.Hidden)
		p.Linear(key+"mlp.linear_fc1", t.Intermediate, t.Hidden, true)
		p.Residual(key+"mlp.linear_fc2", t.Hidden, t.Intermediate, true, t.Layers)
	})
	for i := range d.Layers {
		layer := fmt.Sprintf("%slayers.%d.self_attn.", d.Key, i)
		p.Add(nn.RoleNorm, layer+"q_norm.weight", d.HeadDim)
		p.Add(nn.RoleNorm, layer+"k_norm.weight", d.HeadDim)
	}
	p.Add(nn.RolePositions, b.tableKey(), b.places, t.Hidden)
	merger := func(name string, width int) {
		key := b.Prefix.Key + name
		p.LayerNorm(key+"norm", width)
		b.MergerParameters(&p, key+"linear_fc1", key+"linear_fc2")
	}
	merger("merger.", t.Hidden)
	for k := range b.taps {
		merger(fmt.Sprintf("deepstack_merger_list.%d.", k), t.Hidden*t.Unit())
	}
	return p
}

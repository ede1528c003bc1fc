package model

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/lora"
	"assay/onnx"
)

// Parts are a scorer before it belongs to a graph: its configuration, the tensors of head.safetensors, and an adapter (nil:
// none).
type Parts struct {
	Config  *ScorerConfig
	Own     map[string]*tensor.Dense
	Adapter *lora.Adapter
}

// LoadParts reads a scorer directory.
func LoadParts(dir string) (*Parts, error) {
	c, own, a, err := readScorerDir(dir)
	if err != nil {
		return nil, err
	}
	return &Parts{c, own, a}, nil
}

// NewParts makes a fresh scorer on a backbone: the head as torch initialises linear layers (uniform in +-1/sqrt(in)), the score
// token's two rows as the mean of the table they stand beside, and, if l is not nil, an adapter as PEFT initialises it.
func NewParts(c *ScorerConfig, l *lora.Config, seed uint64) (*Parts, error) {
	if err := c.Normalize(); err != nil {
		return nil, err
	}
	b, err := OpenBackbone(c.Backbone)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	p := &Parts{Config: c, Own: map[string]*tensor.Dense{}}
	sizes := c.Head.Sizes(b.Decoder().Hidden)
	for i := range len(sizes) - 1 {
		in, out := sizes[i], sizes[i+1]
		p.uniform(fmt.Sprintf("layers.%d.weight", i), seed, in, out, in)
		p.uniform(fmt.Sprintf("layers.%d.bias", i), seed, in, out)
	}
	for name, key := range map[string]string{"score_token.embedding": b.Keys().Embedding, "score_token.lm_head": b.Keys().Output} {
		if p.Own[name], err = meanRow(b.Weights, key); err != nil {
			return nil, err
		}
	}
	if l != nil {
		if p.Adapter, err = lora.New(l, lora.Modules(b.Weights), seed); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// uniform fills a tensor by its name, so that its values do not depend on what else is drawn.
func (p *Parts) uniform(name string, seed uint64, in int, shape ...int) {
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	t := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
	bound := 1 / math.Sqrt(float64(in))
	for i, v := 0, t.Data().([]float32); i < len(v); i++ {
		v[i] = float32((2*rng.Float64() - 1) * bound)
	}
	p.Own[name] = t
}

// meanRow averages the rows of a table [V, H], a stretch of rows at a time.
func meanRow(w *checkpoints.Weights, key string) (*tensor.Dense, error) {
	info, ok := w.Info(key)
	if !ok || len(info.Shape) != 2 || info.Shape[0] == 0 {
		return nil, fmt.Errorf("the checkpoint holds no table %q", key)
	}
	raw, err := w.Bytes(key)
	if err != nil {
		return nil, err
	}
	rows, width := int(info.Shape[0]), int(info.Shape[1])
	sum, mean := make([]float64, width), make([]float32, width)
	bytes := width * onnx.DType(info.Type).Size()
	for r := range rows {
		values, err := checkpoints.Float32s(info.Type, raw[r*bytes:(r+1)*bytes])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for i, v := range values {
			sum[i] += float64(v)
		}
	}
	for i := range mean {
		mean[i] = float32(sum[i] / float64(rows))
	}
	return tensor.New(tensor.WithShape(width), tensor.WithBacking(mean)), nil
}

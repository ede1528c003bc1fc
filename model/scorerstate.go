package model

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/calibration"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/exec"
	"assay/onnx"
)

// ScorerState is an unopened scorer: its configuration, the tensors of head.safetensors, and an adapter.
type ScorerState struct {
	Config  *ScorerConfig
	Tensors map[string]*tensor.Dense
	Adapter *lora.Adapter   // nil: none
	Members []*lora.Adapter // of an ensemble: its members' adapters; the tensors have names of nn.MemberPrefix

	Calibration *calibration.Calibration // of its reported scores, if Config names one; ignored in training
	Plan        bool                     // the backbone's weights may be absent: graphs are built and counted, not run
	Dir         string                   // scorer directory that it was read from; "": it was created

	moved bool // Config.Backbone differs from scorer.yaml
}

// backbone opens the backbone. It refuses files that differ from the digests in scorer.yaml.
func (p *ScorerState) backbone() (*backbone.Backbone, error) {
	if err := p.missing(); err != nil {
		return nil, err
	}
	if err := p.Config.checkBackbone(); err != nil {
		return nil, err
	}
	b, err := p.openBackbone()
	if err != nil {
		return nil, err
	}
	if err := p.Config.checkWeights(b.Weights); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (p *ScorerState) openBackbone() (*backbone.Backbone, error) {
	if p.Config.Weights != "" {
		return backbone.OpenBackboneWith(p.Config.Backbone, p.Config.Weights)
	}
	if p.Plan {
		return backbone.DescribeBackbone(p.Config.Backbone)
	}
	return backbone.OpenBackbone(p.Config.Backbone)
}

// LoadScorerState reads a scorer directory.
func LoadScorerState(dir string) (*ScorerState, error) {
	p, err := readScorerDir(dir)
	if err != nil {
		return nil, err
	}
	if err := p.Config.checkOwn(dir); err != nil {
		return nil, err
	}
	p.Dir = dir
	p.Calibration, err = readCalibration(dir, p.Config)
	return p, err
}

// Undigested is [ScorerConfig.Undigested] for a scorer that was read; "" for a created one.
func (p *ScorerState) Undigested() string {
	if p.Dir == "" {
		return ""
	}
	return p.Config.Undigested(p.Dir)
}

// At is the scorer with its backbone in another folder than in scorer.yaml; "": unchanged.
func (p *ScorerState) At(backbone string) *ScorerState {
	if backbone == "" {
		return p
	}
	q, c := *p, *p.Config
	c.Backbone, q.Config, q.moved = backbone, &c, true
	return &q
}

// CheckBackbone compares the backbone with its digests in scorer.yaml; known: there are such digests.
func (p *ScorerState) CheckBackbone() (known bool, err error) {
	if err := p.missing(); err != nil || !p.Config.Digests.Complete() {
		return false, err
	}
	b, err := p.backbone()
	if err != nil {
		return true, err
	}
	return true, b.Close()
}

// NewScorerState creates a fresh scorer on a backbone. The head is initialised like torch's linear layers (uniform in
// +-1/sqrt(in)), and the score token's two rows are the mean of the table that each extends. If l is not nil, there is
// an adapter as PEFT initialises it.
func NewScorerState(c *ScorerConfig, l *lora.Config, seed uint64) (*ScorerState, error) {
	p := &ScorerState{Config: c}
	return p, p.begin(l, seed)
}

// PlanScorerState is NewScorerState for a plan: if weights are absent, the score token's rows are zero.
func PlanScorerState(c *ScorerConfig, l *lora.Config, seed uint64) (*ScorerState, error) {
	p := &ScorerState{Config: c, Plan: true}
	return p, p.begin(l, seed)
}

func (p *ScorerState) begin(l *lora.Config, seed uint64) error {
	c := p.Config
	if err := c.Normalize(); err != nil {
		return err
	}
	b, err := p.backbone()
	if err != nil {
		return err
	}
	defer b.Close()
	p.Tensors = map[string]*tensor.Dense{}
	p.beginHeads(c.headShapes(b.Decoder().Hidden), seed)
	if !c.AddsToken() {
		return p.beginAdapter(l, b, seed)
	}
	for name, key := range map[string]string{
		"score_token.embedding": b.Keys().Embedding,
		"score_token.lm_head":   b.Keys().Output,
	} {
		if p.Tensors[name], err = meanRow(b.Weights, key); err != nil {
			return err
		}
	}
	return p.beginAdapter(l, b, seed)
}

// beginAdapter creates a fresh adapter if l is not nil.
func (p *ScorerState) beginAdapter(l *lora.Config, b *backbone.Backbone, seed uint64) (err error) {
	if l == nil {
		return nil
	}
	if p.Adapter, err = lora.New(l, lora.Modules(b.Weights), seed); err != nil {
		return err
	}
	return exec.BindAdapter(p.Adapter, b.Weights)
}

// beginHeads initialises the heads' tensors with these shapes; rows of choices are the backbone's.
func (p *ScorerState) beginHeads(shapes map[string][]int, seed uint64) {
	for name, shape := range shapes {
		layer, bias := strings.CutSuffix(name, ".bias")
		switch {
		case isChoiceRows(name):
		case bias:
			p.uniform(name, seed, shapes[layer+".weight"][1], shape...)
		default:
			p.uniform(name, seed, shape[1], shape...)
		}
	}
}

// uniform fills a tensor with a seed from its name, so that its values do not depend on what else is drawn.
func (p *ScorerState) uniform(name string, seed uint64, in int, shape ...int) {
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	t := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
	bound := 1 / math.Sqrt(float64(in))
	for i, v := 0, t.Data().([]float32); i < len(v); i++ {
		v[i] = float32((2*rng.Float64() - 1) * bound)
	}
	p.Tensors[name] = t
}

// meanRow averages the rows of a table [V, H], one row at a time; zero if the weights are absent.
func meanRow(w *checkpoints.Weights, key string) (*tensor.Dense, error) {
	info, ok := w.Info(key)
	if !ok || len(info.Shape) != 2 || info.Shape[0] == 0 {
		return nil, fmt.Errorf("the checkpoint has no table %q", key)
	}
	if w.Absent() {
		return tensor.New(tensor.WithShape(int(info.Shape[1])), tensor.Of(tensor.Float32)), nil
	}
	raw, err := w.Bytes(key)
	if err != nil {
		return nil, err
	}
	rows, width := int(info.Shape[0]), int(info.Shape[1])
	sum, mean := make([]float64, width), make([]float32, width)
	bytes := width * onnx.DType(info.Type).Size()
	values := make([]float32, width)
	for r := range rows {
		if err := checkpoints.Widen(values, info.Type, raw[r*bytes:(r+1)*bytes]); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for i, v := range values {
			sum[i] += float64(v)
		}
	}
	for i := range mean {
		if math.IsNaN(sum[i]) || math.IsInf(sum[i], 0) {
			return nil, fmt.Errorf(
				"%s: tensor %s holds NaN or infinities in column %d: the backbone's weights are damaged, load them again",
				w.Dir(), key, i)
		}
		mean[i] = float32(sum[i] / float64(rows))
	}
	return tensor.New(tensor.WithShape(width), tensor.WithBacking(mean)), nil
}

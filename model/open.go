package model

import (
	"errors"
	"fmt"
	"maps"

	"gorgonia.org/tensor"

	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// openScorer opens the backbone of a scorer, checks that the two match, and assembles the [Scorer]; plan defines what
// is trained.
func openScorer(p *ScorerState, plan exec.Plan, o Options) (*Scorer, error) {
	p = p.At(o.Backbone)
	if err := p.fetch(); err != nil {
		return nil, err
	}
	config, err := p.Config.of(o.Dimension)
	if err != nil {
		return nil, err
	}
	b, err := p.backbone()
	if err != nil {
		return nil, err
	}
	if text := p.Undigested(); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	if config.Rotary == "bfloat16" {
		b.Decoder().Rope.Rounded = true
	}
	plan.Device, plan.RunDevice, plan.Blocks, plan.Pieces = o.Device, o.On, nn.Blocks(o.Blocks), o.Pieces
	plan.LossRows = o.LossRows
	n := &exec.Network{
		Backbone: b,
		Tensors:  maps.Clone(p.Tensors),
		DType:    config.DType,
		Plain:    config.Positions == "plain",
		Packer:   config.packing(b.Decoder().Vocab),
		Plan:     plan,
		Members:  len(p.Members),
	}
	maps.DeleteFunc(n.Tensors, func(name string, _ *tensor.Dense) bool { // heads of other dimensions
		return o.Dimension != "" && !config.ofDimension(name, o.Dimension)
	})
	s := &Scorer{config: config, net: n}
	if err = s.check(p, o.Elsewhere || o.On != "", o.Kernels); err == nil {
		err = s.adoptCalibration(p, &o)
	}
	if n.Plan.KernelsWrong && o.Warn != nil {
		o.Warn(n.Kernels().String())
	}
	if err == nil && plan.Training == exec.TrainBackbone {
		err = b.Unpacked("its own weights cannot be trained, only an adapter over them")
	}
	if err == nil {
		n.CompletePlan(o.Threads)
		err = s.ready(o)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return s, nil
}

// ready opens the tokenizer; sessions are opened on first use.
func (s *Scorer) ready(o Options) error {
	c, p := s.config, exec.ProcessorOptions{}
	p.ChatTemplate, p.EndOfTurn, p.Token, p.AddsToken = c.ChatTemplate, c.EndOfTurn, c.token(), c.AddsToken()
	p.Numbers = c.NumberPictures
	processor, run, err := exec.Open(s.net, &o, p, c.featureIdentity())
	if err != nil {
		return err
	}
	s.prepare, s.run = &preparer{c, s.net, processor}, run
	if err := s.resolveChoices(s.prepare.Text); err != nil {
		return errors.Join(err, s.prepare.Text.Close())
	}
	return nil
}

// Close frees sessions, tokenizer and weights.
func (s *Scorer) Close() error { return errors.Join(s.prepare.Text.Close(), s.run.Close()) }

// check resolves the device, unless it is elsewhere, and checks that backbone, scorer.yaml, head and adapter match.
func (s *Scorer) check(p *ScorerState, elsewhere bool, kernels string) error {
	n, c := s.net, s.config
	if err := n.ResolveDevice(elsewhere, kernels); err != nil {
		return err
	}
	for _, pair := range c.pairs() {
		if !n.Backbone.CanPair(pair) {
			return fmt.Errorf("pair: the backbone %s cannot show a source and its edit as %q", c.Backbone, pair)
		}
	}
	if n.Plan.Training != exec.TrainNothing {
		if err := c.NotAlone("trained"); err != nil {
			return err
		}
		if err := c.trainable(n.Plan.Training); err != nil {
			return err
		}
	}
	if err := checkTensors(c, n.Backbone.Decoder().Hidden, n.Tensors); err != nil {
		return err
	}
	switch {
	case len(p.Members) > 0:
		return n.AdaptMembers(p.Members)
	case p.Adapter != nil:
		return n.Adapt(p.Adapter)
	}
	return nil
}

// packing returns how samples are packed for scoring, over a vocabulary of that many ids.
func (c *ScorerConfig) packing(vocab int) batch.Packer {
	return batch.Packer{
		Vocab:  int64(vocab),
		Table:  !c.AddsToken(),
		Before: c.AddsToken() && c.Passes[0].Position == "before",
		All:    c.TextLoss == "all",
	}
}

// Device is where the graphs run: cpu or cuda:N.
func (s *Scorer) Device() string { return s.net.Device() }

// Kernels returns the operators that layers are built from, and why these were chosen.
func (s *Scorer) Kernels() exec.Kernels { return s.net.Kernels() }

// Absent returns which of the backbone's weights are missing; nil if none are.
func (s *Scorer) Absent() error { return s.net.Absent() }

// Partly reports whether only some of the weights are absent: a shard is missing.
func (s *Scorer) Partly() bool { return s.net.Partly() }

// Damage returns an error that names a tensor of the backbone or the scorer with NaN or infinities; nil if there is
// none.
func (s *Scorer) Damage() error { return s.net.Damage() }

// ClearCache forgets all pictures in memory: for measurements.
func (s *Scorer) ClearCache() { s.run.Features.ClearCache() }

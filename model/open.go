package model

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"gorgonia.org/tensor"

	"assay/lora"
	"assay/model/nn"
)

// openScorer opens the backbone of a scorer, compares the two, and puts together what scores: some of its tensors may be
// trained.
func openScorer(p *ScorerState, t training, o Options) (*Scorer, error) {
	p = p.At(o.Backbone)
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
	n := &network{
		backbone: b,
		tensors:  maps.Clone(p.Tensors),
		dtype:    config.DType,
		plain:    config.Positions == "plain",
		packing:  config.packing(b.Decoder().Vocab),
		plan: plan{training: t, trains: o.trains, recompute: o.saves, device: o.Device, blocks: nn.Blocks(o.Blocks),
			pieces: o.Pieces},
	}
	maps.DeleteFunc(n.tensors, func(name string, _ *tensor.Dense) bool { // heads of other dimensions
		return o.Dimension != "" && strings.HasPrefix(name, "heads.") && !strings.HasPrefix(name, headPrefix(o.Dimension))
	})
	s := &Scorer{config: config, net: n}
	if err = s.check(p.Adapter, o.Elsewhere); err == nil {
		err = s.adoptCalibration(p, &o)
	}
	if err == nil && t == trainBackbone {
		err = b.unpacked("its own weights cannot be trained, only an adapter over them")
	}
	if err == nil {
		n.completePlan(o.Threads)
		err = s.ready(o)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return s, nil
}

// ready opens the tokenizer; sessions are opened when they are first needed.
func (s *Scorer) ready(o Options) error {
	var err error
	if s.prepare, s.run, err = openRunner(s.config, s.net, o); err != nil {
		return err
	}
	if err := s.resolveChoices(s.prepare.text); err != nil {
		return errors.Join(err, s.prepare.text.Close())
	}
	return nil
}

// openRunner opens what prepares samples and what runs graphs over them; both share the pictures in memory.
func openRunner(c *ScorerConfig, n *network, o Options) (*preparer, *Runner, error) {
	pictures := newPictureCache(o.cacheSize())
	prepare, err := newPreparer(c, n, pictures)
	if err != nil {
		return nil, nil, err
	}
	return prepare, newRunner(n, o.run(), pictures, o.Store, c.featurePrint(n)), nil
}

// Close frees sessions, tokenizer and weights.
func (s *Scorer) Close() error { return errors.Join(s.prepare.text.Close(), s.run.Close()) }

// check resolves the device, unless it is elsewhere, and compares backbone, scorer.yaml, head and adapter.
func (s *Scorer) check(a *lora.Adapter, elsewhere bool) error {
	n, c := s.net, s.config
	if err := n.resolveDevice(elsewhere); err != nil {
		return err
	}
	for _, pair := range c.pairs() {
		if !n.backbone.CanPair(pair) {
			return fmt.Errorf("pair: the backbone %s cannot show a source and its edit as %q", c.Backbone, pair)
		}
	}
	if n.plan.training != trainNothing {
		if err := c.trainable(n.plan.training); err != nil {
			return err
		}
	}
	if err := checkTensors(c, n.backbone.Decoder().Hidden, n.tensors); err != nil {
		return err
	}
	if a == nil {
		return nil
	}
	return n.adapt(a)
}

// packing says how samples are packed for scoring, over a vocabulary of that many ids.
func (c *ScorerConfig) packing(vocab int) packing {
	return packing{
		vocab:  int64(vocab),
		table:  !c.AddsToken(),
		before: c.AddsToken() && c.Passes[0].Position == "before",
		all:    c.TextLoss == "all",
	}
}

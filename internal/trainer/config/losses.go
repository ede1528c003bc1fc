package config

import (
	"fmt"
	"slices"

	"assay/losses"
)

// WholeGroups is the data.sampling that keeps the edits of a group together.
const WholeGroups = "whole_groups"

// The values of validate.by, besides auto.
const (
	ByL1            = "l1"
	ByLoss          = "loss" // of mode text, like token_accuracy
	ByTokenAccuracy = "token_accuracy"
	ByReward        = "reward" // of objective grpo
	BySpearman      = "spearman"
	ByPairs         = "pair_accuracy"
	ByDimensions    = "dimensions" // the mean error of the heads of format 2
	ByBenchmark     = "benchmark"
)

// compares reports whether a term of the objective compares several edits of a group.
func (c *Config) compares() bool { return len(c.Compared()) > 0 }

// Compared lists the dimensions in which terms of the objective compare edits of a group.
func (c *Config) Compared() (dimensions []string) {
	for i := range c.Losses {
		s := &c.Losses[i]
		if over := s.Over(); over == losses.Pairs || over == losses.Orders {
			dimensions = append(dimensions, s.Dimension)
		}
	}
	slices.Sort(dimensions)
	return slices.Compact(dimensions)
}

// Reads reports whether a term of the objective learns from a dimension.
func (c *Config) Reads(dimension string) bool {
	return slices.ContainsFunc(c.Losses, func(s losses.Spec) bool {
		return s.Over() != losses.Tokens && s.Dimension == dimension
	})
}

// checkLosses checks the terms of the objective, and fills in what they leave out.
func (c *Config) checkLosses(d checker) {
	texts := 0
	for i := range c.Losses {
		s, key := &c.Losses[i], fmt.Sprintf("losses[%d]", i)
		if d.Bad(key) {
			continue
		}
		for _, p := range s.Empty() {
			d.Want(!d.Has(key+"."+p.Key), key+"."+p.Key, "%s", p.Text)
		}
		for _, p := range s.Check() {
			d.Problem(key+"."+p.Key, "%s", p.Text)
		}
		row, ok := losses.Lookup(s.Kind)
		if !ok {
			continue
		}
		if row.Over == losses.Tokens {
			texts++
		}
		if c.Judge != nil {
			c.checkTerm(d, key, s, &row)
			continue
		}
		d.Want(s.Dimension == "", key+".dimension", "the scorer only has a score head: it has no dimension %q",
			s.Dimension)
		d.Want(!s.Fused, key+".fused", "the scorer has one head: there is nothing to fuse")
		d.Want(row.Outputs != losses.Classes || c.Head.Classes(), key+".kind", "%s needs head.kind: classification", s.Kind)
		d.Want(row.Outputs != losses.MuSigma, key+".kind", "%s needs a head with mu and log sigma; this one is %s", s.Kind,
			c.Head.Kind)
	}
	d.Want(c.Judge == nil || len(c.Losses) > 0, "losses", "a scorer of format 2 trains on losses: want at least one")
	c.checkFused(d)
	d.Want(texts < 2, "losses", "two terms of kind text: one is enough")
	d.Want(len(c.Losses) == 0 || c.Mode != "head", "losses",
		"mode head only trains the head, on loss.score: use mode lora or full, or leave losses out")
	d.Want(!c.compares() || c.Data.Sampling == WholeGroups, "data.sampling",
		"losses compare edits of a group: want %s, not %s", WholeGroups, c.Data.Sampling)
	total := 0.0
	for i := range c.Losses {
		total += c.Losses[i].Factor()
	}
	d.Want(len(c.Losses) == 0 || total > 0, "losses", "with all weights 0 there is nothing to learn")
}

// TextWeight returns the weight of the text loss.
func (c *Config) TextWeight() float64 {
	if len(c.Losses) == 0 {
		return c.Loss.Text
	}
	w := 0.0
	for i := range c.Losses {
		if c.Losses[i].Over() == losses.Tokens {
			w += c.Losses[i].Factor()
		}
	}
	return w
}

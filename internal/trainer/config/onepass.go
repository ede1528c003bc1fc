package config

import (
	"slices"
	"strings"

	"assay/edit"
	"assay/model"
)

// formatOneKeys are the keys of a run that define a scorer of format 1: the fields of model.OnePassConfig.
var formatOneKeys = append(slices.Clone(scorerOnly), "pair", "chat_template", "end_of_turn")

// scorerOnly are the formatOneKeys that are not used in mode text.
var scorerOnly = []string{"pair_size", "layout", "question", "answer", "text_loss", "score_range", "head",
	"score_token", "score_position", "number_pictures"}

// OnePass returns the scorer.yaml (format 1) of the run's scorer.
func (c *Config) OnePass() *model.OnePassConfig {
	return &model.OnePassConfig{
		Backbone: c.Backbone, Pair: c.Pair, PairSize: c.PairSize, Layout: c.Layout, Question: c.Question[0],
		Answer: c.ScoredAnswer(), TextLoss: c.TextLoss, ScoreRange: edit.Range(c.ScoreRange), Head: c.Head,
		ScoreToken: c.ScoreToken, ScorePosition: c.ScorePosition, DType: c.Dtype, ChatTemplate: c.ChatTemplate,
		EndOfTurn: c.EndOfTurn, NumberPictures: c.NumberPictures,
	}
}

// takeOnePass takes the settings of a scorer.yaml of format 1.
func (c *Config) takeOnePass(s *model.OnePassConfig) {
	c.Backbone, c.Pair, c.PairSize, c.Layout = s.Backbone, s.Pair, s.PairSize, s.Layout
	c.Question, c.Answer, c.TextLoss = Strings{s.Question}, Strings{s.Answer}, s.TextLoss
	c.ScoreRange, c.Head, c.Dtype = s.ScoreRange[:], s.Head, s.DType
	c.ScoreToken, c.ScorePosition = s.ScoreToken, s.ScorePosition
	c.ChatTemplate, c.EndOfTurn, c.NumberPictures = s.ChatTemplate, s.EndOfTurn, s.NumberPictures
}

// checkScorer checks what becomes scorer.yaml.
func (c *Config) checkScorer(d checker) {
	if c.Judge != nil {
		return
	}
	d.Want(len(c.ScoreRange) == 2 && c.ScoreRange[0] < c.ScoreRange[1], "score_range", "want [lowest, highest], not %v",
		c.ScoreRange)
	d.Want(c.ScoreToken != "", "score_token", "want a token, such as [SCORE]")
	d.Want(len(c.Question) > 0, "question", "want one or more texts")
	for _, q := range c.Question {
		d.Want(strings.Count(q, Instruction) == 1, "question", "want %s in it exactly once: %q", Instruction, q)
	}
	d.Want(len(c.Answer) > 0, "answer", "want one or more texts")
	for _, a := range c.Answer {
		d.Want(c.ScoreToken == "" || strings.Count(a, c.ScoreToken) == 1, "answer", "want %s in it exactly once: %q",
			c.ScoreToken, a)
		d.Want(!strings.Contains(a[:max(0, strings.Index(a, c.ScoreToken))], model.WhyMark), "answer",
			"%s is before %s, whose score would depend on it: put it after", model.WhyMark, c.ScoreToken)
	}
	h := &c.Head
	d.oneOf("head.activation", h.Activation, "relu")
	d.Want(!h.Classes() || len(h.Values) < 2 ||
		ascending(h.Values) && h.Values[0] >= 0 && h.Values[len(h.Values)-1] <= 1, "head.values",
		"want the scores (0..1) of the classes, ascending, not %v", h.Values)
	if len(c.ScoreRange) != 2 || len(c.Question) == 0 || len(c.Answer) == 0 {
		return
	}
	for _, p := range c.OnePass().Problems() {
		d.Want(false, p.Key, "%s", p.Text)
	}
}

package model

import (
	"cmp"
	"strings"

	"assay/edit"
	"assay/model/digests"
)

// OnePassConfig is scorer.yaml of format 1: one pass whose answer contains a score token that is new to the vocabulary,
// and one unnamed head. [OnePassConfig.Scorer] converts it to the [ScorerConfig] that all other code works with.
type OnePassConfig struct {
	Format        int        `yaml:"format"`
	Backbone      string     `yaml:"backbone"`
	Pair          string     `yaml:"pair,omitempty"`           // Sequence (default, any number of sources), Concat, Frames
	PairSize      []int      `yaml:"pair_size,omitempty,flow"` // [height, width]
	Layout        string     `yaml:"layout,omitempty"`         // instruction_first: the question before the edit
	Question      string     `yaml:"question,omitempty"`       // [INSTRUCTION] is replaced
	Answer        string     `yaml:"answer,omitempty"`         // contains the score token once
	TextLoss      string     `yaml:"text_loss,omitempty"`      // answer (default) or all
	ScoreRange    edit.Range `yaml:"score_range,flow"`
	Head          HeadConfig `yaml:"head,omitempty"`
	ScoreToken    string     `yaml:"score_token,omitempty"`
	ScorePosition string     `yaml:"score_position,omitempty"` // at (the score token) or before it
	DType         string     `yaml:"dtype"`
	ChatTemplate  string     `yaml:"chat_template,omitempty"`
	EndOfTurn     string     `yaml:"end_of_turn,omitempty"`

	NumberPictures string `yaml:"number_pictures,omitempty"` // "Picture {n}: " before each picture; "": nothing

	Calibration string           `yaml:"calibration,omitempty"`
	Members     []string         `yaml:"members,omitempty,flow"`
	Digests     *digests.Digests `yaml:"digests,omitempty"`
}

// HeadConfig is the `head` of scorer.yaml of format 1: an MLP from the hidden state at the score token.
type HeadConfig struct {
	Hidden     []int     `yaml:"hidden" json:"hidden"`         // widths of the hidden layers; may be empty
	Activation string    `yaml:"activation" json:"activation"` // between layers; relu
	Kind       string    `yaml:"kind,omitempty" json:"kind,omitempty"`
	Values     []float64 `yaml:"values,omitempty" json:"values,omitempty"` // of the classes, on 0..1
}

// Kinds of heads of format 1.
const (
	regression     = "regression"
	classification = "classification"
)

// Classes reports whether the head has one output per value instead of the score itself.
func (h *HeadConfig) Classes() bool { return h.Kind == classification }

// Outputs is the width of the last layer.
func (h *HeadConfig) Outputs() int {
	if h.Classes() {
		return len(h.Values)
	}
	return 1
}

// Sizes lists the widths from the backbone's hidden state to the outputs.
func (h *HeadConfig) Sizes(hidden int) []int {
	return append(append([]int{hidden}, h.Hidden...), h.Outputs())
}

// AddsToken reports whether the score token is not in the backbone's vocabulary: the scorer has an embedding and an
// output row for it, and a text loss teaches it to the model.
func (c *ScorerConfig) AddsToken() bool { return c.Format == 1 }

// Scorer is the scorer that the file describes, with defaults filled in.
func (f *OnePassConfig) Scorer() *ScorerConfig {
	pictures := []string{cmp.Or(f.Pair, Sequence)}
	if pictures[0] == Sequence {
		pictures = []string{"source", "edit"}
	}
	head := DimensionConfig{Hidden: f.Head.Hidden, Activation: cmp.Or(f.Head.Activation, "relu"), Values: f.Head.Values}
	switch head.Outputs = cmp.Or(f.Head.Kind, regression); head.Outputs {
	case regression:
		head.Outputs = OutputValue
	case classification:
		head.Outputs = OutputClasses
	}
	return &ScorerConfig{
		Format: 1, Backbone: f.Backbone, PairSize: f.PairSize, ScoreRange: cmp.Or(f.ScoreRange, edit.Range{0, 10}),
		DType:        cmp.Or(f.DType, "float32"),
		ChatTemplate: f.ChatTemplate, EndOfTurn: f.EndOfTurn, Calibration: f.Calibration, Digests: f.Digests,
		Members: f.Members, Layout: f.Layout, TextLoss: cmp.Or(f.TextLoss, "answer"), NumberPictures: f.NumberPictures,
		Passes: []PassConfig{{
			Name: "score", Pictures: pictures, Prompt: Text(f.Question), Answer: Text(f.Answer),
			Token: cmp.Or(f.ScoreToken, "[SCORE]"), Position: cmp.Or(f.ScorePosition, "at"), Heads: []string{""},
		}},
		Heads: map[string]DimensionConfig{"": head},
		Score: &FusionConfig{Fusion: "mean", Of: []string{""}},
	}
}

// OnePass is the format 1 scorer.yaml of a scorer that adds its token.
func (c *ScorerConfig) OnePass() *OnePassConfig {
	q, h := &c.Passes[0], c.Heads[""]
	pair := q.Pictures[0]
	if len(q.Pictures) > 1 {
		pair = Sequence
	}
	kind := h.Outputs
	switch kind {
	case OutputValue:
		kind = regression
	case OutputClasses:
		kind = classification
	}
	return &OnePassConfig{
		Format: 1, Backbone: c.Backbone, Pair: pair, PairSize: c.PairSize, Layout: c.Layout, Question: string(q.Prompt),
		Answer: string(q.Answer), TextLoss: c.TextLoss, ScoreRange: c.ScoreRange,
		Head:       HeadConfig{Hidden: h.Hidden, Activation: h.Activation, Kind: kind, Values: h.Values},
		ScoreToken: q.Token, ScorePosition: q.Position, DType: c.DType, ChatTemplate: c.ChatTemplate,
		EndOfTurn: c.EndOfTurn, Calibration: c.Calibration, Digests: c.Digests, NumberPictures: c.NumberPictures,
		Members: c.Members,
	}
}

// check reports what is wrong with a file whose defaults are filled in.
func (f *OnePassConfig) check() error {
	p := problems{}
	p.wrong(f.Backbone == "", "backbone", "a checkpoint directory is needed")
	p.wrong(!strings.Contains(f.Question, InstructionMark), "question", "%s is missing in %q", InstructionMark, f.Question)
	p.wrong(strings.Count(f.Answer, f.ScoreToken) != 1, "answer", "%q must contain %s once", f.Answer, f.ScoreToken)
	p.wrong(f.ScoreRange[0] == f.ScoreRange[1], "score_range", "both ends are %g", f.ScoreRange[0])
	p.wrong(!f.ScoreRange.Bounded(), "score_range", "none is only for format: 2")
	p.oneOf("dtype", f.DType, "float32", "bfloat16")
	return append(p, f.Problems()...).err()
}

// Problems lists what is wrong with the keys whose rules a run's configuration shares.
func (f *OnePassConfig) Problems() []Problem {
	p := problems{}
	p.pairSize(f.PairSize)
	p.oneOf("pair", f.Pair, Sequence, Concat, Frames)
	p.oneOf("layout", f.Layout, "", InstructionFirst)
	p.wrong(f.Layout != "" && f.Pair != Sequence,
		"layout", "%s needs pair: sequence; with %s nothing precedes the edit", f.Layout, f.Pair)
	p.numbers(f.NumberPictures)
	p.oneOf("text_loss", f.TextLoss, "answer", "all")
	p.oneOf("score_position", f.ScorePosition, "at", "before")
	p.oneOf("head.kind", f.Head.Kind, regression, classification)
	p.wrong(f.Head.Classes() && len(f.Head.Values) < 2, "head.values", "a classification head needs at least two values")
	p.wrong(!f.Head.Classes() && len(f.Head.Values) > 0, "head.values", "only a classification head has values")
	for _, w := range f.Head.Hidden {
		p.wrong(w < 1, "head.hidden", "width %d", w)
	}
	return p
}

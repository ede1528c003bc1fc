package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/edit"
	"assay/lora"
)

// ScorerConfig is scorer.yaml, of format 1 or 2.
type ScorerConfig struct {
	Format        int        `yaml:"format"`
	Backbone      string     `yaml:"backbone"` // checkpoint directory, absolute or relative to the scorer's
	Pair          string     `yaml:"pair,omitempty"`
	PairSize      []int      `yaml:"pair_size,omitempty,flow"` // [height, width]
	Layout        string     `yaml:"layout,omitempty"`         // instruction_first: the question before the edit
	Question      string     `yaml:"question,omitempty"`       // [INSTRUCTION] is replaced
	Answer        string     `yaml:"answer,omitempty"`         // holds the score token once
	TextLoss      string     `yaml:"text_loss,omitempty"`      // answer (default) or all
	ScoreRange    edit.Range `yaml:"score_range,flow"`         // reported: lo + (hi - lo) * score01
	Head          HeadConfig `yaml:"head,omitempty"`
	ScoreToken    string     `yaml:"score_token,omitempty"`
	ScorePosition string     `yaml:"score_position,omitempty"` // at (the score token) or before it
	DType         string     `yaml:"dtype"`                    // of the large products: float32 or bfloat16
	ChatTemplate  string     `yaml:"chat_template,omitempty"`  // Jinja; instead of the checkpoint's
	EndOfTurn     string     `yaml:"end_of_turn,omitempty"`    // instead of the tokenizer's end of sequence
	Calibration   string     `yaml:"calibration,omitempty"`    // file beside it: what reported scores stand for

	Judge `yaml:",inline"` // what format 2 has instead of pair, question, answer, head and score token

	Digests *Digests `yaml:"digests,omitempty"` // of the files that numbers depend on; nil: written by an earlier version
}

// InstructionMark is replaced by the instruction in a question.
const InstructionMark = "[INSTRUCTION]"

// InstructionFirst is the layout that has the question between the source and its edit, so that the edits of a group
// have it in common. Without a layout the pictures come first.
const InstructionFirst = "instruction_first"

// Normalize fills in what a short scorer.yaml leaves out and reports what is wrong.
func (c *ScorerConfig) Normalize() error {
	if c.Calibration != "" && !filepath.IsLocal(filepath.FromSlash(c.Calibration)) {
		return fmt.Errorf("calibration: %q is no file in the scorer's folder", c.Calibration)
	}
	if err := c.Digests.check(); err != nil {
		return err
	}
	if c.Format == 2 {
		return c.normalizeJudge()
	}
	fill := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	fill(&c.Pair, Sequence)
	fill(&c.TextLoss, "answer")
	fill(&c.ScoreToken, "[SCORE]")
	fill(&c.ScorePosition, "at")
	fill(&c.DType, "float32")
	fill(&c.Head.Activation, "relu")
	fill(&c.Head.Kind, "regression")
	if c.ScoreRange == (edit.Range{}) {
		c.ScoreRange = edit.Range{0, 10}
	}
	var problems []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(key, v string, allowed ...string) {
		for _, a := range allowed {
			if v == a {
				return
			}
		}
		wrong(true, "%s: %q is none of %s", key, v, strings.Join(allowed, ", "))
	}
	wrong(c.Format != 1, "format: %d is not supported; this program reads formats 1 and 2", c.Format)
	wrong(!c.Judge.empty(), "format 1 has no %s: these belong to format: 2", strings.Join(judgeKeys, ", "))
	wrong(c.Backbone == "", "backbone: a checkpoint directory is needed")
	wrong(!strings.Contains(c.Question, InstructionMark), "question: %s is missing in %q", InstructionMark, c.Question)
	wrong(strings.Count(c.Answer, c.ScoreToken) != 1, "answer: %q must hold %s once", c.Answer, c.ScoreToken)
	wrong(c.ScoreRange[0] == c.ScoreRange[1], "score_range: both ends are %g", c.ScoreRange[0])
	wrong(!c.ScoreRange.Bounded(), "score_range: none belongs to format: 2")
	wrong(len(c.PairSize) != 0 && (len(c.PairSize) != 2 || c.PairSize[0] < 1 || c.PairSize[1] < 1),
		"pair_size: [height, width] in pixels is wanted, not %v", c.PairSize)
	oneOf("pair", c.Pair, Sequence, Concat, Frames)
	oneOf("layout", c.Layout, "", InstructionFirst)
	wrong(c.Layout != "" && c.Pair != Sequence, "layout: %s needs pair: sequence; with %s nothing stands before the edit",
		c.Layout, c.Pair)
	oneOf("text_loss", c.TextLoss, "answer", "all")
	oneOf("score_position", c.ScorePosition, "at", "before")
	oneOf("dtype", c.DType, "float32", "bfloat16")
	oneOf("head.kind", c.Head.Kind, "regression", "classification")
	wrong(c.Head.Classes() && len(c.Head.Values) < 2, "head.values: a classification head needs at least two values")
	wrong(!c.Head.Classes() && len(c.Head.Values) > 0, "head.values: only a classification head has values")
	for _, w := range c.Head.Hidden {
		wrong(w < 1, "head.hidden: width %d", w)
	}
	return errors.Join(problems...)
}

// Range maps score01 to what is reported. Without a range they are the same.
func (c *ScorerConfig) Range(score01 float64) float64 { return c.ScoreRange.Of(score01) }

// ConfigFile, HeadFile are the scorer directory's own files; the adapter's are PEFT's.
const (
	ConfigFile = "scorer.yaml"
	HeadFile   = "head.safetensors"
)

// ReadScorerConfig reads a scorer.yaml of either format; its paths become absolute.
func ReadScorerConfig(file string) (*ScorerConfig, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, noScorer(filepath.Dir(file), err)
	}
	c := &ScorerConfig{}
	if err := yaml.UnmarshalWithOptions(raw, c, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.Normalize(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.adoptOrigin()
	c.Backbone = Beside(file, c.Backbone)
	if c.Weights != "" {
		c.Weights = Beside(file, c.Weights)
	}
	return c, nil
}

// readScorerDir reads scorer.yaml, head and adapter (nil if there is none: a merged or fully trained scorer).
func readScorerDir(dir string) (c *ScorerConfig, own map[string]*tensor.Dense, a *lora.Adapter, err error) {
	if c, err = ReadScorerConfig(filepath.Join(dir, ConfigFile)); err != nil {
		return nil, nil, nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, HeadFile)); c.Format == 2 && errors.Is(err, fs.ErrNotExist) {
		own = map[string]*tensor.Dense{} // all heads are rows of the backbone's table
	} else if own, _, err = checkpoints.ReadFile(filepath.Join(dir, HeadFile)); err != nil {
		return nil, nil, nil, err
	}
	a, err = lora.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c, own, nil, nil
	}
	return c, own, a, err
}

// layerShapes adds the shapes of the layers of an MLP of these widths.
func layerShapes(to map[string][]int, prefix string, sizes []int) {
	for i := range len(sizes) - 1 {
		to[fmt.Sprintf("%slayers.%d.weight", prefix, i)] = []int{sizes[i+1], sizes[i]}
		to[fmt.Sprintf("%slayers.%d.bias", prefix, i)] = []int{sizes[i+1]}
	}
}

// checkTensors compares the tensors of head.safetensors with those that passes and the backbone ask for.
func checkTensors(c *ScorerConfig, hidden int, own map[string]*tensor.Dense) error {
	want := c.headShapes(hidden)
	if c.ownToken() {
		want["score_token.embedding"], want["score_token.lm_head"] = []int{hidden}, []int{hidden}
	}
	var problems []error
	for name, shape := range want {
		t := own[name]
		if t == nil && isChoiceRows(name) {
			continue
		} else if t == nil {
			problems = append(problems, fmt.Errorf("%s is missing", name))
		} else if t.Dtype() != tensor.Float32 || fmt.Sprint([]int(t.Shape())) != fmt.Sprint(shape) {
			problems = append(problems, fmt.Errorf("%s is %v %v, float32 %v is wanted", name, t.Dtype(), t.Shape(), shape))
		}
	}
	for name := range own {
		if want[name] == nil {
			problems = append(problems, fmt.Errorf("%s belongs to no layer of the head in %s", name, ConfigFile))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("%s: %w", HeadFile, err)
	}
	return nil
}

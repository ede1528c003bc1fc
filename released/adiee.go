package released

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"gorgonia.org/tensor"

	"assay/internal/exit"
	"assay/model"
)

// ADIEE's released code: pictures of 512 x 512, side by side; an answer of up to 8 tokens; classes 0, 5, 10.
const (
	adieeToken = "[SCORE]"
	adieeSide  = 512
	adieeSteps = 8
	adieeHead  = "score_decoder."
)

// adieeConfig is Assay's configuration for ADIEE: the constants of its code.
type adieeConfig struct {
	PairSize []int  `yaml:"pair_size"`
	Steps    int    `yaml:"max_new_tokens"`
	Answer   string `yaml:"answer"`
}

// adiee imports ADIEE's released weights, a classifier or a regressor.
func adiee(o *Options) (*judge, error) {
	w, err := openWeights(o)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if o.Base == "" {
		o.Base = w.Dir() // config.json, tokenizer and processor are next to the weights
	}
	c, err := readADIEE(o)
	if err != nil {
		return nil, err
	}
	question, digests, err := adieeQuestion(o.Prompts)
	if err != nil {
		return nil, err
	}
	base, weights, err := o.absolute()
	if err != nil {
		return nil, err
	}
	tensors := map[string]*tensor.Dense{}
	m, err := readHead(w, adieeHead, []int{0, 2, 4}, "success", tensors)
	if err != nil {
		return nil, err
	}
	head, err := m.adieeDimension()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Dir(), err)
	}
	pass, warnings, err := adieePass(c, question, base)
	if err != nil {
		return nil, err
	}
	config := &model.ScorerConfig{
		Format: 2, Backbone: base, PairSize: c.PairSize,
		Kind:    "heads",
		Weights: weights,
		Alpha:   "drop",
		Passes:  []model.PassConfig{pass},
		Heads:   map[string]model.DimensionConfig{"success": head},
		Score:   &model.FusionConfig{Fusion: "mean"},
		Origin:  &model.Origin{Name: adieeCard.Name, Licence: adieeCard.Licence, Source: adieeCard.Source, Prompts: digests},
	}
	state := &model.ScorerState{Config: config, Tensors: tensors}
	return &judge{state, adieeCard, warnings}, unreadHeads(w, map[string]string{"": adieeHead})
}

// adieePass returns the pass of the released code, and warnings about what that code does differently.
func adieePass(c adieeConfig, question, base string) (pass model.PassConfig, warnings []string, err error) {
	pass = model.PassConfig{
		Name:     "success",
		Pictures: []string{model.Concat},
		Prompt:   model.Text(question),
		Token:    adieeToken,
		Position: "before",
		Heads:    []string{"success"},
	}
	warnings = []string{
		"the released code draws one of four questions at random for every picture: here it is always yours",
	}
	if c.Answer != "" {
		pass.Answer = model.Text(c.Answer)
		warnings = append(warnings, fmt.Sprintf("the model is assumed to answer %q: where it would answer differently, "+
			"the score is not the released code's", c.Answer))
	} else {
		pass.Steps = c.Steps
		pass.End, err = endTokens(base)
	}
	return pass, warnings, err
}

// adieeDimension returns the meaning of the outputs.
func (m mlp) adieeDimension() (d model.DimensionConfig, err error) {
	d = model.DimensionConfig{Hidden: m.hidden, Activation: "relu"}
	switch m.outputs {
	case 1:
		d.Outputs, d.Scale = model.OutputValue, []float64{0, 10}
	case 3:
		d.Outputs, d.Values = model.OutputClasses, []float64{0, 0.5, 1}
	default:
		err = fmt.Errorf("%s has %d outputs: want 1 (regression) or 3 (classes)", adieeHead, m.outputs)
	}
	return d, err
}

// readADIEE reads the configuration, and the flags, which take precedence.
func readADIEE(o *Options) (c adieeConfig, err error) {
	c = adieeConfig{PairSize: []int{adieeSide, adieeSide}, Steps: adieeSteps}
	if o.Config != "" {
		raw, err := os.ReadFile(o.Config)
		if err == nil {
			err = yaml.UnmarshalWithOptions(raw, &c, yaml.Strict())
		}
		if err != nil {
			return c, fmt.Errorf("--config %s: %w", o.Config, err)
		}
	}
	if len(o.PairSize) > 0 {
		c.PairSize = o.PairSize
	}
	if o.Answer != "" {
		c.Answer = o.Answer
	}
	if c.Steps < 1 {
		return c, fmt.Errorf("--config %s: max_new_tokens: %d: want at least 1", o.Config, c.Steps)
	}
	return c, nil
}

// adieeQuestion reads the question: a text with {instruction} or [INSTRUCTION].
func adieeQuestion(path string) (string, map[string]string, error) {
	if path == "" {
		return "", nil, exit.Usage(errors.New("--prompts is needed: a text file with one of ADIEE's questions, in which " +
			"{instruction} stands for the instruction"))
	}
	texts, err := promptFiles([]string{path})
	if err != nil {
		return "", nil, fmt.Errorf("--prompts: %w", err)
	}
	question := texts[0]
	if !strings.Contains(question, model.InstructionMark) {
		if question, err = pythonFormat(question, "instruction"); err != nil {
			return "", nil, fmt.Errorf("--prompts %s: %w", path, err)
		}
	}
	return question, map[string]string{"success": digest(texts[0])}, nil
}

// endTokens returns the ids that end an answer: text_config.eos_token_id of config.json, as in the released code.
func endTokens(base string) ([]int64, error) {
	path := filepath.Join(base, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c struct {
		Text struct {
			End json.RawMessage `json:"eos_token_id"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var one int64
	var several []int64
	switch {
	case len(c.Text.End) == 0: // the default of transformers' LlamaConfig
		return []int64{2}, nil
	case string(c.Text.End) == "null":
		return nil, nil
	case json.Unmarshal(c.Text.End, &one) == nil:
		return []int64{one}, nil
	}
	if err := json.Unmarshal(c.Text.End, &several); err != nil {
		return nil, fmt.Errorf("%s: text_config.eos_token_id: %w", path, err)
	}
	return several, nil
}

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
	"assay/model/digests"
)

// ScorerConfig defines how a scorer works: one or several passes over pictures and prompts, heads that read a state of
// each, and how their outputs are fused. All passes share one set of weights. It is scorer.yaml of format 2. A
// scorer.yaml of format 1 is read as one pass with one head: see [OnePassConfig].
type ScorerConfig struct {
	Format       int        `yaml:"format"`                   // of the file: 1 if the scorer adds its token
	Backbone     string     `yaml:"backbone"`                 // checkpoint directory, absolute or relative to the scorer's
	PairSize     []int      `yaml:"pair_size,omitempty,flow"` // [height, width]
	ScoreRange   edit.Range `yaml:"score_range,flow"`         // reported: lo + (hi - lo) * score01
	DType        string     `yaml:"dtype"`                    // of the large products: float32 or bfloat16
	ChatTemplate string     `yaml:"chat_template,omitempty"`  // Jinja; instead of the checkpoint's
	EndOfTurn    string     `yaml:"end_of_turn,omitempty"`    // instead of the tokenizer's end of sequence

	// NumberPictures precedes each picture of a prompt, with {n} replaced by the picture's number; "": nothing does.
	NumberPictures string `yaml:"number_pictures,omitempty"`

	Calibration string `yaml:"calibration,omitempty"` // file next to it that calibrates reported scores

	Kind      string                     `yaml:"kind,omitempty"`      // heads or choices: of the heads, for readers
	Weights   string                     `yaml:"weights,omitempty"`   // directory or file; "": the backbone's own
	Positions string                     `yaml:"positions,omitempty"` // own (the family's), plain (0, 1... on all axes)
	Rotary    string                     `yaml:"rotary,omitempty"`    // float32, or bfloat16: rounded as in a cast model
	Alpha     string                     `yaml:"alpha,omitempty"`     // white, or drop: the colours below the transparency
	Pixels    *PixelLimits               `yaml:"pixels,omitempty"`    // what each picture is first resized to
	Passes    []PassConfig               `yaml:"passes,omitempty"`
	Heads     map[string]DimensionConfig `yaml:"heads,omitempty"` // format 1 has one without a name
	Score     *FusionConfig              `yaml:"score,omitempty"`
	Origin    *Origin                    `yaml:"origin,omitempty"`

	Members []string `yaml:"members,omitempty,flow"` // of an ensemble: folders with head and adapter, see WriteEnsemble

	Digests *digests.Digests `yaml:"digests,omitempty"` // of files that scores depend on; nil: by an earlier version

	Layout   string `yaml:"-"` // of format 1: InstructionFirst, or ""
	TextLoss string `yaml:"-"` // of format 1: over the answer, or all; "": the scorer has no text loss
}

// InstructionMark is replaced by the instruction in a question.
const InstructionMark = "[INSTRUCTION]"

// WhyMark is replaced in training answers by the reason for an edit's label. It follows the score token, whose state
// cannot see it: a scorer's own answer has none.
const WhyMark = "[WHY]"

// WithoutWhy is an answer as scoring uses it, without a reason.
func WithoutWhy(answer string) string {
	if !strings.Contains(answer, WhyMark) {
		return answer
	}
	return strings.TrimRight(strings.ReplaceAll(answer, WhyMark, ""), " ")
}

// InstructionFirst is the layout that puts the question between the source and its edit, so that the edits of a group
// share it. Without a layout the pictures come first.
const InstructionFirst = "instruction_first"

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
	c, err := parseScorer(raw)
	if err == nil {
		err = c.Normalize()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.adoptOrigin()
	c.Backbone = Beside(file, c.Backbone)
	if c.Weights != "" {
		c.Weights = Beside(file, c.Weights)
	}
	return c, nil
}

// parseScorer reads the text of a scorer.yaml.
func parseScorer(text []byte) (*ScorerConfig, error) {
	var file struct {
		Format int `yaml:"format"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	if file.Format == 1 {
		f := &OnePassConfig{}
		err := yaml.UnmarshalWithOptions(text, f, yaml.Strict())
		return f.Scorer(), err
	}
	if file.Format != 2 {
		return nil, fmt.Errorf("format: %d is not supported; this program reads formats 1 and 2", file.Format)
	}
	c := &ScorerConfig{}
	return c, yaml.UnmarshalWithOptions(text, c, yaml.Strict())
}

// readScorerDir reads scorer.yaml, heads and adapters.
func readScorerDir(dir string) (p *ScorerState, err error) {
	p = &ScorerState{}
	if p.Config, err = ReadScorerConfig(filepath.Join(dir, ConfigFile)); err != nil {
		return nil, err
	}
	if len(p.Config.Members) > 0 {
		p.Tensors, p.Members, err = readMembers(dir, p.Config)
	} else {
		p.Tensors, p.Adapter, err = readTrained(dir, p.Config)
	}
	return p, err
}

// readTrained reads the head and the adapter of a scorer, or of a member of an ensemble. The adapter is nil for a
// merged or fully trained scorer.
func readTrained(dir string, c *ScorerConfig) (own map[string]*tensor.Dense, a *lora.Adapter, err error) {
	if _, err := os.Stat(filepath.Join(dir, HeadFile)); !c.AddsToken() && errors.Is(err, fs.ErrNotExist) {
		own = map[string]*tensor.Dense{} // all heads are rows of the backbone's table
	} else if own, _, err = checkpoints.ReadFile(filepath.Join(dir, HeadFile)); err != nil {
		return nil, nil, err
	}
	a, err = lora.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return own, nil, nil
	}
	return own, a, err
}

// layerShapes adds the shapes of the layers of an MLP of these widths.
func layerShapes(to map[string][]int, prefix string, sizes []int) {
	for i := range len(sizes) - 1 {
		to[fmt.Sprintf("%slayers.%d.weight", prefix, i)] = []int{sizes[i+1], sizes[i]}
		to[fmt.Sprintf("%slayers.%d.bias", prefix, i)] = []int{sizes[i+1]}
	}
}

// checkTensors compares the tensors of head.safetensors with those that passes and the backbone require.
func checkTensors(c *ScorerConfig, hidden int, own map[string]*tensor.Dense) error {
	want := map[string][]int{}
	for _, member := range c.memberPrefixes() {
		for name, shape := range c.headShapes(hidden) {
			want[member+name] = shape
		}
		if c.AddsToken() {
			want[member+"score_token.embedding"], want[member+"score_token.lm_head"] = []int{hidden}, []int{hidden}
		}
	}
	var problems []error
	for name, shape := range want {
		t := own[name]
		if t == nil && isChoiceRows(name) {
			continue
		} else if t == nil {
			problems = append(problems, fmt.Errorf("%s is missing", name))
		} else if t.Dtype() != tensor.Float32 || fmt.Sprint([]int(t.Shape())) != fmt.Sprint(shape) {
			problems = append(problems, fmt.Errorf("%s is %v %v, expected float32 %v", name, t.Dtype(), t.Shape(), shape))
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

package released

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/edit"
	"assay/internal/modelcard"
	"assay/model"
)

// rewardToken is the token whose state EditReward and HPSv3 read. It is added to the base's tokenizer.
const rewardToken = "<|Reward|>"

// instructionField is the field of their templates that stands for the instruction.
const instructionField = "text_prompt"

// rewardConfig holds the settings of EditReward's and HPSv3's configuration files that affect scores; the rest is
// about training.
type rewardConfig struct {
	HeadType     *string `yaml:"rm_head_type"`
	Pooling      *string `yaml:"pooling_strategy"`
	MinPixels    *int    `yaml:"min_pixels"`
	MaxPixels    *int    `yaml:"max_pixels"`
	Instruction  *bool   `yaml:"with_instruction"`
	SpecialToken *bool   `yaml:"use_special_tokens"`
	Token        *string `yaml:"reward_token"`
	Outputs      *int    `yaml:"output_dim"`
	BFloat16     *bool   `yaml:"bf16"`

	file string          // "": none was given
	keys map[string]bool // that are present
}

// publishedPixels is the limit of released configurations: 256 tokens of 28 x 28 pixels.
const publishedPixels = 256 * 28 * 28

// readRewardConfig reads a configuration; "" is the published one.
func readRewardConfig(path string) (c rewardConfig, err error) {
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("--config: %w", err)
		}
		if err := yaml.Unmarshal(raw, &c); err != nil {
			return c, fmt.Errorf("--config %s: %w", path, err)
		}
		c.file = path
		if c.keys, err = rewardKeys(raw); err != nil {
			return c, fmt.Errorf("--config %s: %w", path, err)
		}
	}
	if c.MaxPixels == nil {
		c.MaxPixels = new(int)
		*c.MaxPixels = publishedPixels
	}
	var wrong error
	switch {
	case *c.MaxPixels < 28*28:
		wrong = fmt.Errorf("max_pixels: %d is less than one token", *c.MaxPixels)
	case c.MinPixels != nil && *c.MinPixels != *c.MaxPixels:
		wrong = fmt.Errorf("min_pixels %d and max_pixels %d: the judge's code has one number for both", *c.MinPixels,
			*c.MaxPixels)
	case c.Instruction != nil && !*c.Instruction:
		wrong = fmt.Errorf("with_instruction: false is not supported")
	case c.SpecialToken != nil && !*c.SpecialToken, c.Token != nil && *c.Token != "special":
		wrong = fmt.Errorf("only use_special_tokens: true and reward_token: special are supported")
	case c.Outputs != nil && *c.Outputs != 2:
		wrong = fmt.Errorf("output_dim: %d is not supported: want 2 (mu and log sigma)", *c.Outputs)
	}
	if wrong != nil {
		return c, fmt.Errorf("--config %s: %w", path, wrong)
	}
	return c, nil
}

// rotary returns the type in which the judge's loader leaves rotary frequencies: `bf16: True` casts the whole model,
// buffers included.
func (c *rewardConfig) rotary() string {
	if c.BFloat16 == nil || *c.BFloat16 {
		return "bfloat16"
	}
	return "float32"
}

var editRewardPrompts = []prompt{
	{
		name: "following", variable: "INSTRUCTION_EDIT_FOLLOWING", file: "following.txt", code: "prompts.py",
		sha256: "b8c53a0a3b67db1cf63ad891679be423fbe01a06fa63cefe4851f747f8d82da2",
	},
	{
		name: "quality", variable: "INSTRUCTION_EDIT_QUALITY", file: "quality.txt", code: "prompts.py",
		sha256: "4583db70a7aba6038d80220b94bafc33755ece3389f3c1d3c24dd3ed847d9289",
	},
}

// editReward imports TIGER-AI-Lab/EditReward: two prompts, a head for each, mu and log sigma.
func editReward(o *Options) (*judge, error) {
	c, err := readRewardConfig(o.Config)
	if err != nil {
		return nil, err
	}
	if c.HeadType != nil && *c.HeadType != "ranknet_multi_head" {
		return nil, fmt.Errorf("--config %s: rm_head_type %q: want ranknet_multi_head", o.Config, *c.HeadType)
	}
	fusion := "mean"
	if c.Pooling != nil {
		fusion = *c.Pooling
	}
	if !slices.Contains([]string{"mean", "min", "sum"}, fusion) {
		return nil, fmt.Errorf("--config %s: pooling_strategy %q: want mean, min or sum", o.Config, fusion)
	}
	heads := map[string]string{"following": "rm_heads.head_0.", "quality": "rm_heads.head_1."}
	if err := c.require("rm_head_type", "pooling_strategy", "max_pixels"); err != nil {
		return nil, err
	}
	return reward(o, &c, rewardJudge{
		prompts:  editRewardPrompts,
		heads:    heads,
		pictures: []string{"source", "edit"},
		fusion:   fusion,
		card:     editRewardCard,
	})
}

// hpsv3Prompt is the prompt of the package hpsv3 1.0.0 (PyPI).
var hpsv3Prompt = prompt{
	name: "preference", variable: "INSTRUCTION", file: "picture.txt", code: "data_collator_qwen.py",
	sha256: "f6ee57479d4e9eee76b49c00dc962e1e696a5a2b3cc32cebd9b1fa76fe27502c",
}

// hpsv3 imports MizzenAI/HPSv3, which judges one picture by the text that it was generated from.
func hpsv3(o *Options) (*judge, error) {
	c, err := readRewardConfig(o.Config)
	if err != nil {
		return nil, err
	}
	if err := c.require("max_pixels"); err != nil {
		return nil, err
	}
	return reward(o, &c, rewardJudge{
		prompts:  []prompt{hpsv3Prompt},
		heads:    map[string]string{"preference": "rm_head."},
		pictures: []string{"edit"},
		fusion:   "mean",
		card:     hpsv3Card,
	})
}

// rewardJudge is what EditReward and HPSv3 differ in.
type rewardJudge struct {
	prompts  []prompt
	heads    map[string]string // by name of a dimension: the prefix of its tensors
	pictures []string
	fusion   string
	card     modelcard.Card
}

func reward(o *Options, c *rewardConfig, r rewardJudge) (*judge, error) {
	w, err := openWeights(o)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	texts, err := readPrompts(o.Prompts, rewardToken, r.prompts)
	if err != nil {
		return nil, err
	}
	digests, same, warnings := published(texts, r.prompts)
	base, weights, err := o.absolute()
	if err == nil {
		err = checkRewardBase(base)
	}
	if err != nil {
		return nil, err
	}
	config := &model.ScorerConfig{
		Format: 2, Backbone: base, ScoreRange: edit.NoRange(),
		Kind:      "heads",
		Weights:   weights,
		Positions: "plain",
		Rotary:    c.rotary(),
		Alpha:     "drop",
		Pixels:    &model.PixelLimits{Least: *c.MaxPixels, Most: *c.MaxPixels, Factor: 28},
		Heads:     map[string]model.DimensionConfig{},
		Score:     &model.FusionConfig{Fusion: r.fusion},
		Origin: &model.Origin{
			Name: r.card.Name, Licence: r.card.Licence, Source: r.card.Source, Published: same, Prompts: digests,
		},
	}
	state := &model.ScorerState{Config: config, Tensors: map[string]*tensor.Dense{}}
	for i, p := range r.prompts {
		text, err := pythonFormat(texts[i], instructionField)
		if err != nil {
			return nil, fmt.Errorf("--prompts %s: %s: %w", o.Prompts, p.name, err)
		}
		config.Passes = append(config.Passes, model.PassConfig{
			Name:     p.name,
			Pictures: r.pictures,
			Prompt:   model.Text(text),
			Token:    rewardToken,
			Position: "at",
			Heads:    []string{p.name},
		})
		head, err := readHead(w, r.heads[p.name], rewardLayers, p.name, state.Tensors)
		if err == nil && head.outputs != 2 {
			err = fmt.Errorf("%s: the head %s has %d outputs: want mu and log sigma", o.Weights, r.heads[p.name],
				head.outputs)
		}
		if err != nil {
			return nil, err
		}
		config.Heads[p.name] = model.DimensionConfig{Hidden: head.hidden, Activation: "relu", Outputs: model.OutputMuSigma}
	}
	return &judge{state, r.card, warnings}, unreadHeads(w, r.heads)
}

// checkRewardBase refuses bases over which the judges' code behaves differently: over Qwen3-VL it leaves resizing to
// the processor, whose patches have another size, and positions to the model.
func checkRewardBase(base string) error {
	path := filepath.Join(base, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--base: %w", err)
	}
	var c struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("--base: %s: %w", path, err)
	}
	if c.Type != "qwen2_vl" && c.Type != "qwen2_5_vl" {
		return fmt.Errorf("--base: %s: model_type %q: want qwen2_vl or qwen2_5_vl; over others the judges' "+
			"code resizes pictures and counts positions differently, and the score would be wrong", path, c.Type)
	}
	return nil
}

// mlp describes a head, from its tensors.
type mlp struct {
	hidden  []int // widths of the hidden layers
	outputs int
}

var layerNumber = regexp.MustCompile(`^(\d+)\.(weight|bias)$`)

// rewardLayers are the linear layers in the Sequential of EditReward's and HPSv3's heads: ReLUs and a dropout are
// between them.
var rewardLayers = []int{0, 3, 5}

// readHead reads an MLP from a torch Sequential into a scorer's tensors. layers are the numbers of its linear layers in
// the judge's code: only they say what is between them.
func readHead(
	w *checkpoints.Weights, prefix string, layers []int, name string, into map[string]*tensor.Dense,
) (m mlp, err error) {
	var numbers []int
	for _, stored := range w.Names() {
		if len(stored) <= len(prefix) || stored[:len(prefix)] != prefix {
			continue
		}
		part := layerNumber.FindStringSubmatch(stored[len(prefix):])
		if part == nil {
			return m, fmt.Errorf("%s: tensor %s is not a layer of a head", w.Dir(), stored)
		}
		n, err := strconv.Atoi(part[1])
		if err != nil {
			return m, err
		}
		if part[2] == "weight" {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return m, fmt.Errorf("%s: there are no tensors %s*: these are not the weights of this judge", w.Dir(), prefix)
	}
	if slices.Sort(numbers); !slices.Equal(numbers, layers) {
		return m, fmt.Errorf("%s: the linear layers of %s* have the numbers %v, and in the judge's code %v: what is between "+
			"other layers is not known", w.Dir(), prefix, numbers, layers)
	}
	for i, n := range numbers {
		for _, part := range []string{"weight", "bias"} {
			stored := fmt.Sprintf("%s%d.%s", prefix, n, part)
			t, err := float32Tensor(w, stored)
			if err != nil {
				return m, err
			}
			if part == "weight" && t.Dims() != 2 || part == "bias" && t.Dims() != 1 {
				return m, fmt.Errorf("%s: %s has shape %v", w.Dir(), stored, t.Shape())
			}
			into[fmt.Sprintf("heads.%s.layers.%d.%s", name, i, part)] = t
			if out := t.Shape()[0]; part == "weight" && i < len(numbers)-1 {
				m.hidden = append(m.hidden, out)
			} else if part == "weight" {
				m.outputs = out
			}
		}
	}
	return m, nil
}

func float32Tensor(w *checkpoints.Weights, name string) (*tensor.Dense, error) {
	t, err := w.Dense(name)
	if err != nil {
		return nil, err
	}
	if t.Dtype() != tensor.Float32 {
		return nil, fmt.Errorf("%s: %s has type %v: want float32, float16 or bfloat16", w.Dir(), name, t.Dtype())
	}
	return t, nil
}

// unreadHeads refuses heads in the weights that no prompt reads.
func unreadHeads(w *checkpoints.Weights, known map[string]string) error {
	for _, name := range w.Names() {
		if !headTensor.MatchString(name) {
			continue
		}
		if !slices.ContainsFunc(prefixes(known), func(p string) bool { return len(name) > len(p) && name[:len(p)] == p }) {
			return fmt.Errorf("%s: tensor %s belongs to a head that this kind of judge does not have", w.Dir(), name)
		}
	}
	return nil
}

var headTensor = regexp.MustCompile(`^(rm_heads?|score_decoder)\.`)

func prefixes(known map[string]string) (out []string) {
	for _, p := range known {
		out = append(out, p)
	}
	return out
}

package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/strictyaml"
)

// ObjectiveGRPO trains a model of mode text on rewards of its own answers: group relative policy optimization (arXiv
// 2402.03300).
const ObjectiveGRPO = "grpo"

// GRPOConfig has the keys of objective grpo, with the names and defaults of TRL's GRPOConfig (1.16.0).
type GRPOConfig struct {
	NumGenerations      int     `yaml:"num_generations"`       // answers per prompt: a group
	MaxCompletionLength int     `yaml:"max_completion_length"` // maximum tokens per answer
	GenerationBatchSize int     `yaml:"generation_batch_size"` // answers generated at a time
	Temperature         float64 `yaml:"temperature"`           // for sampling answers, and in the loss
	TopP                float64 `yaml:"top_p"`
	TopK                int     `yaml:"top_k"`          // 0: all tokens
	NumIterations       int64   `yaml:"num_iterations"` // steps over the same answers
	Beta                float64 `yaml:"beta"`           // weight of the KL divergence from the base; 0: not computed
	Epsilon             float64 `yaml:"epsilon"`        // the ratio is clipped below 1 - epsilon
	EpsilonHigh         float64 `yaml:"epsilon_high"`   // and above 1 + epsilon_high; 0: epsilon
	LossType            string  `yaml:"loss_type"`      // dapo, grpo, bnpo, dr_grpo
	ScaleRewards        string  `yaml:"scale_rewards"`  // group, batch, none

	MaskTruncated bool `yaml:"mask_truncated_completions"` // exclude truncated answers from the loss

	Rewards []RewardConfig `yaml:"rewards"` // their weighted sum is the reward of an answer
}

// The kinds of rewards.
const (
	RewardMatch    = "match"    // 1 if the answer equals the truth
	RewardDistance = "distance" // 1 - |answer - truth| / range, for numbers
	RewardFormat   = "format"   // 1 if a judge's grammar parses the answer
	RewardJudge    = "judge"    // a judge's score of the edit whose instruction is the answer
)

// RewardConfig is a term of the reward. An unreadable answer has reward 0.
type RewardConfig struct {
	Kind   string    `yaml:"kind"`
	Weight *float64  `yaml:"weight,omitempty"` // nil: 1
	Column string    `yaml:"column,omitempty"` // of the truth; "": the conversation's last message
	Judge  string    `yaml:"judge,omitempty"`  // text judge that parses answer and truth; for kind judge: a scorer
	Range  []float64 `yaml:"range,omitempty"`  // of distance: the smallest and the largest truth
}

// Factor is the weight of the term in the sum.
func (r *RewardConfig) Factor() float64 {
	if r.Weight == nil {
		return 1
	}
	return *r.Weight
}

// Name is the name of the reward in metrics.
func (r *RewardConfig) Name() string {
	if r.Column != "" {
		return r.Kind + "." + r.Column
	}
	return r.Kind
}

// RewardColumns lists the table columns that rewards read.
func (c *Config) RewardColumns() (names []string) {
	if c.GRPO == nil {
		return nil
	}
	for _, r := range c.GRPO.Rewards {
		if r.Column != "" && !slices.Contains(names, r.Column) {
			names = append(names, r.Column)
		}
	}
	return names
}

// scoringRewards lists the rewards that a scorer gives, by their keys.
func (c *Config) scoringRewards() map[string]*RewardConfig {
	out := map[string]*RewardConfig{}
	if c.GRPO == nil {
		return out
	}
	for i := range c.GRPO.Rewards {
		if r := &c.GRPO.Rewards[i]; r.Kind == RewardJudge {
			out[fmt.Sprintf("grpo.rewards[%d].judge", i)] = r
		}
	}
	return out
}

// StepRows returns the number of rows in a step: batch_size counts answers if a model generates several per row.
func (c *Config) StepRows() int {
	if c.GRPO == nil {
		return c.BatchSize
	}
	return max(1, c.BatchSize/max(1, c.GRPO.NumGenerations))
}

// Iterations returns the number of steps over the same rows.
func (c *Config) Iterations() int64 {
	if c.GRPO == nil {
		return 1
	}
	return max(1, c.GRPO.NumIterations)
}

// settleGRPO fills in the defaults of absent keys: an explicit 0 is left to the checks.
func (c *Config) settleGRPO(d *strictyaml.Document, folder string) {
	g := c.GRPO
	if g == nil {
		return
	}
	unset(d, "grpo.num_generations", &g.NumGenerations, 8)
	unset(d, "grpo.max_completion_length", &g.MaxCompletionLength, 512)
	unset(d, "grpo.generation_batch_size", &g.GenerationBatchSize, max(1, g.NumGenerations))
	unset(d, "grpo.temperature", &g.Temperature, 1)
	unset(d, "grpo.top_p", &g.TopP, 1)
	unset(d, "grpo.num_iterations", &g.NumIterations, 1)
	unset(d, "grpo.epsilon", &g.Epsilon, 0.2)
	g.EpsilonHigh = cmp.Or(g.EpsilonHigh, g.Epsilon)
	unset(d, "grpo.loss_type", &g.LossType, "dapo")
	unset(d, "grpo.scale_rewards", &g.ScaleRewards, "group")
	for i := range g.Rewards {
		r := &g.Rewards[i]
		if r.Weight == nil { // config.yaml records it
			r.Weight = new(r.Factor())
		}
		// A scorer is always a folder; of text judges, other names are those of shipped ones.
		if r.Kind == RewardJudge || strings.ContainsAny(r.Judge, `./\`) {
			r.Judge = strictyaml.Absolute(folder, filepath.FromSlash(r.Judge))
		}
	}
}

// unset sets the default of a key that the file leaves out.
func unset[T any](d *strictyaml.Document, key string, field *T, usual T) {
	if !d.Has(key) {
		*field = usual
	}
}

// checkGRPO checks objective and its section.
func (c *Config) checkGRPO(d checker) {
	d.oneOf("objective", c.Objective, "", ObjectiveGRPO)
	if c.Objective == "" {
		d.Want(c.GRPO == nil, "grpo", "only applies to objective: %s", ObjectiveGRPO)
		return
	}
	d.Want(c.Mode == ModeText, "objective", "%s only applies to mode: %s", ObjectiveGRPO, ModeText)
	g := c.GRPO
	if g == nil {
		d.Problem("objective", "%s needs a section grpo with rewards", ObjectiveGRPO)
		return
	}
	d.Want(g.NumGenerations >= 2, "grpo.num_generations", "want at least 2 answers to compare, not %d", g.NumGenerations)
	d.Want(c.BatchSize%max(1, g.NumGenerations) == 0, "batch_size",
		"%d is not a multiple of grpo.num_generations: %d", c.BatchSize, g.NumGenerations)
	d.Want(g.MaxCompletionLength >= 1, "grpo.max_completion_length", "want at least 1, not %d", g.MaxCompletionLength)
	d.Want(g.GenerationBatchSize >= 1, "grpo.generation_batch_size", "want at least 1, not %d", g.GenerationBatchSize)
	d.Want(g.Temperature > 0, "grpo.temperature", "want more than 0, not %g: identical answers have no advantages",
		g.Temperature)
	d.Want(g.TopP > 0 && g.TopP <= 1, "grpo.top_p", "want more than 0 and at most 1, not %g", g.TopP)
	d.Want(g.TopK >= 0, "grpo.top_k", "want at least 0 (all tokens), not %d", g.TopK)
	d.Want(g.NumIterations >= 1, "grpo.num_iterations", "want at least 1, not %d", g.NumIterations)
	d.Want(g.Beta >= 0, "grpo.beta", "want at least 0, not %g", g.Beta)
	d.Want(g.Beta == 0 || c.Text == nil || c.Text.Tune == "lora", "grpo.beta",
		"the base is the model with its adapter disabled, and tune: full has no adapter: leave beta out, or use tune: lora")
	d.Want(g.Epsilon > 0 && g.Epsilon < 1, "grpo.epsilon", "want more than 0 and less than 1, not %g", g.Epsilon)
	d.Want(g.EpsilonHigh > 0 || g.EpsilonHigh == g.Epsilon, "grpo.epsilon_high", "want more than 0, not %g", g.EpsilonHigh)
	d.oneOf("grpo.loss_type", g.LossType, "dapo", "grpo", "bnpo", "dr_grpo")
	d.oneOf("grpo.scale_rewards", g.ScaleRewards, "group", "batch", "none")
	d.Want(len(g.Rewards) > 0, "grpo.rewards", "want one or more")
	d.Want(slices.ContainsFunc(g.Rewards, func(r RewardConfig) bool { return r.Factor() != 0 }), "grpo.rewards",
		"with all weights 0 there is nothing to learn")
	names := map[string]bool{}
	for i := range g.Rewards {
		g.Rewards[i].check(d, names)
	}
}

func (r *RewardConfig) check(d checker, names map[string]bool) {
	d.oneOf("grpo.rewards", r.Kind, RewardMatch, RewardDistance, RewardFormat, RewardJudge)
	d.Want(!names[r.Name()], "grpo.rewards", "%s is listed twice", r.Name())
	names[r.Name()] = true
	d.Want(r.Judge != "" || r.Kind != RewardFormat && r.Kind != RewardJudge, "grpo.rewards",
		"kind: %s needs a judge", r.Kind)
	d.Want(r.Column == "" || r.Kind == RewardMatch || r.Kind == RewardDistance, "grpo.rewards",
		"kind: %s does not compare with a truth: it has no column", r.Kind)
	d.Want(r.Kind != RewardDistance || len(r.Range) == 2 && r.Range[0] < r.Range[1], "grpo.rewards",
		"kind: %s needs range: [smallest, largest], not %v", RewardDistance, r.Range)
	d.Want(r.Kind == RewardDistance || len(r.Range) == 0, "grpo.rewards", "kind: %s has no range", r.Kind)
}

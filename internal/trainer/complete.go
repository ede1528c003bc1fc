package trainer

import (
	"context"
	"fmt"
	"math"

	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
)

// complete lets a model that learns from rewards answer the prompts of a batch, and returns one weighted example for
// each answer. If several steps use the same rows, the first step generates the answers: they stay in the state, and
// so in checkpoints, until the last of these steps. For other models the batch is returned unchanged. After an error
// it returns the prompts.
func (t *Trainer) complete(
	ctx context.Context, prompts []dataset.Example, m *records.StepMetrics,
) ([]dataset.Example, error) {
	p, ok := t.model.(models.Policy)
	if !ok {
		return prompts, nil
	}
	g, s := t.config.GRPO, &t.state
	if (m.Step-1)%t.config.Iterations() == 0 {
		answers, err := p.Complete(ctx, prompts, t.strategy.Mine, m.Step)
		if err == nil {
			err = p.LogProbs(ctx, prompts, t.strategy.Mine, answers, t.state.MicroBatch)
		}
		if answers == nil {
			answers = models.Completions{}
		}
		if err := t.strategy.Union(fmt.Sprintf("answers of step %d", m.Step), &answers, err); err != nil {
			return prompts, err
		}
		advantages(g, prompts, answers)
		s.Completions = answers
	}
	var out []dataset.Example
	for i := range prompts {
		group := s.Completions[prompts[i].Unit]
		if len(group) == 0 {
			return prompts, fmt.Errorf("no answers to %s", prompts[i].Edit.ID)
		}
		for k := range group {
			e, c := prompts[i], group[k]
			c.Number = k
			e.Completion = &c
			out = append(out, e)
		}
	}
	weigh(g, out)
	if t.config.Iterations() == 1 {
		s.Completions = nil
	}
	return out, nil
}

// stdEps keeps the advantages of nearly equal rewards finite; the value is TRL's.
const stdEps = 1e-4

// advantages sets each advantage: the reward minus its group's mean, divided by the standard deviation of the group
// or the batch (unbiased, as in torch).
func advantages(g *config.GRPOConfig, prompts []dataset.Example, answers models.Completions) {
	var all []float64
	for i := range prompts {
		for _, c := range answers[prompts[i].Unit] {
			all = append(all, c.Reward)
		}
	}
	_, whole := meanStd(all)
	for _, group := range answers {
		var rewards []float64
		for _, c := range group {
			rewards = append(rewards, c.Reward)
		}
		mean, std := meanStd(rewards)
		for k := range group {
			c := &group[k]
			switch c.Advantage = c.Reward - mean; g.ScaleRewards {
			case "group":
				c.Advantage /= std + stdEps
			case "batch":
				c.Advantage /= whole + stdEps
			}
		}
	}
}

// meanStd returns mean and standard deviation; the mean of equal values is exactly that value.
func meanStd(v []float64) (mean, std float64) {
	if len(v) == 0 {
		return 0, 0
	}
	for _, x := range v {
		mean += x - v[0]
	}
	mean = v[0] + mean/float64(len(v))
	for _, x := range v {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(max(1, len(v)-1)))
}

// learns returns the number of tokens of an answer that the loss covers.
func learns(g *config.GRPOConfig, c *dataset.Completion) int {
	if g.MaskTruncated && c.Truncated {
		return 0
	}
	return len(c.IDs)
}

// weigh sets the weight of each token in the loss of a step.
func weigh(g *config.GRPOConfig, answers []dataset.Example) {
	tokens := 0
	for i := range answers {
		tokens += learns(g, answers[i].Completion)
	}
	for i := range answers {
		c := answers[i].Completion
		n := learns(g, c)
		switch {
		case n == 0:
			c.Weight = 0
		case g.LossType == "grpo": // the mean of each answer
			c.Weight = 1 / float64(n*len(answers))
		case g.LossType == "dr_grpo": // as if every answer had the maximum length
			c.Weight = 1 / float64(g.MaxCompletionLength*len(answers))
		default: // dapo, bnpo: the mean over all tokens of the step
			c.Weight = 1 / float64(tokens)
		}
	}
}

// answerSums are sums over the tokens of a step's answers, from which its metrics are computed.
type answerSums struct {
	metrics *records.AnswerMetrics
	tokens  float64 // of the whole step
}

// newAnswerSums fills in the metrics of a step's answers that are known before it runs; nil if it has none.
func newAnswerSums(g *config.GRPOConfig, m *records.StepMetrics, answers []dataset.Example) *answerSums {
	if len(answers) == 0 || answers[0].Completion == nil {
		return nil
	}
	a := &records.AnswerMetrics{Rewards: map[string]records.Number{}}
	s := &answerSums{metrics: a}
	m.Answers = a
	var rewards []float64
	groups := map[int][]float64{}
	n := records.Number(len(answers))
	for i := range answers {
		c := answers[i].Completion
		rewards = append(rewards, c.Reward)
		groups[answers[i].Unit] = append(groups[answers[i].Unit], c.Reward)
		a.Length += records.Number(len(c.IDs)) / n
		if c.Truncated {
			a.Truncated += 1 / n
		}
		if c.Read {
			a.Read += 1 / n
		}
		for k, v := range c.Rewards {
			a.Rewards[g.Rewards[k].Name()] += records.Number(v) / n
		}
		if c.Weight > 0 {
			s.tokens += float64(len(c.IDs))
		}
	}
	mean, std := meanStd(rewards)
	a.Reward, a.RewardStd = records.Number(mean), records.Number(std)
	for _, group := range groups {
		if _, std := meanStd(group); std == 0 {
			a.SameReward += 1 / records.Number(len(groups))
		}
	}
	if g.Beta != 0 {
		a.KL = new(records.Number)
	}
	return s
}

// done adds a micro-batch's results.
func (s *answerSums) done(part []dataset.Example, out *models.StepResult) {
	if s == nil || s.tokens == 0 {
		return
	}
	for i := range part {
		if part[i].Completion.Weight == 0 {
			continue
		}
		s.metrics.ClipRatio += records.Number(out.Clipped[i] / s.tokens)
		if s.metrics.KL != nil {
			*s.metrics.KL += records.Number(out.Divergence[i] / s.tokens)
		}
	}
}

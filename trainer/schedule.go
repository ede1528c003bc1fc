package trainer

import (
	"math"
	"strings"

	"assay/optim"
)

// newOptimizer makes the optimizer that the configuration describes.
func (c *Config) newOptimizer(params []optim.Param) optim.Optimizer {
	o := c.Optimizer
	var decayed []bool
	if o.Decay == "weights" {
		decayed = optim.Decayed(params, func(name string) bool { return strings.HasPrefix(name, "score_token.") })
	}
	switch o.Name {
	case "lion":
		l := optim.NewLion(params, [2]float64(o.Betas), o.WeightDecay)
		l.Decayed = decayed
		return l
	case "adafactor":
		a := optim.NewAdafactor(params, o.WeightDecay)
		a.Decayed = decayed
		return a
	}
	a := optim.NewAdamW(params, [2]float64(o.Betas), o.Eps, o.WeightDecay)
	a.Decayed = decayed
	return a
}

// schedule resolves the learning rates of a run of total steps.
func (c *Config) schedule(total int64) optim.Schedule {
	return optim.Schedule{
		Kind:   c.Schedule.Kind,
		Peak:   c.Optimizer.LR,
		End:    c.Schedule.MinLR,
		Warmup: stepsOf(c.Schedule.Warmup, total),
		Total:  total,
		Cycles: c.Schedule.Cycles,
		Decay:  stepsOf(c.Schedule.Decay, total),
	}
}

// stepsOf reads a number of steps, or below 1 the fraction of all steps.
func stepsOf(n float64, total int64) int64 {
	if n < 1 {
		n = math.Round(n * float64(total))
	}
	return int64(n)
}

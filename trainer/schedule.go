package trainer

import (
	"math"

	"assay/optim"
)

// newOptimizer makes the optimizer that the configuration describes.
func (c *Config) newOptimizer(params []optim.Param) *optim.AdamW {
	o := c.Optimizer
	return optim.NewAdamW(params, [2]float64(o.Betas), o.Eps, o.WeightDecay)
}

// schedule resolves the learning rates of a run of total steps.
func (c *Config) schedule(total int64) optim.Schedule {
	w := c.Schedule.Warmup
	if w < 1 {
		w = math.Round(w * float64(total))
	}
	return optim.Schedule{
		Kind:   c.Schedule.Kind,
		Peak:   c.Optimizer.LR,
		End:    c.Schedule.MinLR,
		Warmup: int64(w),
		Total:  total,
	}
}

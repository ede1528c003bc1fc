package config

import (
	"math"
	"strings"

	"assay/optim"
)

// plateau is the schedule that cuts the rate where validations do not get better.
const plateau = "plateau"

const PlateauWants = "plateau wants validation rows: name them with data.validation or data.validation_split"

// IsTokenRow recognises the rows of the score token.
func IsTokenRow(name string) bool { return strings.HasPrefix(name, "score_token.") }

// course resolves the learning rates of a run of total steps.
func (s *ScheduleConfig) course(peak float64, total int64) optim.Schedule {
	return optim.Schedule{
		Kind:   s.Kind,
		Peak:   peak,
		End:    s.MinLR,
		Warmup: stepsOf(s.Warmup, total),
		Total:  total,
		Cycles: s.Cycles,
		Decay:  stepsOf(s.Decay, total),
		Factor: s.Factor,
	}
}

// stepsOf reads a number of steps, or below 1 the fraction of all steps.
func stepsOf(n float64, total int64) int64 {
	if n < 1 {
		n = math.Round(n * float64(total))
	}
	return int64(n)
}

// OwnerOf names the group whose schedule a group follows.
func (c *Config) OwnerOf(group string) string {
	if x := c.Optimizer.Groups.Of(group); x == nil || x.Schedule == nil {
		return OtherGroup
	}
	if group == AdapterBGroup {
		return AdapterGroup
	}
	return group
}

// Plateaus are the schedules of that kind, by the groups that own them.
func (c *Config) Plateaus() map[string]*ScheduleConfig {
	out := map[string]*ScheduleConfig{}
	for _, name := range GroupNames() {
		owner := c.OwnerOf(name)
		if s, _ := c.ScheduleOf(owner); s.Kind == plateau {
			out[owner] = s
		}
	}
	return out
}

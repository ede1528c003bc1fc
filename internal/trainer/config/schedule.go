package config

import (
	"fmt"
	"math"
	"strings"

	"assay/internal/exit"
	"assay/internal/optim"
)

// plateau is the schedule that cuts the rate when validations stop improving.
const plateau = "plateau"

// PlateauWants is the error of a plateau schedule without validation rows.
const PlateauWants = "plateau needs validation rows: set data.validation or data.validation_split"

// IsTokenRow reports whether a tensor is a row of the score token.
func IsTokenRow(name string) bool { return strings.HasPrefix(name, "score_token.") }

// course returns the learning rate schedule for a run of total steps.
func (s *ScheduleConfig) course(peak float64, total int64) optim.Schedule {
	return optim.Schedule{Kind: s.Kind, Peak: peak, End: s.MinLR, Warmup: stepsOf(s.Warmup, total, math.Ceil),
		Total: total, Cycles: s.Cycles, Decay: stepsOf(s.Decay, total, math.Floor), Factor: s.Factor}
}

// stepsOf reads a number of steps, or below 1 the fraction of all steps: of the warm-up rounded up, as by transformers
// (TrainingArguments.get_warmup_steps), of the decay rounded down, so that both fit.
func stepsOf(n float64, total int64, round func(float64) float64) int64 {
	if n < 1 {
		n = round(n * float64(total))
	}
	return int64(n)
}

// OwnerOf returns the group whose schedule a group follows.
func (c *Config) OwnerOf(group string) string {
	if x := c.Optimizer.Groups.Of(group); x == nil || x.Schedule == nil {
		return OtherGroup
	}
	if group == AdapterBGroup {
		return AdapterGroup
	}
	return group
}

// Plateaus returns the schedules of kind plateau by the groups that own them.
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

// CheckSchedules returns an error if warm-up and decay together are longer than the run, in its schedule or a
// group's. It warns if a run ends during its warm-up.
func (c *Config) CheckSchedules(steps int64, warn func(text string)) error {
	if err := c.Schedule.checkSteps("schedule", steps, warn); err != nil {
		return err
	}
	for _, x := range c.Optimizer.Groups.scheduled() {
		if err := x.Schedule.checkSteps(strings.TrimSuffix(x.key, "."), steps, warn); err != nil {
			return err
		}
	}
	return nil
}

func (s *ScheduleConfig) checkSteps(key string, all int64, warn func(text string)) error {
	steps := func(n float64) float64 {
		if n < 1 {
			n *= float64(all)
		}
		return n
	}
	if s.Kind == "wsd" && steps(s.Warmup)+steps(s.Decay) > float64(all)+1e-6 {
		return exit.Usagef("%s: warmup %g and decay %g are more than the %d steps of the run", key, s.Warmup, s.Decay, all)
	}
	if warn != nil && steps(s.Warmup) > float64(all) {
		warn(fmt.Sprintf("%s: the warm-up has %g steps, the run %d: the learning rate stays below its peak", key, s.Warmup,
			all))
	}
	return nil
}

package trainer

import (
	"fmt"
	"math"
	"strings"

	"assay/internal/exit"
	"assay/optim"
)

// plateau is the schedule that cuts the rate where validations do not get better.
const plateau = "plateau"

const plateauWants = "plateau wants validation rows: name them with data.validation or data.validation_split"

// isTokenRow recognises the rows of the score token.
func isTokenRow(name string) bool { return strings.HasPrefix(name, "score_token.") }

// groupsOf sorts trained tensors into the groups that the configuration knows. One without tensors is refused.
func (c *Config) groupsOf(params []optim.Param) (optim.ParamGroups, error) {
	members := map[string][]int{}
	for i, p := range params {
		name := c.rates(p.Name)
		members[name] = append(members[name], i)
	}
	var out optim.ParamGroups
	for _, name := range groupNames() {
		if len(members[name]) > 0 {
			out = append(out, optim.ParamGroup{Name: name, Params: members[name]})
		} else if c.Optimizer.Groups.of(name) != nil && (name != adapterBGroup || c.Optimizer.Groups.Adapters.Ratio != nil) {
			return nil, exit.Usage(fmt.Errorf("optimizer.groups.%s: nothing of it trains: leave it out", name))
		}
	}
	return out, nil
}

// newOptimizer makes the optimizer that the configuration describes, of those parameters, or stretches of them, that it
// updates here: a group may have none of them.
func (c *Config) newOptimizer(params, here []optim.Param) (optim.ParamGroups, error) {
	groups, err := c.groupsOf(params)
	for i := range groups {
		g := &groups[i]
		g.Params = nil
		for k, p := range here {
			if c.rates(p.Name) == g.Name {
				g.Params = append(g.Params, k)
			}
		}
		g.Optimizer = c.optimizerOf(optim.Of(g, here), c.decayOf(g.Name))
	}
	return groups, err
}

// elementwise tells whether the optimizer does to every stretch of a tensor what it does to the whole.
func (c *Config) elementwise() bool { return c.Optimizer.Name != "adafactor" }

// optimizerOf makes the optimizer of some parameters.
func (c *Config) optimizerOf(params []optim.Param, decay float64) optim.Optimizer {
	o := c.Optimizer
	var decayed []bool
	if o.Decay == "weights" {
		decayed = optim.Decayed(params, isTokenRow)
	}
	switch o.Name {
	case "lion":
		l := optim.NewLion(params, [2]float64(o.Betas), decay)
		l.Decayed = decayed
		return l
	case "adafactor":
		a := optim.NewAdafactor(params, decay)
		a.Decayed = decayed
		return a
	case "adamw_8bit":
		a := optim.NewAdamW8(params, [2]float64(o.Betas), o.Eps, decay)
		a.Decayed = decayed
		return a
	}
	a := optim.NewAdamW(params, [2]float64(o.Betas), o.Eps, decay)
	a.Decayed = decayed
	return a
}

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

// ownerOf names the group whose schedule a group follows.
func (c *Config) ownerOf(group string) string {
	if x := c.Optimizer.Groups.of(group); x == nil || x.Schedule == nil {
		return otherGroup
	}
	if group == adapterBGroup {
		return adapterGroup
	}
	return group
}

// plateaus are the schedules of that kind, by the groups that own them.
func (c *Config) plateaus() map[string]*ScheduleConfig {
	out := map[string]*ScheduleConfig{}
	for _, name := range groupNames() {
		owner := c.ownerOf(name)
		if s, _ := c.scheduleOf(owner); s.Kind == plateau {
			out[owner] = s
		}
	}
	return out
}

// measurePlateaus lets the schedules of kind plateau see a validation.
func (t *Trainer) measurePlateaus(m *ValidationMetrics) {
	for owner, s := range t.config.plateaus() {
		p := optim.Plateau{Patience: s.Patience, Threshold: s.Threshold, Rising: !m.falling(t.by(m))}
		if kept := t.state.Plateaus[owner]; kept != nil {
			p.PlateauState = *kept
		}
		p.Measure(m.Number(t.by(m)))
		if t.state.Plateaus == nil {
			t.state.Plateaus = map[string]*optim.PlateauState{}
		}
		t.state.Plateaus[owner] = &p.PlateauState
	}
}

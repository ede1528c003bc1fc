package optimizer

import (
	"fmt"

	"assay/internal/exit"
	"assay/internal/optim"
	"assay/internal/trainer/config"
)

// GroupsOf sorts trained tensors into the configured groups. A configured group without tensors is an error.
func GroupsOf(c *config.Config, params []optim.Param) (optim.ParamGroups, error) {
	members := map[string][]int{}
	for i, p := range params {
		name := c.Rates(p.Name)
		members[name] = append(members[name], i)
	}
	var out optim.ParamGroups
	for _, name := range config.GroupNames() {
		if len(members[name]) > 0 {
			out = append(out, optim.ParamGroup{Name: name, Params: members[name]})
		} else if own := c.Optimizer.Groups.Of(name); own != nil && (name != config.AdapterBGroup || own.Ratio != nil) {
			return nil, exit.Usage(fmt.Errorf("optimizer.groups.%s: no tensor in this group trains: leave it out", name))
		}
	}
	return out, nil
}

// newGroupsOf creates the groups with their configured optimizers, for the parameters, or slices of them, that this
// process updates: a group may have none of them.
func newGroupsOf(c *config.Config, params, here []optim.Param) (optim.ParamGroups, error) {
	groups, err := GroupsOf(c, params)
	for i := range groups {
		g := &groups[i]
		g.Params = nil
		for k, p := range here {
			if c.Rates(p.Name) == g.Name {
				g.Params = append(g.Params, k)
			}
		}
		g.Optimizer = OptimizerOf(c, optim.Of(g, here), c.DecayOf(g.Name))
	}
	return groups, err
}

// Elementwise reports whether the optimizer treats every element independently, so that tensors can be split.
func Elementwise(c *config.Config) bool { return c.Optimizer.Name != "adafactor" }

// OptimizerOf creates the optimizer of some parameters.
func OptimizerOf(c *config.Config, params []optim.Param, decay float64) optim.Optimizer {
	o := c.Optimizer
	var decayed []bool
	if o.Decay == "weights" {
		decayed = optim.Decayed(params, config.IsTokenRow)
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

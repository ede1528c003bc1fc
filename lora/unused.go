package lora

import (
	"fmt"
	"slices"
)

// Unused says what of a configuration selects nothing in a backbone, which PEFT passes over: names of targets, layers,
// and patterns of ranks and alphas. It is for adapters that begin; in a file of PEFT's it does no harm.
func (c *Config) Unused(modules []Module) (problems []string, err error) {
	adapted, err := c.MatchModules(modules)
	if err != nil {
		return nil, err
	}
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	selects := func(one *Config) bool {
		found, err := one.MatchModules(modules)
		return err == nil && len(found) > 0
	}
	for _, name := range c.Targets.List {
		one := c.Clone()
		one.Targets = Names{List: []string{name}}
		if !selects(one) {
			say("targets: %q selects no layer", name)
		}
	}
	for _, n := range c.LayersToTransform {
		one := c.Clone()
		one.LayersToTransform = []int{n}
		if !selects(one) {
			say("layers: there is none with the number %d that targets select", n)
		}
	}
	for _, p := range []struct {
		name string
		list Overrides
	}{{"rank_pattern", c.Ranks}, {"alpha_pattern", c.Alphas}} {
		used, err := usedOverrides(p.name, p.list, adapted)
		if err != nil {
			return nil, err
		}
		for i, o := range p.list {
			if !slices.Contains(used, i) {
				say("%s: %q is that of no layer with an adapter, or others before it are", p.name, o.Key)
			}
		}
	}
	return problems, nil
}

// usedOverrides are the indices of those that count for a layer.
func usedOverrides(field string, list Overrides, adapted []Target) (used []int, err error) {
	expressions, err := compileOverrides(field, list)
	if err != nil {
		return nil, err
	}
	for _, t := range adapted {
		i, err := firstMatch(expressions, t.Module)
		if err != nil {
			return nil, err
		}
		if i >= 0 {
			used = append(used, i)
		}
	}
	return used, nil
}

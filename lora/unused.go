package lora

import (
	"fmt"
	"slices"
	"strings"
)

// Unused lists settings of a configuration that select nothing in a backbone, which PEFT ignores: names of targets,
// layers, rank and alpha patterns, and modules_to_save. It is meant for new adapters; in PEFT's files such settings are
// harmless.
func (c *Config) Unused(modules []Module) (problems []string, err error) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	selects := func(one *Config) bool {
		found, err := one.MatchModules(modules)
		return err == nil && len(found) > 0
	}
	everywhere := c.Clone()
	everywhere.LayersToTransform, everywhere.LayersPattern = nil, nil
	adapted, err := c.MatchModules(modules)
	if err != nil && !(len(c.LayersToTransform) > 0 && selects(everywhere)) {
		return nil, err
	}
	for _, name := range c.Targets.List {
		one := c.Clone()
		if err != nil {
			one = everywhere.Clone()
		}
		one.Targets = Names{List: []string{name}}
		if !selects(one) {
			say("targets: %q selects no layer", name)
		}
	}
	for _, n := range c.LayersToTransform {
		one := c.Clone()
		one.LayersToTransform = []int{n}
		if !selects(one) {
			say("layers: targets select no layer with index %d", n)
		}
	}
	for _, name := range c.ModulesToSave {
		if !slices.ContainsFunc(modules, func(m Module) bool { return strings.HasSuffix(m.Name, name) }) {
			say("modules_to_save: %q names no module of the backbone", name)
		}
	}
	if err != nil { // no layer has one of the indices
		return problems, nil
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
				say("%s: %q applies to no layer with an adapter, or earlier patterns take precedence", p.name, o.Key)
			}
		}
	}
	return problems, nil
}

// Unmatched returns the names, or the expression, of exclude_modules that match no module of a backbone. A checkpoint
// without lm_head has one that shares the embedding.
func (exclude Names) Unmatched(modules []Module) (out []string, err error) {
	ones := make([]Names, len(exclude.List))
	for i, name := range exclude.List {
		ones[i].List = []string{name}
	}
	if exclude.Regex != "" {
		ones = []Names{exclude}
	}
	for _, one := range ones {
		m, err := newMatcher(&Config{Exclude: one})
		if err != nil {
			return nil, err
		}
		_, found, err := m.match("lm_head")
		for i := 0; i < len(modules) && !found && err == nil; i++ {
			_, found, err = m.match(modules[i].Name)
		}
		if err != nil {
			return nil, err
		}
		if !found {
			out = append(out, one.String())
		}
	}
	return out, nil
}

// usedOverrides returns the indices of the overrides that apply to a layer.
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

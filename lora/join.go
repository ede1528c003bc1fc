package lora

import (
	"fmt"
	"maps"
	"slices"

	"gorgonia.org/tensor"
)

// Branch is the share of one of several joined adapters in a module's rank. Rank 0: it does not adapt the module.
type Branch struct {
	Rank  int
	Scale float64 // of B A
}

// Join combines several adapters of one backbone: the matrices A of a module are stacked, [sum of ranks, in], and the
// matrices B concatenated, [out, sum of ranks]. Branches records which rows and columns belong to which adapter.
func Join(adapters []*Adapter) (*Adapter, error) {
	out := &Adapter{Config: adapters[0].Config, Tensors: map[string]*tensor.Dense{}, Branches: map[string][]Branch{}}
	modules := map[string]bool{}
	for i, a := range adapters {
		if a.Config.DoRA || len(a.Whole) > 0 || a.Config.Start.changesBase() {
			return nil, fmt.Errorf("adapter %d uses DoRA, subtracts its start from the weights, or has full parameters: "+
				"only plain low-rank matrices can be joined", i+1)
		}
		for _, t := range a.Targets {
			modules[t.Module] = true
		}
	}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		if err := out.join(module, adapters); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// join adds the matrices of a module.
func (a *Adapter) join(module string, of []*Adapter) error {
	target := Target{Module: module, Scale: 1}
	var as, bs []*tensor.Dense
	for _, one := range of {
		t, _ := one.Target(module)
		a.Branches[module] = append(a.Branches[module], Branch{t.Rank, t.Scale})
		if matA, matB, _, ok := one.Delta(module); ok {
			as, bs, target.Rank = append(as, matA), append(bs, matB), target.Rank+t.Rank
		}
	}
	for name, parts := range map[string][]*tensor.Dense{NameA(module): as, NameB(module): bs} {
		axis := 0
		if name == NameB(module) {
			axis = 1
		}
		joined := parts[0]
		if len(parts) > 1 {
			var err error
			if joined, err = parts[0].Concat(axis, parts[1:]...); err != nil {
				return fmt.Errorf("%s: %w", module, err)
			}
		}
		a.Tensors[name] = joined
	}
	a.Targets = append(a.Targets, target)
	return nil
}

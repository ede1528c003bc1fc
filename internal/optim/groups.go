package optim

// ParamGroup is a set of parameters with its own optimizer, weight decay and learning rate, like torch's
// param_groups.
type ParamGroup struct {
	Name      string
	Params    []int // indices into all parameters, ascending
	Optimizer Optimizer
}

// ParamGroups update each group at its own learning rate. Every parameter is in exactly one group.
type ParamGroups []ParamGroup

// Of returns the group's elements of a list over all parameters.
func Of[T any](g *ParamGroup, all []T) []T {
	out := make([]T, len(g.Params))
	for k, i := range g.Params {
		out[k] = all[i]
	}
	return out
}

// Update changes params in place by their gradients, each group at its learning rate.
func (gs ParamGroups) Update(params []Param, grads [][]float32, lrs []float64) {
	for i := range gs {
		g := &gs[i]
		g.Optimizer.Update(Of(g, params), Of(g, grads), lrs[i])
	}
}

// State lists the state of the groups' optimizers, in place, with indices into all parameters.
func (gs ParamGroups) State() []State {
	var out []State
	for i := range gs {
		for _, s := range gs[i].Optimizer.State() {
			s.Param = gs[i].Params[s.Param]
			out = append(out, s)
		}
	}
	return out
}

// Updates returns the number of updates so far.
func (gs ParamGroups) Updates() int64 { return gs[0].Optimizer.Updates() }

// SetUpdates sets the number of updates.
func (gs ParamGroups) SetUpdates(n int64) {
	for i := range gs {
		gs[i].Optimizer.SetUpdates(n)
	}
}

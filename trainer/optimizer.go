package trainer

import (
	"context"
	"fmt"
	"runtime"

	"assay/internal/workers"
	"assay/optim"
)

// optimizer holds what trains: parameters, the sums of their gradients over a batch, and the optimizer's state. Of
// several processes each may own a part of the elements, and updates that alone.
type optimizer struct {
	config *Config
	model  Model
	params []optim.Param     // all that train
	owned  []optim.Param     // updated by this process: parameters, or stretches of them
	groups optim.ParamGroups // of owned, with rates of their own
	grads  [][]float32       // of owned
	steps  int64             // of the run, for the schedule

	released int64 // bytes of gradients that were dropped since they were last collected
	checked  bool  // the weights were searched for values that are not finite
}

func newOptimizer(c *Config, m Model, params, owned []optim.Param) (*optimizer, error) {
	groups, err := c.newOptimizer(params, owned)
	return &optimizer{config: c, model: m, params: params, owned: owned, groups: groups}, err
}

// makeGrads makes room for the sums of the gradients.
func (o *optimizer) makeGrads() {
	o.grads = nil
	for _, p := range o.owned {
		o.grads = append(o.grads, make([]float32, len(p.Floats())))
	}
}

// rates are the learning rates of the groups in the present step, which the metrics note.
func (o *optimizer) rates(m *StepMetrics, s *state) (each []float64) {
	at := func(group string) float64 {
		c := o.config.courseOf(group, o.steps)
		if p := s.Plateaus[o.config.ownerOf(group)]; p != nil {
			c.Cuts = p.Cuts
		}
		return c.LR(s.Step)
	}
	m.LR = at(otherGroup)
	for i := range o.groups {
		name := o.groups[i].Name
		each = append(each, at(name))
		if name != otherGroup {
			if m.LRs == nil {
				m.LRs = Rates{}
			}
			m.LRs[name] = each[i]
		}
	}
	return each
}

// accumulator is the model if it sums gradients itself; nil: the optimizer does.
func (o *optimizer) accumulator() Accumulator {
	if a, ok := o.model.(Accumulator); ok && a.Accumulates() {
		return a
	}
	return nil
}

// begin begins a step: no gradients.
func (o *optimizer) begin(ctx context.Context) error {
	if a := o.accumulator(); a != nil {
		return a.Begin(ctx)
	}
	for i := range o.grads {
		clear(o.grads[i])
	}
	return nil
}

// check compares the shapes of what the model gave for n samples with the parameters.
func (o *optimizer) check(out *StepResult, n int) error {
	grads := len(o.params)
	if o.accumulator() != nil {
		grads = 0
	}
	if len(out.Grads) != grads || len(out.Loss) != n || len(out.ScoreLoss) != n || len(out.Score) != n ||
		len(out.CE) != 0 && len(out.CE) != n {
		return fmt.Errorf("the model gave %d losses and %d gradients for %d samples and %d parameters", len(out.Loss),
			len(out.Grads), n, len(o.params))
	}
	for i, g := range out.Grads {
		if g == nil || len(g.Float32s()) != len(o.params[i].Floats()) {
			return fmt.Errorf("the gradient of %s has not the shape of the parameter", o.params[i].Name)
		}
	}
	return nil
}

// add sums a micro-batch's gradients into the batch's.
func (o *optimizer) add(out *StepResult) {
	workers.Do(len(out.Grads), func(i int) {
		sum := o.grads[i]
		for j, v := range out.Grads[i].Float32s() {
			sum[j] += v
		}
	})
}

// leastReleased is the memory of gradients that is worth a collection.
const leastReleased = 8 << 20

// release drops a micro-batch's gradients, which are summed, and collects them with earlier ones. The garbage collector
// by itself would wait until they are as large as all that lives: parameters, sums and moments together.
func (o *optimizer) release(out *StepResult) {
	if len(out.Grads) == 0 {
		return
	}
	var bytes int64
	for _, g := range out.Grads {
		bytes += 4 * int64(g.DataSize())
	}
	out.Grads = nil
	if o.released += bytes; o.released >= max(leastReleased, 2*bytes) {
		runtime.GC()
		o.released = 0
	}
}

// sum brings the sums of the gradients here if the model has them, and returns their norm.
func (o *optimizer) sum(ctx context.Context) (norm float64, err error) {
	if a := o.accumulator(); a != nil {
		if err := a.Sums(ctx, o.grads); err != nil {
			return 0, err
		}
	}
	return optim.Root(optim.Squares(o.grads)), nil
}

// apply clips the gradients, whose norm is known, and updates the parameters.
func (o *optimizer) apply(norm float64, rates []float64) {
	optim.Clip(o.grads, norm, o.config.ClipNorm)
	o.groups.Update(o.owned, o.grads, rates)
}

// damage names a parameter that is not finite. It looks once.
func (o *optimizer) damage() error {
	d, ok := o.model.(interface{ Damage() error })
	if !ok || o.checked {
		return nil
	}
	o.checked = true
	return d.Damage()
}

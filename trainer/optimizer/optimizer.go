// Package optimizer updates what a run trains. An Optimizer sums the gradients of micro-batches, clips them, and applies
// them by groups of tensors that have learning rates, decays and schedules of their own.
package optimizer

import (
	"context"
	"fmt"
	"runtime"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/optim"
	"assay/trainer/config"
	"assay/trainer/records"
)

// Optimizer holds what trains: parameters, the sums of their gradients over a batch, and the optimizer's state. Of
// several processes each may own a part of the elements, and updates that alone.
type Optimizer struct {
	config *config.Config
	Params []optim.Param // all that train
	owned  []optim.Param // updated by this process: parameters, or stretches of them
	Groups optim.Groups  // of owned, with rates of their own
	Grads  [][]float32   // of owned
	Steps  int64         // of the run, for the schedule

	accumulator Accumulator // the model, if it sums gradients itself; nil: the optimizer does
	released    int64       // bytes of gradients that were dropped since they were last collected
}

// New makes the optimizer of a model's parameters, of which this process updates its own.
func New(c *config.Config, model any, params, owned []optim.Param) (*Optimizer, error) {
	groups, err := newGroupsOf(c, params, owned)
	o := &Optimizer{config: c, Params: params, owned: owned, Groups: groups}
	if a, ok := model.(Accumulator); ok && a.Accumulates() {
		o.accumulator = a
	}
	return o, err
}

// MakeGrads makes room for the sums of the gradients.
func (o *Optimizer) MakeGrads() {
	o.Grads = nil
	for _, p := range o.owned {
		o.Grads = append(o.Grads, make([]float32, len(p.Floats())))
	}
}

// Rates are the learning rates of the groups in the present step, which the metrics note.
func (o *Optimizer) Rates(m *records.StepMetrics, step int64, plateaus map[string]*optim.PlateauState) (each []float64) {
	at := func(group string) float64 {
		c := o.config.CourseOf(group, o.Steps)
		if p := plateaus[o.config.OwnerOf(group)]; p != nil {
			c.Cuts = p.Cuts
		}
		return c.LR(step)
	}
	m.LR = at(config.OtherGroup)
	for i := range o.Groups {
		name := o.Groups[i].Name
		each = append(each, at(name))
		if name != config.OtherGroup {
			if m.LRs == nil {
				m.LRs = records.Rates{}
			}
			m.LRs[name] = each[i]
		}
	}
	return each
}

// Begin begins a step: no gradients.
func (o *Optimizer) Begin(ctx context.Context) error {
	if a := o.accumulator; a != nil {
		return a.Begin(ctx)
	}
	for i := range o.Grads {
		clear(o.Grads[i])
	}
	return nil
}

// Check compares gradients that the model gave with the parameters.
func (o *Optimizer) Check(grads []*tensor.Dense) error {
	want := len(o.Params)
	if o.accumulator != nil {
		want = 0
	}
	if len(grads) != want {
		return fmt.Errorf("the model gave %d gradients for %d parameters", len(grads), len(o.Params))
	}
	for i, g := range grads {
		if g == nil || len(g.Float32s()) != len(o.Params[i].Floats()) {
			return fmt.Errorf("the gradient of %s has not the shape of the parameter", o.Params[i].Name)
		}
	}
	return nil
}

// Add sums a micro-batch's gradients into the batch's.
func (o *Optimizer) Add(grads []*tensor.Dense) {
	workers.Do(len(grads), func(i int) {
		sum := o.Grads[i]
		for j, v := range grads[i].Float32s() {
			sum[j] += v
		}
	})
}

// leastReleased is the memory of gradients that is worth a collection.
const leastReleased = 8 << 20

// Release drops a micro-batch's gradients, which are summed, and collects them with earlier ones. The garbage collector
// by itself would wait until they are as large as all that lives: parameters, sums and moments together.
func (o *Optimizer) Release(grads *[]*tensor.Dense) {
	if len(*grads) == 0 {
		return
	}
	var bytes int64
	for _, g := range *grads {
		bytes += 4 * int64(g.DataSize())
	}
	*grads = nil
	if o.released += bytes; o.released >= max(leastReleased, 2*bytes) {
		runtime.GC()
		o.released = 0
	}
}

// Sum brings the sums of the gradients here if the model has them, and returns their norm.
func (o *Optimizer) Sum(ctx context.Context) (norm float64, err error) {
	if a := o.accumulator; a != nil {
		if err := a.Sums(ctx, o.Grads); err != nil {
			return 0, err
		}
	}
	return optim.Root(optim.Squares(o.Grads)), nil
}

// Apply clips the gradients, whose norm is known, and updates the parameters.
func (o *Optimizer) Apply(norm float64, rates []float64) {
	optim.Clip(o.Grads, norm, o.config.ClipNorm)
	o.Groups.Update(o.owned, o.Grads, rates)
}

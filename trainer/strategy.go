package trainer

import (
	"context"
	"fmt"

	"assay/optim"
)

// strategy divides the work of a run among processes. Every process makes the same calls in the same order. single is
// the strategy of one process; ranks is that of several.
type strategy interface {
	main() bool                         // this process writes files and reports
	mine(i int) bool                    // the i-th of many equal pieces of work is this process's
	agree(what string, err error) error // an error of any process becomes that of all
	knows(err error) bool               // all processes have this error

	// union adds to a map (given by its address) the entries of the other processes.
	union(what string, entries any, err error) error
	// share makes v what the main process has.
	share(what string, v any) error
	// same refuses processes for which a fact differs.
	same(what string, facts func() (map[string]string, error)) error
	// microBatch is the number of samples that all processes can run, of batches of a fixed size (0: they differ).
	microBatch(n, batch int, warn func(string)) (int, error)

	// shard gives the parameters that this process updates, or stretches of them.
	shard(params []optim.Param) []optim.Param
	// accumulate runs the micro-batches of a step, sums their gradients and shows each result in order. failed is the
	// micro-batch of an error.
	accumulate(
		o *optimizer, step int64, parts [][]Example, run func(i int) (*StepResult, error), show func(i int, out *StepResult),
	) (failed int, err error)
	// reduce ends the sums of a step, and gives the norm of the gradient.
	reduce(ctx context.Context, o *optimizer) (norm float64, err error)
	// update applies the gradients to the parameters of all processes.
	update(o *optimizer, norm float64, rates []float64) error

	// round measures a micro-batch of validation rows on each process: measure is given its number. failed is that of an
	// error.
	round(what string, measure func(i int) (measured, error)) (all []measured, failed int, err error)

	// due is whether the main process finds a checkpoint due by its clock.
	due(now bool) (bool, error)
	// save writes a checkpoint's tensors by write, which one process calls.
	save(o *optimizer, write func(tensors []tensorSlice, each func(put putter) error) error) error
	// tensors is the number of tensors of a checkpoint of which this process has some.
	tensors(here []tensorSlice) (int, error)
}

// single is the strategy of one process.
type single struct{}

func (single) main() bool                                                { return true }
func (single) mine(int) bool                                             { return true }
func (single) agree(_ string, err error) error                           { return err }
func (single) knows(error) bool                                          { return true }
func (single) union(_ string, _ any, err error) error                    { return err }
func (single) share(string, any) error                                   { return nil }
func (single) same(string, func() (map[string]string, error)) error      { return nil }
func (single) microBatch(n, _ int, _ func(string)) (int, error)          { return n, nil }
func (single) shard(params []optim.Param) []optim.Param                  { return params }
func (single) reduce(ctx context.Context, o *optimizer) (float64, error) { return o.sum(ctx) }
func (single) due(now bool) (bool, error)                                { return now, nil }
func (single) tensors(here []tensorSlice) (int, error)                   { return len(here), nil }
func (single) round(_ string, f func(int) (measured, error)) ([]measured, int, error) {
	m, err := f(0)
	return []measured{m}, 0, err
}

func (single) update(o *optimizer, norm float64, rates []float64) error {
	o.apply(norm, rates)
	return nil
}

func (single) accumulate(
	o *optimizer, _ int64, parts [][]Example, run func(i int) (*StepResult, error), show func(i int, out *StepResult),
) (int, error) {
	for i, part := range parts {
		out, err := run(i)
		if err == nil {
			err = o.check(out, len(part))
		}
		if err != nil {
			return i, err
		}
		o.add(out)
		o.release(out)
		show(i, out)
	}
	return 0, nil
}

func (single) save(o *optimizer, write func([]tensorSlice, func(put putter) error) error) error {
	all := o.tensors()
	return write(all, func(put putter) error { return putAll(all, put) })
}

// CUDAAuto is the device that is the GPU with the number that a process has on its machine.
const CUDAAuto = "cuda:auto"

// onDevice is the configuration for one of several processes (0: of one), with the device of the local-th of its
// machine.
func onDevice(c *Config, processes, local int) *Config {
	here := *c
	here.Ranks = processes
	if c.Device == CUDAAuto {
		here.Device = fmt.Sprintf("cuda:%d", local)
	}
	return &here
}

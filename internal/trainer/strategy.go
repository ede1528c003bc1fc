package trainer

import (
	"context"

	"assay/internal/optim"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/internal/trainer/optimizer"
)

// Strategy divides the work of a run among processes. Every process makes the same calls in the same order. single is
// the strategy of one process; distributed.Strategy is for several.
type Strategy interface {
	Main() bool                         // this process writes files and reports
	Mine(i int) bool                    // this process does the i-th of many equal pieces of work
	Agree(what string, err error) error // an error of any process becomes an error of all
	Knows(err error) bool               // all processes have this error
	Rephrase(err, as error) error       // as instead of err, known to the same processes

	Place() (processes, local int) // number of processes, and the index of this one on its machine
	Warn(text string)              // a warning from a process that is not the main one
	Close(err error)               // ends the run with its error

	// Union adds to a map (given by its address) the entries of the other processes.
	Union(what string, entries any, err error) error
	// Share sets v to the main process's value.
	Share(what string, v any) error
	// Same returns an error if a fact differs between processes.
	Same(what string, facts func() (map[string]string, error)) error
	// MicroBatch returns a micro-batch that all processes can run; batch is the fixed batch size (0: it varies).
	MicroBatch(n, batch int, warn func(string)) (int, error)

	// Shard returns the parameters, or slices of them, that this process updates.
	Shard(params []optim.Param) []optim.Param
	// Accumulate runs the micro-batches of a step and sums their gradients. failed is the micro-batch that returned
	// an error.
	Accumulate(ctx context.Context, o *optimizer.Optimizer, b models.MicroBatches) (failed int, err error)
	// Reduce completes the gradient sums of a step, and returns the norm of the gradient.
	Reduce(ctx context.Context, o *optimizer.Optimizer) (norm float64, err error)
	// Update applies the gradients to the parameters of all processes.
	Update(o *optimizer.Optimizer, norm float64, rates []float64) error

	// Round measures a micro-batch of validation rows on each process: measure receives its number. failed is the
	// number of the micro-batch that returned an error.
	Round(what string, measure func(i int) (models.Measured, error)) (all []models.Measured, failed int, err error)

	// Due reports whether a checkpoint is due by the main process's clock.
	Due(now bool) (bool, error)
	// Save writes a checkpoint's tensors with write, which one process calls.
	Save(o *optimizer.Optimizer, write checkpoint.WriteFunc) error
	// Tensors returns the number of tensors in a checkpoint of all processes; here are the ones of this process.
	Tensors(here []checkpoint.Slice) (int, error)
}

// StrategyOpener opens a process's strategy for a run. cancel ends the run as an interrupt would.
type StrategyOpener func(c *config.Config, cancel context.CancelFunc) (Strategy, error)

// single is the strategy of one process.
type single struct{}

func (single) Main() bool { return true }

func (single) Mine(int) bool { return true }

func (single) Agree(_ string, err error) error { return err }

func (single) Knows(error) bool { return true }

func (single) Rephrase(_, as error) error { return as }

func (single) Place() (processes, local int) { return 1, 0 }

func (single) Warn(string) {}

func (single) Close(error) {}

func (single) Union(_ string, _ any, err error) error { return err }

func (single) Share(string, any) error { return nil }

func (single) Same(string, func() (map[string]string, error)) error { return nil }

func (single) MicroBatch(n, _ int, _ func(string)) (int, error) { return n, nil }

func (single) Shard(params []optim.Param) []optim.Param { return params }

func (single) Reduce(ctx context.Context, o *optimizer.Optimizer) (float64, error) { return o.Sum(ctx) }

func (single) Due(now bool) (bool, error) { return now, nil }

func (single) Tensors(here []checkpoint.Slice) (int, error) { return len(here), nil }

func (single) Round(_ string, f func(int) (models.Measured, error)) ([]models.Measured, int, error) {
	m, err := f(0)
	return []models.Measured{m}, 0, err
}

func (single) Update(o *optimizer.Optimizer, norm float64, rates []float64) error {
	o.Apply(norm, rates)
	return nil
}

func (single) Accumulate(ctx context.Context, o *optimizer.Optimizer, b models.MicroBatches) (int, error) {
	for i := range b.Len() {
		out, err := b.Run(ctx, i)
		if err != nil {
			return i, err
		}
		o.Add(out.Grads)
		o.Release(&out.Grads)
		b.Done(i, out)
	}
	return 0, nil
}

func (single) Save(o *optimizer.Optimizer, write checkpoint.WriteFunc) error {
	all := o.Tensors()
	return write(all, func(put checkpoint.Putter) error { return checkpoint.PutAll(all, put) })
}

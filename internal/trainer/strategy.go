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
	Mine(i int) bool                    // the i-th of many equal pieces of work is this process's
	Agree(what string, err error) error // an error of any process becomes an error of all
	Knows(err error) bool               // all processes have this error
	Rephrase(err, as error) error       // as in place of err, known to the same processes

	Place() (processes, local int) // how many there are, and the number of this one on its machine
	Warn(text string)              // of a process that is not the main one
	Close(err error)               // ends the run with its error

	// Union adds to a map (given by its address) the entries of the other processes.
	Union(what string, entries any, err error) error
	// Share makes v what the main process has.
	Share(what string, v any) error
	// Same refuses processes for which a fact differs.
	Same(what string, facts func() (map[string]string, error)) error
	// MicroBatch is the number of samples that all processes can run, of batches of a fixed size (0: they differ).
	MicroBatch(n, batch int, warn func(string)) (int, error)

	// Shard gives the parameters that this process updates, or stretches of them.
	Shard(params []optim.Param) []optim.Param
	// Accumulate runs the micro-batches of a step and sums their gradients. failed is the micro-batch of an error.
	Accumulate(ctx context.Context, o *optimizer.Optimizer, b models.MicroBatches) (failed int, err error)
	// Reduce ends the sums of a step, and gives the norm of the gradient.
	Reduce(ctx context.Context, o *optimizer.Optimizer) (norm float64, err error)
	// Update applies the gradients to the parameters of all processes.
	Update(o *optimizer.Optimizer, norm float64, rates []float64) error

	// Round measures a micro-batch of validation rows on each process: measure is given its number. failed is that of an
	// error.
	Round(what string, measure func(i int) (models.Measured, error)) (all []models.Measured, failed int, err error)

	// Due is whether the main process finds a checkpoint due by its clock.
	Due(now bool) (bool, error)
	// Save writes a checkpoint's tensors by write, which one process calls.
	Save(o *optimizer.Optimizer, write checkpoint.WriteFunc) error
	// Tensors is the number of tensors of a checkpoint of which this process has some.
	Tensors(here []checkpoint.Slice) (int, error)
}

// StrategyOpener gives a process its strategy in a run. cancel ends the run as an interrupt would.
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

package train

import (
	"context"
	"fmt"
	"os"

	"assay/internal/exit"
	"assay/internal/mpi"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
	"assay/internal/trainer/distributed"
)

// job is what this process trains together with.
var job ranked

// ranked is a process's place in an MPI job; without one it is alone.
type ranked struct {
	world   *mpi.World
	orderly bool // all ranks come to their end
}

// join takes part in the job that a launcher has begun.
func (j *ranked) join() (err error) {
	j.world, err = mpi.Start(func(lost error) {
		fmt.Fprintf(os.Stderr, "error: %v: the job ends; the last checkpoint is intact\n", lost)
		j.world.Abort(exit.Failed)
	})
	return exit.Usage(err)
}

// strategy is that of the processes that train together; nil: this one is alone.
func (j *ranked) strategy() trainer.StrategyOpener {
	if j.world == nil || j.world.Size() == 1 {
		return nil
	}
	return func(c *config.Config, cancel context.CancelFunc) (trainer.Strategy, error) {
		return distributed.New(j.world, c, cancel)
	}
}

// first tells the rank that speaks for all.
func (j *ranked) first() bool { return j.world == nil || j.world.Rank() == 0 }

// speak decides who tells of an error: the first rank of one that all have, the rank itself of any other.
func (j *ranked) speak(err error) error {
	if j.world == nil {
		return err
	}
	if j.orderly = err == nil || distributed.Agreed(err); !j.orderly {
		return fmt.Errorf("rank %d of %d (%s): %w", j.world.Rank(), j.world.Size(), j.world.Hosts()[j.world.Rank()], err)
	}
	if !j.first() {
		return exit.Elsewhere(err)
	}
	return err
}

// end leaves the job together with all others, or ends it.
func (j *ranked) end(code int) {
	if j.world == nil {
		return
	}
	if !j.orderly {
		j.world.Abort(code)
	}
	if err := j.world.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "warning: leaving the MPI job:", err)
	}
}

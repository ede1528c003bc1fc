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

// job is the MPI job of this process.
var job ranked

// ranked is the place of this process in an MPI job; world is nil if it trains alone.
type ranked struct {
	world   *mpi.World
	orderly bool // all ranks end normally
}

// join joins the MPI job that a launcher started, if there is one.
func (j *ranked) join() (err error) {
	j.world, err = mpi.Start(func(lost error) {
		fmt.Fprintf(os.Stderr, "error: %v: aborting the job; the last checkpoint is intact\n", lost)
		j.world.Abort(exit.Failed)
	})
	return exit.Usage(err)
}

// strategy returns the opener of the distributed strategy; nil: this process trains alone.
func (j *ranked) strategy() trainer.StrategyOpener {
	if j.world == nil || j.world.Size() == 1 {
		return nil
	}
	return func(c *config.Config, cancel context.CancelFunc) (trainer.Strategy, error) {
		return distributed.New(j.world, c, cancel)
	}
}

// first reports whether this is the rank that prints for all.
func (j *ranked) first() bool { return j.world == nil || j.world.Rank() == 0 }

// speak decides which rank reports an error: rank 0 if all ranks have it, otherwise the rank itself.
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

// end leaves the job together with all other ranks, or aborts it.
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

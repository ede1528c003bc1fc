// Package mpi lets the processes of one job communicate through MPI: a few collective calls over libmpi (Open MPI,
// MPICH), behind the build tag mpi. Without the tag there is one process, and libmpi is not linked.
//
// No call blocks inside the library: each is started, and polled until it completes, so that a waiting rank leaves
// its core to others. Meanwhile rank 0 and the other ranks exchange heartbeats: a rank that dies or is stopped is
// reported within [Silence].
package mpi

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// Silence is how long a rank may be silent. The environment variable ASSAY_MPI_SILENCE (seconds) overrides it.
const Silence = 40 * time.Second

// launched returns the number of processes that a launcher (mpirun, srun) started together, including this one,
// according to the environment; 0: no launcher.
func launched() int {
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"} { // Open MPI; MPICH, and SLURM's PMI-1 and -2
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
	}
	if os.Getenv("PMIX_RANK") != "" { // srun --mpi=pmix, PRRTE
		if n, err := strconv.Atoi(os.Getenv("SLURM_STEP_NUM_TASKS")); err == nil {
			return n
		}
		return 1
	}
	return 0
}

// placed returns the offsets of the concatenated data of ranks, and the end. MPI counts in 32 bits.
func placed(what string, sizes []uint32) (starts []int, err error) {
	starts = make([]int, len(sizes)+1)
	for i, n := range sizes {
		starts[i+1] = starts[i] + int(n)
	}
	if total := starts[len(sizes)]; total > math.MaxInt32 {
		return nil, fmt.Errorf("%s: the ranks have %d bytes in total, MPI can gather at most %d", what, total, math.MaxInt32)
	}
	return starts, nil
}

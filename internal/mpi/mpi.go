// Package mpi lets the processes of one job speak to each other through MPI: a few collective calls over libmpi (Open
// MPI, MPICH), behind the build tag mpi. Without the tag there is one process, and nothing is linked.
//
// No call blocks inside the library: each is begun, and asked about until it is done, so that a rank which waits leaves
// its core to others. Meanwhile all ranks and rank 0 send each other signs of life: a rank that dies or is stopped is
// named within [Silence].
package mpi

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// Silence is how long nothing may be heard of a rank. The environment variable ASSAY_MPI_SILENCE (seconds) is another.
const Silence = 40 * time.Second

// launched is the number of processes that a launcher (mpirun, srun) has started together with this one, as the
// environment says; 0: it does not.
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

// placed gives where the data of ranks begin that lie one behind the other, and where they end. MPI counts in 32 bits.
func placed(what string, sizes []uint32) (starts []int, err error) {
	starts = make([]int, len(sizes)+1)
	for i, n := range sizes {
		starts[i+1] = starts[i] + int(n)
	}
	if total := starts[len(sizes)]; total > math.MaxInt32 {
		return nil, fmt.Errorf("%s: the ranks have %d bytes together, MPI can gather %d", what, total, math.MaxInt32)
	}
	return starts, nil
}

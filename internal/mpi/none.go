//go:build !mpi

package mpi

import "fmt"

// World is the ranks of the job. Without the build tag mpi there are none.
type World struct{}

// Start joins the job that a launcher started; nil if the process is alone. Without MPI, several processes are an
// error.
func Start(func(error)) (*World, error) {
	if n := launched(); n > 1 {
		return nil, fmt.Errorf("a launcher started %d processes together, but this program was built without MPI: build it "+
			"with make mpi (build/mpi/bin)", n)
	}
	return nil, nil
}

// Rank returns the rank of this process.
func (*World) Rank() int { return 0 }

// Size returns the number of processes.
func (*World) Size() int { return 1 }

// Local returns the index of this process on its machine.
func (*World) Local() int { return 0 }

// Hosts returns the host names, by rank.
func (*World) Hosts() []string { return []string{""} }

// Doing records what this process is doing.
func (*World) Doing(string) {}

// Lost sets a function that is called when a rank has died.
func (*World) Lost(func(error)) {}

// Gather returns the data of all ranks to every rank.
func (*World) Gather(_ string, mine []byte) ([][]byte, error) { return [][]byte{mine}, nil }

// Deal sends rank k the k-th slice of the values of the first ranks.
func (*World) Deal(values, slices []float32, _ int) error { copy(slices, values); return nil }

// Collect concatenates the slices of all ranks, on every rank.
func (*World) Collect(slice, values []float32) error { copy(values, slice); return nil }

// Sum adds up the values of all ranks, in the library's order.
func (*World) Sum([]float32) error { return nil }

// Abort ends all processes of the job.
func (*World) Abort(int) {}

// Close leaves the job cleanly.
func (*World) Close() error { return nil }

//go:build !mpi

package mpi

import "fmt"

// World is the ranks of the job. Without the build tag mpi there is none.
type World struct{}

// Start joins the job that a launcher has begun; nil if the process is alone. It is an error to be one of several
// without being able to speak to them.
func Start(func(error)) (*World, error) {
	if n := launched(); n > 1 {
		return nil, fmt.Errorf("a launcher started %d processes together, and this program is built without MPI: build it "+
			"with make mpi (build/mpi/bin)", n)
	}
	return nil, nil
}

// Rank is the number of this process.
func (*World) Rank() int { return 0 }

// Size is the number of processes.
func (*World) Size() int { return 1 }

// Local is the number of this process among those on its machine.
func (*World) Local() int { return 0 }

// Hosts are the names of the machines, by rank.
func (*World) Hosts() []string { return []string{""} }

// Doing notes what this process is at.
func (*World) Doing(string) {}

// Lost has a function told of a rank that has died.
func (*World) Lost(func(error)) {}

// Gather gives every rank the data of all.
func (*World) Gather(_ string, mine []byte) ([][]byte, error) { return [][]byte{mine}, nil }

// Deal gives rank k the k-th slices of values of the first ranks.
func (*World) Deal(values, slices []float32, _ int) error { copy(slices, values); return nil }

// Collect gives every rank the slices of all, one behind the other.
func (*World) Collect(slice, values []float32) error { copy(values, slice); return nil }

// Sum adds up the values of all ranks, in the library's own order.
func (*World) Sum([]float32) error { return nil }

// Abort ends all processes of the job.
func (*World) Abort(int) {}

// Close leaves the job in an orderly way.
func (*World) Close() error { return nil }

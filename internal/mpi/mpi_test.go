package mpi

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestLaunched(t *testing.T) {
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"} {
		t.Setenv(name, "")
	}
	check := func(want int, set ...string) {
		t.Helper()
		for i := 0; i < len(set); i += 2 {
			t.Setenv(set[i], set[i+1])
		}
		if n := launched(); n != want {
			t.Errorf("%v: %d processes, want %d", set, n, want)
		}
		for i := 0; i < len(set); i += 2 {
			t.Setenv(set[i], "")
		}
	}
	check(0)
	check(0, "SLURM_STEP_NUM_TASKS", "4") // a script of a batch job, not srun
	check(4, "PMIX_RANK", "3", "SLURM_STEP_NUM_TASKS", "4")
	check(2, "OMPI_COMM_WORLD_SIZE", "2")
	check(8, "PMI_SIZE", "8")
}

func TestPlaced(t *testing.T) {
	if starts, err := placed("rows", []uint32{1 << 30, 0, 1<<30 - 1}); err != nil ||
		!slices.Equal(starts, []int{0, 1 << 30, 1 << 30, math.MaxInt32}) {
		t.Errorf("placed: got %v, %v, want the ranks' first rows up to %d", starts, err, math.MaxInt32)
	}
	for _, sizes := range [][]uint32{{1 << 30, 1 << 30}, {1 << 31}, {math.MaxUint32, math.MaxUint32}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			if _, err := placed("rows", sizes); err == nil || !strings.Contains(err.Error(), "rows: the ranks have") {
				t.Errorf("%v: got error %v, want one with %q", sizes, err, "rows: the ranks have")
			}
		})
	}
}

package shards

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Ref selects the shards of a worker. The zero Ref is no sharding.
type Ref struct {
	Index int // from 1; 0: any free shards, until all are done
	Count int
}

func (r Ref) String() string {
	switch {
	case r.Count == 0:
		return "all"
	case r.Index == 0:
		return fmt.Sprintf("any/%d", r.Count)
	}
	return fmt.Sprintf("%d/%d", r.Index, r.Count)
}

const usage = "want i/n (1/8 to 8/8), any/n (any free shards, until all are done), auto (the number that the " +
	"launcher gives this process) or auto/n"

// Parse parses "3/8"; "any/8"; "auto", or "auto/8" if the launcher does not set the number of shards. Only auto reads
// the environment.
func Parse(text string) (Ref, error) { return parse(text, os.Getenv) }

func parse(text string, env func(string) string) (Ref, error) {
	if text == "" {
		return Ref{}, nil
	}
	which, of, cut := strings.Cut(text, "/")
	count := 0
	if cut {
		var err error
		if count, err = strconv.Atoi(of); err != nil || count < 1 || count > maxCount {
			return Ref{}, fmt.Errorf("%s, with n from 1 to %d, not %q", usage, maxCount, text)
		}
	}
	switch {
	case which == "auto":
		return launcher(count, env)
	case which == "any" && cut:
		return Ref{0, count}, nil
	}
	i, err := strconv.Atoi(which)
	if err != nil || !cut || i < 1 || i > count {
		return Ref{}, fmt.Errorf("%s, not %q", usage, text)
	}
	return Ref{i, count}, nil
}

// maxCount limits the number of shards: each is a few files in a folder.
const maxCount = 100_000

// number is the index of a process among its kind, from 0.
type number struct{ index, count int }

// launcher returns the number that the launcher assigns to this process: among the processes of an MPI job or a SLURM
// step, and the tasks of a SLURM array or a Kubernetes indexed job. count is the user's number of shards; 0: not
// given.
func launcher(count int, env func(string) string) (Ref, error) {
	inner, within := processes(env)
	outer, err := tasks(count, inner.count, env)
	if err != nil {
		return Ref{}, err
	}
	if outer.count == 0 && !within {
		return Ref{}, fmt.Errorf("--shard auto: no launcher found that numbers this process (mpirun, srun, a SLURM " +
			"array or a Kubernetes indexed job): use i/n")
	}
	if outer.count == 0 {
		outer = number{0, 1}
	}
	r := Ref{outer.index*inner.count + inner.index + 1, outer.count * inner.count}
	if count > 0 && r.Count != count {
		return Ref{}, fmt.Errorf("--shard auto/%d: the launcher has %d processes", count, r.Count)
	}
	return r, nil
}

// processes returns the number of this process in an MPI job or a SLURM step.
func processes(env func(string) string) (n number, found bool) {
	for _, names := range [][2]string{
		{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, // Open MPI
		{"PMI_RANK", "PMI_SIZE"},                         // MPICH
		{"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},            // srun --mpi=pmix
		{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},         // srun
	} {
		i, errI := strconv.Atoi(env(names[0]))
		c, errC := strconv.Atoi(env(names[1]))
		if errI == nil && errC == nil && i >= 0 && i < c {
			return number{i, c}, true
		}
	}
	return number{0, 1}, false
}

// tasks returns the number of this task in an array or an indexed job with this number of processes per task.
func tasks(count, processes int, env func(string) string) (number, error) {
	if id := env("SLURM_ARRAY_TASK_ID"); id != "" {
		return arrayTask(id, count, processes, env)
	}
	if id := env("JOB_COMPLETION_INDEX"); id != "" { // from 0; Kubernetes does not pass the total
		i, err := strconv.Atoi(id)
		if err != nil || i < 0 {
			return number{}, fmt.Errorf("--shard auto: JOB_COMPLETION_INDEX is %q", id)
		}
		if n := count / processes; n > 0 && count%processes == 0 && i >= n {
			return number{}, fmt.Errorf("--shard auto/%d: this is index %d of a Kubernetes job, which has more than the %d "+
				"completions required", count, i, n)
		}
		if count == 0 || count%processes != 0 {
			return number{}, fmt.Errorf("--shard auto: this is index %d of a Kubernetes job, which does not pass the total: "+
				"use auto/n, where n is completions times processes per completion", i)
		}
		return number{i, count / processes}, nil
	}
	return number{}, nil
}

// arrayTask requires an array that is numbered from 1: in other arrays, or in a part that is resubmitted, the shard
// of a task is ambiguous.
func arrayTask(id string, count, processes int, env func(string) string) (number, error) {
	i, err := strconv.Atoi(id)
	n := count / processes
	if count == 0 {
		first, last := env("SLURM_ARRAY_TASK_MIN"), env("SLURM_ARRAY_TASK_MAX")
		size, errSize := strconv.Atoi(env("SLURM_ARRAY_TASK_COUNT"))
		if err != nil || errSize != nil || first != "1" || last != strconv.Itoa(size) {
			return number{}, fmt.Errorf("--shard auto: the SLURM array has the tasks %s to %s, want all starting at 1 "+
				"(--array=1-n); for a part of them use auto/n", first, last)
		}
		n = size
	}
	if err != nil || i < 1 || i > n {
		return number{}, fmt.Errorf("--shard auto: task %s of the SLURM array is not one of 1 to %d (use --array=1-%d)",
			id, n, n)
	}
	return number{i - 1, n}, nil
}

//go:build mpi

package mpi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const childEnv = "ASSAY_MPI_CHILD"

// TestMain lets the test binary act as a rank.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := rank(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// rank makes every call, and checks the results.
func rank() error {
	w, err := Start(func(lost error) { panic(lost) })
	if err != nil {
		return err
	}
	me, n := w.Rank(), w.Size()
	if w.Local() != me || len(w.Hosts()) != n {
		return fmt.Errorf("rank %d is number %d of %v", me, w.Local(), w.Hosts())
	}
	said, err := w.Gather("words", []byte(strings.Repeat("x", me*1000)))
	for i := range said {
		if len(said[i]) != i*1000 {
			err = errors.Join(err, fmt.Errorf("rank %d says %d bytes", i, len(said[i])))
		}
	}
	const part = 100_000 // elements of a rank
	values, first := make([]float32, part*n), max(1, n-1)
	for i := range values {
		values[i] = float32(me + i/part)
	}
	slices := make([]float32, part*first)
	err = errors.Join(err, w.Deal(values, slices, first))
	for i, v := range slices {
		if v != float32(i/part+me) {
			return errors.Join(err, fmt.Errorf("rank %d was dealt %v at %d", me, v, i))
		}
	}
	err = errors.Join(err, w.Collect(slices[:part], values))
	for i, v := range values {
		if v != float32(i/part) {
			return errors.Join(err, fmt.Errorf("rank %d collected %v at %d", me, v, i))
		}
	}
	err = errors.Join(err, w.Sum(values))
	for i, v := range values {
		if v != float32(n*(i/part)) {
			return errors.Join(err, fmt.Errorf("the sum is %v at %d", v, i))
		}
	}
	var apart *outOfStepError
	if _, e := w.Gather(fmt.Sprint("place ", min(me, 1)), nil); !errors.As(e, &apart) {
		err = errors.Join(err, fmt.Errorf("rank %d does not notice that others are elsewhere: %v", me, e))
	}
	if err == nil {
		fmt.Println("rank", me, "of", n, "is well")
	}
	return errors.Join(err, w.Close())
}

// TestMPICalls: data exchanged between ranks arrives. MPIRUN names a launcher other than mpirun.
func TestMPICalls(t *testing.T) {
	launcher, err := exec.LookPath(cmp.Or(os.Getenv("MPIRUN"), "mpirun"))
	if err != nil {
		t.Skip("SKIPPED: mpirun is not installed (openmpi-bin): MPI was NOT tested")
	}
	var more []string
	if version, _ := exec.Command(launcher, "--version").Output(); bytes.Contains(version, []byte("Open MPI")) {
		more = []string{"--oversubscribe", "--allow-run-as-root", "--bind-to", "none"}
	}
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
			c := exec.Command(launcher, append(append([]string{"-n", fmt.Sprint(n)}, more...), os.Args[0])...)
			c.Env = append(os.Environ(), childEnv+"=1")
			text, err := c.CombinedOutput()
			if err != nil || strings.Count(string(text), "is well") != n {
				t.Errorf("%d ranks: got %v: %s, want each to say it is well", n, err, text)
			}
		})
	}
}

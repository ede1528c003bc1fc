//go:build mpi

package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/exit"
	"assay/internal/process"
)

// mpiTrain is train started by mpirun.
func mpiTrain(t *testing.T, n int, config string, env ...string) *exec.Cmd {
	t.Helper()
	launcher, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("SKIPPED: mpirun is not installed (openmpi-bin): training by several processes was NOT tested")
	}
	args := []string{"-n", fmt.Sprint(n)}
	if version, _ := exec.Command(launcher, "--version").Output(); bytes.Contains(version, []byte("Open MPI")) {
		args = append(args, "--oversubscribe", "--allow-run-as-root", "--bind-to", "none")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, launcher, append(args, os.Args[0], "--config", config)...)
	c.Env = append(append(os.Environ(), childEnv+"=1"), env...)
	return c
}

const mpiRun = "mode: lora\nsteps: 6\nmicro_batch: 1\naugment: adiee\nlora: {dropout: 0.1}\n" +
	"optimizer: {lr: 1.0e-3}\ncheckpoint: {steps: 2, keep: 2}\nthreads: 1\n"

var mpiSeconds = regexp.MustCompile(`"(seconds|waited)":[0-9.e-]+`) // measured times

// result has what must not depend on the number of ranks: the scorer's files and the metrics.
func result(t *testing.T, out string) map[string]string {
	t.Helper()
	files := sums(t, filepath.Join(out, "scorer"))
	text, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	files["metrics"] = mpiSeconds.ReplaceAllString(string(text), "")
	return files
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d files, want %d", what, len(got), len(want))
	}
}

// alone trains with one process. It returns the result, and a function that configures the same run under another
// name.
func alone(t *testing.T, extra string) (want map[string]string, again func(name string) (config, out string)) {
	t.Helper()
	config, out := writeRun(t, extra)
	if text, err := train(config).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	return result(t, out), func(name string) (string, string) {
		path := filepath.Join(filepath.Dir(config), name+".yaml")
		err := os.WriteFile(path, bytes.Replace(text, []byte("out: out\n"), []byte("out: "+name+"\n"), 1), 0o666)
		if err != nil {
			t.Fatal(err)
		}
		return path, filepath.Join(filepath.Dir(config), name)
	}
}

// TestMPIEqualsOneProcess: losses and final bytes of 2 and 3 ranks equal those of one process.
func TestMPIEqualsOneProcess(t *testing.T) {
	want, again := alone(t, mpiRun)
	for _, n := range []int{2, 3} {
		config, out := again(fmt.Sprint("ranks", n))
		if text, err := mpiTrain(t, n, config).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		same(t, fmt.Sprint(n, " ranks"), result(t, out), want)
	}
}

// TestMPISharesTheOptimizer: with every weight trained, each rank keeps its part of the optimizer's state. The final
// bytes and the full checkpoint equal those of one process. Another number of ranks resumes from one of their
// checkpoints.
func TestMPISharesTheOptimizer(t *testing.T) {
	full := strings.NewReplacer("mode: lora", "mode: full", "lora: {dropout: 0.1}\n", "",
		"lr: 1.0e-3", "name: adamw_8bit, lr: 1.0e-3").Replace(mpiRun)
	want, again := alone(t, full)
	config, out := again("alone")
	if text, err := train(config).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	whole := sums(t, filepath.Join(out, "checkpoints", "step-6"))["state.safetensors"]
	if whole == "" {
		t.Fatal("there is no checkpoint")
	}
	for _, n := range []int{2, 3} {
		config, out := again(fmt.Sprint("ranks", n))
		if text, err := mpiTrain(t, n, config).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		same(t, fmt.Sprint(n, " ranks"), result(t, out), want)
		checkpoints := filepath.Join(out, "checkpoints")
		if got := sums(t, filepath.Join(checkpoints, "step-6"))["state.safetensors"]; got != whole {
			t.Errorf("%d ranks: another state is saved", n)
		}
		if err := os.RemoveAll(filepath.Join(checkpoints, "step-6")); err != nil { // as if killed after step 4
			t.Fatal(err)
		}
		if text, err := mpiTrain(t, 4-n, config).CombinedOutput(); err != nil { // 2 or 1
			t.Fatalf("%v: %s", err, text)
		}
		same(t, fmt.Sprint(n, " ranks, resumed"), result(t, out), want)
	}
}

// pids waits until all ranks train, and returns their process ids.
func pids(t *testing.T, out string, n int) (ids []int) {
	t.Helper()
	for range 600 {
		ids = nil
		for i := range n {
			text, _ := os.ReadFile(filepath.Join(out, "ranks", fmt.Sprintf("rank-%04d.log", i)))
			var line struct{ PID int }
			first, rest, _ := bytes.Cut(text, []byte("\n"))
			if json.Unmarshal(first, &line) == nil && bytes.Contains(rest, []byte(`"msg":"step"`)) {
				ids = append(ids, line.PID)
			}
		}
		if len(ids) == n {
			return ids
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the ranks do not train")
	return nil
}

// TestMPIRankIsLost: a killed or stopped rank ends the job. The rank and the reason are reported, and one process
// resumes from the last checkpoint to the same bytes.
func TestMPIRankIsLost(t *testing.T) {
	long := strings.Replace(mpiRun, "steps: 6", "steps: 40", 1)
	want, again := alone(t, long)
	for what, with := range map[string]syscall.Signal{"rank 1": syscall.SIGSTOP, "signal 9": syscall.SIGKILL} {
		config, out := again(fmt.Sprint("lost", int(with)))
		c := mpiTrain(t, 2, config, "ASSAY_MPI_SILENCE=4")
		var text bytes.Buffer
		c.Stdout, c.Stderr = &text, &text
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pids(t, out, 2)[1], with); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := c.Wait()
		if err == nil || time.Since(began) > time.Minute || !strings.Contains(text.String(), what) {
			t.Errorf("%v: after %v %v: %s", with, time.Since(began), err, &text)
		}
		t.Logf("%v: the job ended after %v", with, time.Since(began).Round(time.Second))
		if text, err := train(config).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		same(t, with.String(), result(t, out), want)
	}
}

// TestMPIDeadRankIsNamed: if mpirun waits for a minute at a time, as in docs/scale.md, it does not report a rank that
// died, and forwards no output for two minutes. The other ranks name it in their logs and end.
func TestMPIDeadRankIsNamed(t *testing.T) {
	config, out := writeRun(t, strings.Replace(mpiRun, "steps: 6", "steps: 1000", 1))
	c := mpiTrain(t, 3, config, "OMPI_MCA_odls_base_sigkill_timeout=60", "OMPI_MCA_orte_tmpdir_base="+t.TempDir())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	ids := pids(t, out, 3)
	if err := syscall.Kill(ids[2], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	space := process.Self()
	for i, id := range ids[:2] {
		var text []byte
		ended := false
		for range 300 { // less than the time after which a silent rank counts as lost
			text, _ = os.ReadFile(filepath.Join(out, "ranks", fmt.Sprintf("rank-%04d.log", i)))
			space.PID = id
			if ended = space.Gone(); ended && bytes.Contains(text, []byte("rank 2 (")) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if want := fmt.Sprintf("has died: process %d has ended", ids[2]); !bytes.Contains(text, []byte(want)) || !ended {
			t.Errorf("rank %d has ended: %v, want true; want its log to say %q, got %.400s", i, ended, want,
				text[max(0, len(text)-400):])
		}
	}
}

// TestMPISilence: an invalid time is refused, not ignored.
func TestMPISilence(t *testing.T) {
	_, again := alone(t, mpiRun)
	config, _ := again("silence")
	for _, wrong := range []string{"10s", "0", "NaN"} {
		text, err := mpiTrain(t, 2, config, "ASSAY_MPI_SILENCE="+wrong).CombinedOutput()
		if err == nil || !strings.Contains(string(text), "ASSAY_MPI_SILENCE="+wrong+": want seconds") {
			t.Errorf("%s: %v: %s", wrong, err, text)
		}
	}
}

// TestMPIInterrupt: SIGTERM to one rank saves, and all end with exit code 3; another number of ranks resumes.
func TestMPIInterrupt(t *testing.T) {
	long := strings.Replace(mpiRun, "steps: 6", "steps: 30", 1)
	want, again := alone(t, long)
	config, out := again("interrupted")
	c := mpiTrain(t, 2, config)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pids(t, out, 2)[1], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exit.Interrupted ||
		strings.Count(text.String(), "state saved") != 1 {
		t.Fatalf("%v: %s", err, &text)
	}
	if text, err := mpiTrain(t, 3, config).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	same(t, "resumed", result(t, out), want)
}

// TestMPIRefusesOthers: a rank with a different table is refused and named, with exit code 2.
func TestMPIRefusesOthers(t *testing.T) {
	config, _ := writeRun(t, mpiRun)
	text, err := os.ReadFile(config)
	other := strings.Replace(config, "run.yaml", "other.yaml", 1)
	if err == nil {
		err = os.WriteFile(other, bytes.Replace(text, []byte("1.0e-3"), []byte("2.0e-3"), 1), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := mpiTrain(t, 1, config)
	at := len(c.Args) - 3 // program and its arguments
	c.Args = append(c.Args, ":", "-n", "1", c.Args[at], "--config", other)
	text, _ = c.CombinedOutput()
	if c.ProcessState.ExitCode() != exit.Wrong || !strings.Contains(string(text), "rank 1 (") ||
		!strings.Contains(string(text), "optimizer.lr") {
		t.Errorf("exit code %d: %s", c.ProcessState.ExitCode(), text)
	}
}

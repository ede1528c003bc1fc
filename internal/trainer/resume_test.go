package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
)

func child(t *testing.T, path string, slow int) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), "ASSAY_TRAINER_CHILD="+path, fmt.Sprint("ASSAY_TRAINER_SLOW=", slow))
	c.Stderr = os.Stderr
	return c
}

// killedUntilTheEnd starts a run repeatedly, and kills it after a wait that grows with each kill, until it finishes.
// There must be at least three kills.
func killedUntilTheEnd(
	t *testing.T, path string, slow int, wait func(before time.Duration, kills int) time.Duration,
) int {
	t.Helper()
	kills := 0
	for after := wait(0, 0); ; after = wait(after, kills) {
		c := child(t, path, slow)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(after, func() { c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if kills++; kills > 60 {
			t.Fatal("the run does not come to its end")
		}
	}
	if kills < 3 {
		t.Errorf("got %d kills, want at least 3", kills)
	}
	return kills
}

// TestKilledRunsEndTheSame repeatedly kills a run with SIGKILL during its steps, saves and validations, and compares
// it with an undisturbed one.
func TestKilledRunsEndTheSame(t *testing.T) {
	extra := "epochs: 4\nvalidate: {every: 5}\ncheckpoint: {steps: 3, keep: 2}\naugment: adiee\n"
	quiet := writeRun(t, 60, extra)
	if err := child(t, quiet, 0).Run(); err != nil {
		t.Fatal(err)
	}
	want := outcome(t, quiet)
	killed := writeRun(t, 60, extra)
	kills := killedUntilTheEnd(t, killed, 2, func(before time.Duration, kills int) time.Duration {
		if kills == 0 {
			return 30 * time.Millisecond
		}
		return before*21/16 + time.Duration(kills%3)*7*time.Millisecond
	})
	if d := cmp.Diff(want, outcome(t, killed)); d != "" {
		t.Errorf("after %d kills: %s", kills, d)
	}
}

func TestInterruptSavesAndGoesOn(t *testing.T) {
	extra := "epochs: 3\nvalidate: {every: 4}\n"
	quiet := writeRun(t, 40, extra)
	train(t, quiet, newFake())
	path := writeRun(t, 40, extra)
	ctx, cancel := context.WithCancel(context.Background())
	f := newFake()
	f.steps = func(n int) {
		if n == 13 { // the first half of step 7
			cancel()
		}
	}
	_, err := Train(ctx, Options{Config: load(t, path), Factory: f.factory})
	if exit.Code(err) != exit.Interrupted || !strings.Contains(err.Error(), "step 7 of") {
		t.Fatal(err)
	}
	r := train(t, path, newFake())
	if r.Resumed != 7 {
		t.Error("resumed from", r.Resumed)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
	if r := train(t, path, newFake()); r.Resumed != r.Steps { // a finished run does not change
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

// TestInheritedScheduleIsCompared: values that a group's schedule inherits from schedule are compared as if they were
// set in the group.
func TestInheritedScheduleIsCompared(t *testing.T) {
	write := func(path, group string) string {
		text := mustRead(t, path)
		_, rest, _ := strings.Cut(text, "batch_size:")
		head, _, _ := strings.Cut(text, "optimizer:")
		text = head + "optimizer: {lr: 0.01, groups: {head: {lr: 0.02, schedule: {" + group + "}}}}\n" +
			"schedule: {kind: cosine, min_lr: 0.001, warmup: 3}\nbatch_size:" + rest
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write(writeRun(t, 40, "epochs: 3\n"), "kind: linear, warmup: 0")
	train(t, path, newFake())
	write(path, "kind: linear")
	_, err := Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory})
	const want = "optimizer.groups.head.schedule.warmup: 0 in the checkpoint, 3 now"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("warmup left out: error %v, want %q", err, want)
	}
	write(path, "kind: linear, warmup: 0, min_lr: 0.001")
	if r, err := Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory}); err != nil ||
		r.Resumed == 0 {
		t.Errorf("min_lr as it was inherited: got %+v, error %v, want a resumed run", r, err)
	}
}

func TestInterruptFromOutside(t *testing.T) {
	path := writeRun(t, 60, "epochs: 100\n")
	c := child(t, path, 3)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	metrics := filepath.Join(filepath.Dir(path), "out", records.MetricsFile)
	for range 500 { // until it trains
		if info, err := os.Stat(metrics); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exit.Interrupted {
		t.Fatal("the child ended with", err)
	}
	if s, _, _, err := checkpoint.Find(filepath.Join(filepath.Dir(path), "out")); err != nil || s == nil || s.Step == 0 {
		t.Errorf("state %+v, %v", s, err)
	}
}

func TestResumeRefusesWhatDiffers(t *testing.T) {
	extra := "steps: 6\n"
	path := writeRun(t, 40, extra)
	train(t, path, newFake())
	try := func(name, want string, change func(c *config.Config, f *fake)) {
		t.Helper()
		c, f := load(t, path), newFake()
		change(c, f)
		_, err := Train(context.Background(), Options{Config: c, Factory: f.factory})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	try("nothing", "", func(*config.Config, *fake) {})
	try("keep", "", func(c *config.Config, _ *fake) { c.Checkpoint.Keep = 5; c.Cache.Vision = config.Disk })
	try("lr", "optimizer.lr: 0.01 in the checkpoint, 0.02 now", func(c *config.Config, _ *fake) { c.Optimizer.LR = 0.02 })
	try(
		"backbone",
		"model: backbone: fake in the checkpoint, other now",
		func(_ *config.Config, f *fake) { f.print = map[string]string{"backbone": "other"} },
	)
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	rows, _ := os.ReadFile(table)
	if err := os.WriteFile(table, bytes.Replace(rows, []byte("do thing 7"), []byte("do thing 8"), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	try("data", "data: train content: ", func(*config.Config, *fake) {})
	if err := os.WriteFile(table, rows, 0o666); err != nil {
		t.Fatal(err)
	}

	// if forced, it resumes, and reports the differences
	c, f := load(t, path), newFake()
	c.Steps = 9
	warned := ""
	r, err := Train(
		context.Background(),
		Options{Config: c, Factory: f.factory, Force: true, Warn: func(s string) { warned += s }},
	)
	if err != nil || r.Steps != 9 || r.Resumed != 6 || !strings.Contains(warned, "steps: 6 in the checkpoint, 9 now") {
		t.Errorf("%+v %v %q", r, err, warned)
	}
	// a run that cannot start over leaves the old one in place
	c = load(t, path)
	broken := func(context.Context, *config.Config) (models.Model, error) {
		return nil, errors.New("no such backbone")
	}
	if _, err = Train(context.Background(), Options{Config: c, Factory: broken, Fresh: true}); err == nil {
		t.Error("no error")
	}
	for _, name := range []string{config.CheckpointsDir, config.ScorerDir, records.MetricsFile} {
		if _, err := os.Stat(filepath.Join(c.Out, name)); err != nil {
			t.Error("--fresh removed the old run for nothing:", err)
		}
	}
	// started over, it is the same as the first time
	c = load(t, path)
	if r, err = Train(
		context.Background(),
		Options{Config: c, Factory: newFake().factory, Fresh: true},
	); err != nil || r.Resumed != 0 ||
		r.Steps != 6 {
		t.Errorf("%+v %v", r, err)
	}
	other := writeRun(t, 40, extra)
	if _, err := Train(
		context.Background(),
		Options{Config: load(t, other), Factory: newFake().factory, Resume: true},
	); exit.Code(
		err,
	) != exit.Wrong {
		t.Error("--resume without a checkpoint:", err)
	}
}

func TestDamagedCheckpointIsPassedOver(t *testing.T) {
	extra := "steps: 9\ncheckpoint: {steps: 3}\n"
	quiet, path := writeRun(t, 40, extra), writeRun(t, 40, extra)
	train(t, quiet, newFake())
	train(t, path, newFake())
	file := filepath.Join(filepath.Dir(path), "out", config.CheckpointsDir, "step-9", checkpoint.TensorFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(file, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	warned := ""
	r, err := Train(
		context.Background(),
		Options{Config: load(t, path), Factory: newFake().factory, Warn: func(s string) { warned += s }},
	)
	if err != nil || r.Resumed != 6 || !strings.Contains(warned, "step-9") {
		t.Errorf("%+v %v %q", r, err, warned)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

// TestFullDisk limits the size of files, so that writes fail in the middle as on a full disk.
func TestFullDisk(t *testing.T) {
	extra := "epochs: 4\ncheckpoint: {steps: 3}\n"
	quiet, path := writeRun(t, 60, extra), writeRun(t, 60, extra)
	train(t, quiet, newFake())
	c := child(t, path, 0)
	c.Env = append(c.Env, "ASSAY_TRAINER_FILE_LIMIT=4096")
	var said bytes.Buffer
	c.Stderr = &said
	err := c.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exit.Failed || !strings.Contains(said.String(), "intact") {
		t.Fatalf("the child ended with %v and said %q", err, said.String())
	}
	if s, _, problem, err := checkpoint.Find(
		filepath.Join(filepath.Dir(path), "out"),
	); err != nil || problem != nil ||
		s.Step < 3 {
		t.Fatalf("state %+v, %v, %v", s, problem, err)
	}
	train(t, path, newFake())
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

func TestUnwritableFolder(t *testing.T) {
	path := writeRun(t, 40, "steps: 2\n")
	c := load(t, path)
	c.Out = filepath.Join(path, "below a file")
	if _, err := Train(
		context.Background(),
		Options{Config: c, Factory: newFake().factory},
	); err == nil ||
		!strings.Contains(err.Error(), c.Out) {
		t.Error(err)
	}
	// a checkpoint that cannot be written leaves the previous one
	c = load(t, path)
	f := newFake()
	c.Steps, c.Checkpoint.Steps = 8, 2
	checkpoints := filepath.Join(c.Out, config.CheckpointsDir)
	f.steps = func(n int) {
		if n == 7 { // two micro-batches a step: after the checkpoint of step 2
			if err := errors.Join(
				os.Rename(checkpoints, checkpoints+".aside"),
				os.WriteFile(checkpoints, nil, 0o666),
			); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Train(
		context.Background(),
		Options{Config: c, Factory: f.factory},
	); err == nil ||
		!strings.Contains(err.Error(), "checkpoint step-4") {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(checkpoints), os.Rename(checkpoints+".aside", checkpoints)); err != nil {
		t.Fatal(err)
	}
	r, err := Train(context.Background(), Options{Config: c, Factory: newFake().factory})
	if err != nil || r.Resumed != 2 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	long.Test(t) // it waits
	path := writeRun(t, 40, "steps: 2\n")
	c := load(t, path)
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		t.Fatal(err)
	}
	held, err := checkpoint.Lock(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Train(
		context.Background(),
		Options{Config: c, Factory: newFake().factory},
	); err == nil ||
		!strings.Contains(err.Error(), "another process trains") {
		t.Error(err)
	}
	held.Close()
	train(t, path, newFake())
}

// TestLocksThatKeepNobodyOut: if a second process gets the lock as well, as on some network file systems, the first one
// ends at its next checkpoint, and what the second one saved stays.
func TestLocksThatKeepNobodyOut(t *testing.T) {
	path, quiet := writeRun(t, 40, "steps: 9\ncheckpoint: {steps: 3}\n"), writeRun(t, 40, "steps: 9\n")
	out := load(t, path).Out
	first := newFake()
	first.steps = func(done int) {
		if done == 5 {
			if err := os.Remove(filepath.Join(out, ".lock")); err != nil { // the file of the second one is another
				t.Error(err)
			}
			train(t, path, newFake())
		}
	}
	_, err := Train(context.Background(), Options{Config: load(t, path), Factory: first.factory})
	host, _ := os.Hostname()
	want := fmt.Sprintf("another process trains in %s as well (process %d on %s, since ", out, os.Getpid(), host)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the first process: got %v, want %q", err, want)
	}
	train(t, quiet, newFake())
	if d := cmp.Diff(outcome(t, quiet)[:2], outcome(t, path)[:2]); d != "" {
		t.Error(d)
	}
}

// TestNothingIsLeftOfKilledRuns: files and folders left by a SIGKILL are removed at the next start, and a folder that
// was just moved away is restored.
func TestNothingIsLeftOfKilledRuns(t *testing.T) {
	path := writeRun(t, 40, "steps: 4\n")
	train(t, path, newFake())
	out := filepath.Join(filepath.Dir(path), "out")
	for _, name := range []string{".config.yaml.ABCDEFGHIJ.tmp", ".plan.json.tmp", "..best.new.ABCDEFGHIJ.tmp/half",
		".scorer.new/half", ".best.old/half"} {
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(filepath.Join(out, name)), 0o777),
			os.WriteFile(filepath.Join(out, name), []byte("x"), 0o666),
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.RemoveAll(filepath.Join(out, ".best.old")),
		os.Rename(filepath.Join(out, config.BestDir), filepath.Join(out, ".best.old")),
	); err != nil {
		t.Fatal(err)
	}
	train(t, path, newFake())
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && e.Name() != ".lock" {
			t.Error("left:", e.Name())
		}
	}
	if _, err := os.Stat(filepath.Join(out, config.BestDir, "weights.txt")); err != nil {
		t.Error(err)
	}
}

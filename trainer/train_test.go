package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/cli"
)

func train(t *testing.T, path string, f *fake) *Result {
	t.Helper()
	r, err := Train(context.Background(), Options{Config: load(t, path), Factory: f.factory})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var seconds = regexp.MustCompile(`"seconds":[0-9.e-]+`)

// outcome is what a run left that must not depend on interruptions: weights, best weights, metrics without times.
func outcome(t *testing.T, path string) []string {
	t.Helper()
	out := filepath.Join(filepath.Dir(path), "out")
	var all []string
	for _, name := range []string{"scorer/weights.txt", "best/weights.txt", "metrics.jsonl"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, seconds.ReplaceAllString(string(text), ""))
	}
	return all
}

func TestTrainLearnsAndRecords(t *testing.T) {
	path := writeRun(t, 60, "epochs: 20\nvalidate: {every: 10}\n")
	f := newFake()
	r := train(t, path, f)
	if r.Steps != 157 || r.Samples != 940 { // 47 labelled training rows, 20 epochs, batches of 6
		t.Errorf("%+v", r)
	}
	var first, last float64
	validations, lines := 0, 0
	text, _ := os.ReadFile(filepath.Join(r.Run, MetricsFile))
	for line := range bytes.Lines(text) {
		var m struct {
			Kind string
			Step int64
			Loss float64
			LR   float64
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind == "validation" {
			validations++
			continue
		}
		lines++
		if m.Step != int64(lines) {
			t.Fatalf("line %d has step %d", lines, m.Step)
		}
		if lines <= 10 {
			first += m.Loss / 10
		} else if m.Step > r.Steps-10 {
			last += m.Loss / 10
		}
	}
	if lines != 157 || validations != 16 {
		t.Errorf("%d steps and %d validations in the metrics", lines, validations)
	}
	if last > 0.75*first {
		t.Errorf("the loss went from %g to %g", first, last)
	}
	card, err := os.ReadFile(filepath.Join(r.Scorer, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| training | 47 | 12 | 11 | 12 | 0 | 12 |", "| validation | 12 |", "1 rows of the training tables have no label", "base_model: backbone", "train: table.jsonl", "table.jsonl."} {
		if !strings.Contains(string(card), want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	if strings.Contains(string(card), filepath.Dir(path)) {
		t.Error("the card tells of folders")
	}
	again, err := Load(filepath.Join(r.Run, ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(load(t, path), again); d != "" {
		t.Error("the resolved configuration reads otherwise:", d)
	}
}

// TestMicroBatchesSumToTheBatch: the gradient is that of the mean over the batch, however it is cut.
func TestMicroBatchesSumToTheBatch(t *testing.T) {
	var want []float32
	for _, micro := range []string{"auto", "1", "2", "6"} {
		path := writeRun(t, 30, "steps: 4\n")
		text, _ := os.ReadFile(path)
		if err := os.WriteFile(path, bytes.Replace(text, []byte("micro_batch: 4"), []byte("micro_batch: "+micro), 1), 0o666); err != nil {
			t.Fatal(err)
		}
		f := newFake()
		f.micro = 3
		c, g := load(t, path), &plain{f}
		if _, err := Train(context.Background(), Options{Config: c, Factory: func(context.Context, *Config) (Model, error) { return g, nil }}); err != nil {
			t.Fatal(err)
		}
		got := f.params[0].Value.Float32s()
		if want == nil {
			want = got
		}
		if d := far(got, want); d > 1e-5 {
			t.Errorf("micro-batch %s: %g from the others", micro, d)
		}
	}
}

// plain is the fake without dropout, which depends on the micro-batch.
type plain struct{ *fake }

func (p *plain) Step(ctx context.Context, batch []Example, weight float64, _ uint64) (*StepResult, error) {
	r := &StepResult{}
	for i := range batch {
		one, err := p.fake.Step(ctx, batch[i:i+1], weight, 5)
		if err != nil {
			return nil, err
		}
		if r.Grads == nil {
			r.Grads = one.Grads
		} else {
			for k, g := range one.Grads {
				for j, v := range g.Float32s() {
					r.Grads[k].Float32s()[j] += v
				}
			}
		}
		r.Loss, r.CE = append(r.Loss, one.Loss...), append(r.CE, one.CE...)
		r.Score, r.ScoreLoss = append(r.Score, one.Score...), append(r.ScoreLoss, one.ScoreLoss...)
	}
	return r, nil
}

func child(t *testing.T, path string, slow int) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), "ASSAY_TRAINER_CHILD="+path, fmt.Sprint("ASSAY_TRAINER_SLOW=", slow))
	c.Stderr = os.Stderr
	return c
}

// TestKilledRunsEndTheSame kills a run with SIGKILL again and again at moments that spread over its steps, saves and
// validations, and compares with an undisturbed one.
func TestKilledRunsEndTheSame(t *testing.T) {
	extra := "epochs: 4\nvalidate: {every: 5}\ncheckpoint: {steps: 3, keep: 2}\naugment: adiee\n"
	quiet := writeRun(t, 60, extra)
	if err := child(t, quiet, 0).Run(); err != nil {
		t.Fatal(err)
	}
	want := outcome(t, quiet)
	killed := writeRun(t, 60, extra)
	kills := 0
	for wait := 30 * time.Millisecond; ; wait = wait*21/16 + time.Duration(kills%3)*7*time.Millisecond {
		c := child(t, killed, 2)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(wait, func() { c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if kills++; kills > 60 {
			t.Fatal("the run does not come to its end")
		}
	}
	if d := cmp.Diff(want, outcome(t, killed)); d != "" {
		t.Errorf("after %d kills: %s", kills, d)
	}
	if kills < 3 {
		t.Errorf("only %d kills", kills)
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
	if cli.ExitCode(err) != cli.Interrupted || !strings.Contains(err.Error(), "step 7 of") {
		t.Fatal(err)
	}
	r := train(t, path, newFake())
	if r.Resumed != 7 {
		t.Error("resumed from", r.Resumed)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
	if r := train(t, path, newFake()); r.Resumed != r.Steps { // a finished run stays as it is
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

func TestInterruptFromOutside(t *testing.T) {
	path := writeRun(t, 60, "epochs: 100\n")
	c := child(t, path, 3)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for range 500 { // until it trains
		if info, err := os.Stat(filepath.Join(filepath.Dir(path), "out", MetricsFile)); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.Interrupted {
		t.Fatal("the child ended with", err)
	}
	if s, _, _, err := findState(filepath.Join(filepath.Dir(path), "out")); err != nil || s == nil || s.Step == 0 {
		t.Errorf("state %+v, %v", s, err)
	}
}

func TestResumeRefusesWhatDiffers(t *testing.T) {
	extra := "steps: 6\n"
	path := writeRun(t, 40, extra)
	train(t, path, newFake())
	try := func(name, want string, change func(c *Config, f *fake)) {
		t.Helper()
		c, f := load(t, path), newFake()
		change(c, f)
		_, err := Train(context.Background(), Options{Config: c, Factory: f.factory})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (cli.ExitCode(err) != cli.Wrong || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	try("nothing", "", func(*Config, *fake) {})
	try("keep", "", func(c *Config, _ *fake) { c.Checkpoint.Keep = 5; c.Cache.Vision = Disk })
	try("lr", "optimizer.lr: 0.01 in the checkpoint, 0.02 now", func(c *Config, _ *fake) { c.Optimizer.LR = 0.02 })
	try("backbone", "model: backbone: fake in the checkpoint, other now", func(_ *Config, f *fake) { f.print = map[string]string{"backbone": "other"} })
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	rows, _ := os.ReadFile(table)
	if err := os.WriteFile(table, bytes.Replace(rows, []byte("do thing 7"), []byte("do thing 8"), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	try("data", "data: train content: ", func(*Config, *fake) {})
	if err := os.WriteFile(table, rows, 0o666); err != nil {
		t.Fatal(err)
	}

	// told to, it goes on, and says what differs
	c, f := load(t, path), newFake()
	c.Steps = 9
	warned := ""
	r, err := Train(context.Background(), Options{Config: c, Factory: f.factory, Force: true, Warn: func(s string) { warned += s }})
	if err != nil || r.Steps != 9 || r.Resumed != 6 || !strings.Contains(warned, "steps: 6 in the checkpoint, 9 now") {
		t.Errorf("%+v %v %q", r, err, warned)
	}
	// begun anew it is the same as the first time
	c = load(t, path)
	if r, err = Train(context.Background(), Options{Config: c, Factory: newFake().factory, Fresh: true}); err != nil || r.Resumed != 0 || r.Steps != 6 {
		t.Errorf("%+v %v", r, err)
	}
	other := writeRun(t, 40, extra)
	if _, err := Train(context.Background(), Options{Config: load(t, other), Factory: newFake().factory, Resume: true}); cli.ExitCode(err) != cli.Wrong {
		t.Error("--resume without a checkpoint:", err)
	}
}

func TestDamagedCheckpointIsPassedOver(t *testing.T) {
	extra := "steps: 9\ncheckpoint: {steps: 3}\n"
	quiet, path := writeRun(t, 40, extra), writeRun(t, 40, extra)
	train(t, quiet, newFake())
	train(t, path, newFake())
	file := filepath.Join(filepath.Dir(path), "out", CheckpointsDir, "step-9", tensorFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(file, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	warned := ""
	r, err := Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory, Warn: func(s string) { warned += s }})
	if err != nil || r.Resumed != 6 || !strings.Contains(warned, "step-9") {
		t.Errorf("%+v %v %q", r, err, warned)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

// TestFullDisk bounds the size of files, which fails writes in the middle as a full disk does.
func TestFullDisk(t *testing.T) {
	extra := "epochs: 4\ncheckpoint: {steps: 3}\n"
	quiet, path := writeRun(t, 60, extra), writeRun(t, 60, extra)
	train(t, quiet, newFake())
	c := child(t, path, 0)
	c.Env = append(c.Env, "ASSAY_TRAINER_FILE_LIMIT=4096")
	var said bytes.Buffer
	c.Stderr = &said
	err := c.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.Failed || !strings.Contains(said.String(), "intact") {
		t.Fatalf("the child ended with %v and said %q", err, said.String())
	}
	if s, _, problem, err := findState(filepath.Join(filepath.Dir(path), "out")); err != nil || problem != nil || s.Step < 3 {
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
	if _, err := Train(context.Background(), Options{Config: c, Factory: newFake().factory}); err == nil || !strings.Contains(err.Error(), c.Out) {
		t.Error(err)
	}
	// a checkpoint that cannot be written leaves the one before
	c = load(t, path)
	f := newFake()
	c.Steps, c.Checkpoint.Steps = 8, 2
	checkpoints := filepath.Join(c.Out, CheckpointsDir)
	f.steps = func(n int) {
		if n == 7 { // two micro-batches a step: after the checkpoint of step 2
			if err := errors.Join(os.Rename(checkpoints, checkpoints+".aside"), os.WriteFile(checkpoints, nil, 0o666)); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Train(context.Background(), Options{Config: c, Factory: f.factory}); err == nil || !strings.Contains(err.Error(), "checkpoint step-4") {
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
	path := writeRun(t, 40, "steps: 2\n")
	c := load(t, path)
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Train(context.Background(), Options{Config: c, Factory: newFake().factory}); err == nil || !strings.Contains(err.Error(), "another process trains") {
		t.Error(err)
	}
	unlock()
	train(t, path, newFake())
}

func TestNotFiniteNamesTheSample(t *testing.T) {
	path := writeRun(t, 40, "epochs: 2\n")
	f := newFake()
	f.poison = "row14"
	_, err := Train(context.Background(), Options{Config: load(t, path), Factory: f.factory})
	if err == nil || !strings.Contains(err.Error(), "row14") || strings.Contains(err.Error(), "row13") {
		t.Error(err)
	}
	path = writeRun(t, 40, "epochs: 2\nnon_finite: skip\n")
	r := train(t, path, f)
	text, _ := os.ReadFile(filepath.Join(r.Run, MetricsFile))
	if n := strings.Count(string(text), `"skipped":true`); n != 2 {
		t.Errorf("%d steps were skipped", n)
	}
	for _, p := range f.params {
		if slices.ContainsFunc(p.Value.Float32s(), func(v float32) bool { return math.IsNaN(float64(v)) }) {
			t.Error("a parameter is not finite")
		}
	}
}

func TestDryRun(t *testing.T) {
	path := writeRun(t, 40, "epochs: 3\n")
	f := newFake()
	c := load(t, path)
	p, err := DryRun(context.Background(), c, f.factory)
	if err != nil {
		t.Fatal(err)
	}
	want := &Plan{Device: "cpu", Steps: 16, Examples: 93, Rows: 31, Validation: 8, BatchSize: 6, MicroBatch: 4, Tokens: TokenCount{7, 7, 7},
		Parameters: 13, Trainable: 13, Bytes: map[string]int64{"sample": 64}}
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
	if _, err := os.Stat(c.Out); !os.IsNotExist(err) {
		t.Error("a dry run wrote something")
	}
}

func TestBadTablesAreToldOfTogether(t *testing.T) {
	path := writeRun(t, 20, "steps: 2\n")
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	text, _ := os.ReadFile(table)
	s := strings.Replace(string(text), `"edit": "a.png", "instruction": "do thing 4"`, `"edit": "gone.png", "instruction": "do thing 4"`, 1)
	s = strings.Replace(s, "do thing 6", " ", 1)
	s = strings.Replace(s, `"do thing 9", "label": 0.5`, `"do thing 9", "label": 5`, 1)
	if err := os.WriteFile(table, []byte(s), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory})
	for _, want := range []string{"row 5: picture gone.png is not there", "row 7: the instruction is empty", "0..1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

func TestMeasure(t *testing.T) {
	got := measure([]float64{0.1, 0.2, 0.8, 0.9, -0.3}, []float64{0, 0.5, 1, 0.5, 0})
	// ranks 2 3 4 5 1 and 1.5 3.5 5 3.5 1.5: rho from scipy.stats.spearmanr
	if math.Abs(float64(got.L1)-0.26) > 1e-12 || got.Accuracy != 0.6 || math.Abs(float64(got.Spearman)-0.7905694150420948) > 1e-12 || got.Rows != 5 {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(measure([]float64{0.5, 0.5}, []float64{0, 1}))
	if err != nil || !strings.Contains(string(text), `"spearman":null`) {
		t.Errorf("%s %v", text, err)
	}
}

// TestTemplatesAndAugmentation: what is drawn varies over samples and epochs, and is the same in every run of a seed.
func TestTemplatesAndAugmentation(t *testing.T) {
	seen := func(extra string) []Example {
		f := newFake()
		path := writeRun(t, 60, "epochs: 2\n"+extra)
		if strings.Contains(extra, "data:") {
			text, _ := os.ReadFile(path)
			text = regexp.MustCompile(`(?m)^data: .*train_split.*\n`).ReplaceAll(text, nil)
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		train(t, path, f)
		for i := range f.seen {
			f.seen[i].Base = ""
		}
		return f.seen
	}
	a := seen("augment: adiee\n")
	if d := cmp.Diff(a, seen("augment: adiee\nvalidate: {every: 3, limit: 2}\n")); d != "" {
		t.Error("validation changes what is drawn:", d)
	}
	questions, answers, augments := map[string]int{}, map[string]int{}, map[uint64]int{}
	for _, e := range a {
		questions[e.Question]++
		answers[e.Answer]++
		augments[e.Augment]++
	}
	if len(questions) != 2 || len(answers) != 2 || len(augments) != len(a) || augments[0] != 0 {
		t.Error(questions, answers, len(augments))
	}
	for what, n := range questions {
		if n < 30 {
			t.Errorf("%q was drawn %d times of %d", what, n, len(a))
		}
	}
	b := seen("data: {train: table.jsonl, validation: 0.2, sampling: group}\n")
	if len(b) != 2*16 { // 20 groups, of which 4 are held out
		t.Error(len(b), "samples")
	}
	if b[0].Augment != 0 {
		t.Error("augmented without being asked to")
	}
}

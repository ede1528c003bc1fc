package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
)

func train(t *testing.T, path string, f *fake) *Result {
	t.Helper()
	r, err := Train(context.Background(), Options{Config: load(t, path), Factory: f.factory})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var seconds = regexp.MustCompile(`"(seconds|waited)":[0-9.e-]+`)

// outcome is the output of a run that must not depend on interruptions: weights, best weights, metrics without times.
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
	text, _ := os.ReadFile(filepath.Join(r.Run, records.MetricsFile))
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
	if !(last <= 0.75*first) {
		t.Errorf("the loss went from %g to %g", first, last)
	}
	card, err := os.ReadFile(filepath.Join(r.Scorer, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| training | 47 | 12 | 11 | 12 | 0 | 12 |", "| validation | 12 |",
		"1 rows of the training tables have no label", "base_model: backbone", "train: table.jsonl", "table.jsonl."} {
		if !strings.Contains(string(card), want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	if strings.Contains(string(card), filepath.Dir(path)) {
		t.Error("the card contains folder names")
	}
	again, err := config.Load(filepath.Join(r.Run, config.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(load(t, path), again); d != "" {
		t.Error("the resolved configuration reads otherwise:", d)
	}
}

// TestMicroBatchesSumToTheBatch: the gradient is that of the mean over the batch, however it is split.
func TestMicroBatchesSumToTheBatch(t *testing.T) {
	var want []float32
	for _, micro := range []string{"auto", "1", "2", "6"} {
		path := writeRun(t, 30, "steps: 4\n")
		text, _ := os.ReadFile(path)
		if err := os.WriteFile(
			path,
			bytes.Replace(text, []byte("micro_batch: 4"), []byte("micro_batch: "+micro), 1),
			0o666,
		); err != nil {
			t.Fatal(err)
		}
		f := newFake()
		f.micro = 3
		c, g := load(t, path), &plain{f}
		if _, err := Train(
			context.Background(),
			Options{Config: c, Factory: func(context.Context, *config.Config) (models.Model, error) { return g, nil }},
		); err != nil {
			t.Fatal(err)
		}
		got := f.params[0].Value.Float32s()
		if want == nil {
			want = got
		}
		if d := oracle.Far(got, want); !(d <= 1e-5) {
			t.Errorf("micro-batch %s: %g from the others", micro, d)
		}
	}
}

// plain is the fake without dropout, which depends on the micro-batch.
type plain struct{ *fake }

func (p *plain) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	r := &models.StepResult{}
	for i := range batch {
		one, err := p.fake.Step(ctx, batch[i:i+1], models.StepInput{Weight: in.Weight, Seed: 5})
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
	text, _ := os.ReadFile(filepath.Join(r.Run, records.MetricsFile))
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
	want := &models.Plan{
		Device: "cpu",
		RunSize: models.RunSize{Steps: 16, Examples: 93, Rows: 31, Validation: 8, BatchSize: 6, Warnings: []string{
			"only 16 steps to learn from, fewer than 100: use more epochs, more rows, or a smaller batch_size (6)"}},
		MicroBatch: 4,
		Tokens:     models.TokenCount{Min: 7, Mean: 7, Max: 7},
		Parameters: 13,
		Trainable:  13,
		Trains:     models.Describe(c, newFake()),
		MemoryNeed: models.MemoryNeed{Bytes: map[string]int64{"sample": 64, "program": 39 * rowBytes},
			Need: 64 + 39*rowBytes},
	}
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
	s := strings.Replace(
		string(text),
		`"edit": "a.png", "instruction": "do thing 4"`,
		`"edit": "gone.png", "instruction": "do thing 4"`,
		1,
	)
	s = strings.Replace(s, "do thing 6", " ", 1)
	s = strings.Replace(s, `"do thing 9", "label": 0.5`, `"do thing 9", "label": 5`, 1)
	if err := os.WriteFile(table, []byte(s), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory})
	for _, want := range []string{"row 5: picture gone.png does not exist", "row 7: the instruction is empty", "0..1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

func TestMeasure(t *testing.T) {
	got := measure([]float64{0.1, 0.2, 0.8, 0.9, -0.3}, []float64{0, 0.5, 1, 0.5, 0})
	// ranks 2 3 4 5 1 and 1.5 3.5 5 3.5 1.5: rho from scipy.stats.spearmanr
	if !(math.Abs(float64(got.L1)-0.26) <= 1e-12) || got.Accuracy != 0.6 ||
		!(math.Abs(float64(got.Spearman)-0.7905694150420948) <= 1e-12) ||
		got.Rows != 5 {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(measure([]float64{0.5, 0.5}, []float64{0, 1}))
	if err != nil || !strings.Contains(string(text), `"spearman":null`) {
		t.Errorf("%s %v", text, err)
	}
}

// TestTemplatesAndAugmentation: draws vary over samples and epochs, and are the same in every run with the same seed.
func TestTemplatesAndAugmentation(t *testing.T) {
	seen := func(extra string) []dataset.Example {
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
		return examplesAnywhere(f.seen)
	}
	a := seen("augment: adiee\n")
	if d := cmp.Diff(a, seen("augment: adiee\nvalidate: {every: 3, limit: 2}\n")); d != "" {
		t.Error("validation changes what is drawn:", d)
	}
	questions, answers, augments := map[string]int{}, map[string]int{}, map[uint64]int{}
	for _, e := range a {
		questions[e.Question]++
		answers[e.Answer]++
		augments[outputOf(&e).Augment]++
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
	if outputOf(&b[0]).Augment != 0 {
		t.Error("augmented without being asked to")
	}
}

// noted is a progress display that keeps what was last shown.
type noted struct {
	done int64
	note string
}

func (n *noted) Add(samples int64, note string) { n.done, n.note = n.done+samples, note }

func (n *noted) Close() {}

// TestProgressEndsWithTheLastLoss: the last line has the loss of the last step, as the result has.
func TestProgressEndsWithTheLastLoss(t *testing.T) {
	path := writeRun(t, 40, "epochs: 2\n")
	var bar noted
	r, err := Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory,
		Progress: func(what string, _ int64, _ string) dataset.Progress {
			if what == "train" {
				return &bar
			}
			return silent{}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("loss %.4f", r.Loss); !strings.HasPrefix(bar.note, want) || bar.done != r.Samples {
		t.Errorf("got %q after %d samples, want %q after %d", bar.note, bar.done, want, r.Samples)
	}
}

// TestEqualScores: equal scores have no correlation. Such a validation is no improvement, and does not end the run.
func TestEqualScores(t *testing.T) {
	f := newFake()
	clear(f.params[0].Floats())
	c := load(t, writeRun(t, 30, "steps: 9\nvalidate: {every: 1, by: spearman, patience: 4}\n"))
	c.Optimizer.LR = 1e-60 // float32 holds no such step: the weights stay 0
	r, err := Train(t.Context(), Options{Config: c, Factory: f.factory})
	if err != nil {
		t.Fatal(err)
	}
	if r.Steps != 4 || !r.Early || r.Best != nil || !math.IsNaN(float64(r.Validation.Spearman)) {
		t.Errorf("got %d steps, ended early %t, best %+v, last %+v, want 4 steps, ended early, no best one, no correlation",
			r.Steps, r.Early, r.Best, r.Validation)
	}
}

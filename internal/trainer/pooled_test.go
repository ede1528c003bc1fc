package trainer

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"assay/checkpoints"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
)

// torchRun is a run.json of tools/oracle/text_tokens.py.
type torchRun struct {
	Family, Scorer, Mode string
	TextLoss             string `json:"text_loss"`
	Answers              []string
	Seed                 uint64
	Rows                 []struct {
		Source, Edit, Instruction string
		Label                     float64
	}
	Optimizer struct {
		LR, Eps     float64
		Betas       [2]float64
		WeightDecay float64 `json:"weight_decay"`
	}
	Steps []struct {
		Loss, Text, Score float64
		GradNorm          float64 `json:"grad_norm"`
		PerSample         float64 `json:"per_sample"`
	}
}

// torchSetup writes the configuration of a torch run, with additional lines, and returns its path.
func torchSetup(t *testing.T, made, more string) (string, torchRun) {
	t.Helper()
	want, dir := oracle.Read[torchRun](t, filepath.Join(made, "run.json")), t.TempDir()
	root, err := filepath.Abs(oracle.Folders(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for i, r := range want.Rows {
		fmt.Fprintf(&rows, `{"id": "%d", "group": %q, "source": %q, "edit": %q, "instruction": %q, "label": %g}`+"\n", i,
			r.Source+r.Instruction, filepath.Join(root, "images", r.Source+".png"),
			filepath.Join(root, "images", r.Edit+".png"), r.Instruction, r.Label)
	}
	init := filepath.Join(root, want.Family, want.Scorer)
	if want.Mode == "full" { // the scorer without its adapter
		bare := filepath.Join(dir, "init")
		text := strings.Replace(mustRead(t, filepath.Join(init, "scorer.yaml")), `"../backbone"`,
			fmt.Sprintf("%q", filepath.Join(root, want.Family, "backbone")), 1)
		for name, content := range map[string]string{
			"scorer.yaml": text, "head.safetensors": mustRead(t, filepath.Join(init, "head.safetensors")),
		} {
			if err := errors.Join(os.MkdirAll(bare, 0o777),
				os.WriteFile(filepath.Join(bare, name), []byte(content), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		init = bare
	}
	var answers []string
	for _, a := range want.Answers {
		answers = append(answers, strconv.Quote(a))
	}
	o, path := want.Optimizer, filepath.Join(dir, "run.yaml")
	if !strings.Contains(more, "data:") {
		more += "data: {train: table.jsonl}\n"
	}
	text := fmt.Sprintf("init: %s\nmode: %s\nout: out\ntext_loss: %s\nanswer: [%s]\nseed: %d\n"+
		"optimizer: {lr: %g, eps: %g, betas: [%g, %g], weight_decay: %g}\nbatch_size: %d\nsteps: %d\ndevice: cpu\n"+
		"threads: 2\n%s", init, want.Mode, want.TextLoss, strings.Join(answers, ", "), want.Seed, o.LR, o.Eps,
		o.Betas[0], o.Betas[1], o.WeightDecay, len(want.Rows), len(want.Steps), more)
	for name, text := range map[string]string{path: text, filepath.Join(dir, "table.jsonl"): rows.String()} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path, want
}

// torchSteps repeats the torch run in n processes, and compares every step and the final tensors.
func torchSteps(t *testing.T, name, more string, n int) {
	t.Helper()
	made := filepath.Join(packed.Unpack(t, "testdata/text_tokens.zip"), name)
	path, want := torchSetup(t, made, more)
	c, results, errs := newCrew(n), make([]*Result, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		o := Options{Config: load(t, path), Factory: models.Open}
		if n > 1 {
			o.Strategy = strategyOf(mate{c, i})
		}
		wg.Go(func() { results[i], errs[i] = Train(t.Context(), o) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	steps := metricLines[records.StepMetrics](t, path, "train")
	if len(steps) != len(want.Steps) {
		t.Fatalf("%d steps, want %d", len(steps), len(want.Steps))
	}
	for i, s := range steps {
		w := want.Steps[i]
		if !(off(float64(s.Loss), w.Loss) <= 1e-5) || !(off(float64(*s.Text), w.Text) <= 1e-5) ||
			!(off(float64(s.GradNorm), w.GradNorm) <= 1e-4) {
			t.Errorf("step %d: loss %v, text loss %v, gradient norm %v; want %v, %v, %v (a mean over samples of their "+
				"means is %v)", i+1, s.Loss, *s.Text, s.GradNorm, w.Loss, w.Text, w.GradNorm, w.PerSample)
		}
	}
	compareTensors(t, results[0].Scorer, filepath.Join(made, "final.safetensors"))
}

// compareTensors compares trained tensors with torch's, in whichever file of a scorer directory they are.
func compareTensors(t *testing.T, dir, file string) {
	t.Helper()
	want := oracle.Tensors(t, file)
	has := map[string][]float32{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if more, err := filepath.Glob(filepath.Join(dir, "backbone", "*.safetensors")); err == nil {
		paths = append(paths, more...)
	}
	for _, path := range paths {
		tensors, _, err := checkpoints.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range tensors {
			has[name] = x.Float32s()
		}
	}
	for name, w := range want {
		got, most := has[name], 0.0
		if len(got) != w.DataSize() {
			t.Errorf("%s: %d values, want %d", name, len(got), w.DataSize())
			continue
		}
		far := 0
		for i, x := range w.Float32s() { // AdamW enlarges the rounding of a gradient near 0
			d := math.Abs(float64(got[i]) - float64(x))
			if most = max(most, d); !(d <= 2e-5) {
				far++
			}
		}
		if far > max(1, w.DataSize()/100) {
			t.Errorf("%s: %d of %d values are off by more than 2e-5, at most %g", name, far, w.DataSize(), most)
		}
	}
}

// TestTextLossIsTorchs: with different numbers of text tokens per sample, losses, gradients and tensors match torch's
// over all tokens of the batch, however a step is split.
func TestTextLossIsTorchs(t *testing.T) {
	torchSteps(t, "qwen2_5_vl_answers", "micro_batch: 2\n", 1)
}

// TestTextLossHoweverCut is the same test for more families, splits and objectives.
func TestTextLossHoweverCut(t *testing.T) {
	long.Test(t)
	terms := "losses: [{kind: l1, weight: 10}, {kind: text}]\n"
	for _, test := range []struct {
		run, more string
		ranks     int
	}{
		{"qwen3_vl_full", "", 1},
		{"qwen3_vl_full", "micro_batch: 1\nrecompute: layers\n", 1},
		{"qwen3_vl_full", "micro_batch: 2\n", 2},
		{"llavanext_lora", "", 1},
		{"llavanext_lora", "micro_batch: 2\n", 3},
		{"llavanext_lora", terms + "micro_batch: 3\n", 1},
		{"llavanext_lora", terms + "data: {train: table.jsonl, sampling: whole_groups}\n", 1},
		{"qwen2_5_vl_answers", "micro_batch: 1\nreduce: fast\n", 2},
	} {
		t.Run(fmt.Sprintf("%s, %d ranks, %q", test.run, test.ranks, test.more), func(t *testing.T) {
			torchSteps(t, test.run, test.more, test.ranks)
		})
	}
}

package trainer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
	"assay/lora"
)

// sftRuns are a run.json, the initial adapter and the trained tensors for each family.
const sftRuns = "testdata/sft/runs.zip"

// sftRun is such a run.json, written by transformers and PEFT (tools/oracle/sft.py).
type sftRun struct {
	Full  bool
	LR    float64
	Betas []float64
	Decay float64
	Clip  float64
	Steps []torchStep

	Validation struct {
		Loss          float64
		Right, Tokens int
	}
}

// torchStep is a step of a PyTorch run.
type torchStep struct {
	Loss     float64
	GradNorm float64 `json:"grad_norm"`
}

// compare compares the losses and gradient norms of a step.
func (w *torchStep) compare(t *testing.T, s *records.StepMetrics, loss, norm float64) {
	t.Helper()
	if !(off(float64(s.Loss), w.Loss) <= loss) || !(off(float64(s.GradNorm), w.GradNorm) <= norm) {
		t.Errorf("step %d: got loss %v, norm %v; want %v, %v", s.Step, s.Loss, s.GradNorm, w.Loss, w.GradNorm)
	}
}

// trainedSteps returns the steps of a run, and checks their number.
func trainedSteps(t *testing.T, config string, want int) []records.StepMetrics {
	t.Helper()
	steps := metricLines[records.StepMetrics](t, config, "train")
	if len(steps) != want {
		t.Fatalf("got %d steps, want %d", len(steps), want)
	}
	return steps
}

// sftConfig writes the configuration of such a run, with additional lines, and returns its path.
func sftConfig(t *testing.T, family string, more string) (string, sftRun) {
	t.Helper()
	folder, err := filepath.Abs("testdata/sft")
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(packed.Unpack(t, sftRuns), family)
	r := oracle.Read[sftRun](t, filepath.Join(made, "run.json"))
	backbone, err := filepath.Abs(filepath.Join("..", "..", "testdata", "oracle", family, "backbone"))
	if err != nil {
		t.Fatal(err)
	}
	tune := fmt.Sprintf("init: %s\ntext: {tune: lora}\n", filepath.Join(made, "init"))
	if r.Full {
		tune = "text: {tune: full}\n"
	}
	betas, err := json.Marshal(r.Betas)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.yaml")
	text := fmt.Sprintf("mode: text\nbackbone: %s\nout: out\n%s"+
		"data: {train: %s/train.jsonl, validation: %s/valid.jsonl}\n"+
		"optimizer: {lr: %g, betas: %s, weight_decay: %g}\nclip_norm: %g\n"+
		"batch_size: 4\nsteps: %d\ndevice: cpu\nthreads: 2\n"+
		"validate: {every: 100}\n%s", backbone, tune, folder, folder, r.LR, betas, r.Decay, r.Clip, len(r.Steps), more)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path, r
}

// metricLines reads the lines of one kind of metrics.jsonl.
func metricLines[T any](t *testing.T, path, kind string) (out []T) {
	t.Helper()
	f, err := os.Open(filepath.Join(filepath.Dir(path), "out", records.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var k struct{ Kind string }
		var v T
		if err := errors.Join(json.Unmarshal(s.Bytes(), &k), json.Unmarshal(s.Bytes(), &v)); err != nil {
			t.Fatal(err)
		}
		if k.Kind == kind {
			out = append(out, v)
		}
	}
	return out
}

// relative difference, of 1 at least.
func off(got, want float64) float64 { return math.Abs(got-want) / max(1, math.Abs(want)) }

// TestTextIsTransformers trains ten steps on conversations with several turns and pictures: losses, gradients and
// tensors match transformers and PEFT, with micro-batches of any size.
func TestTextIsTransformers(t *testing.T) {
	long.Test(t)
	runs := map[string]string{"llavanext": "auto", "qwen2_5_vl": "1", "qwen2_vl": "3", "qwen3_vl": "auto"}
	for family, micro := range runs {
		t.Run(family, func(t *testing.T) {
			path, want := sftConfig(t, family, "micro_batch: "+micro+"\n")
			r, err := Train(t.Context(), Options{Config: load(t, path), Factory: models.Open})
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range trainedSteps(t, path, len(want.Steps)) {
				want.Steps[i].compare(t, &s, 2e-5, 1e-4)
			}
			v := metricLines[records.ValidationMetrics](t, path, "validation")
			if len(v) != 1 || v[0].Tokens != want.Validation.Tokens ||
				!(off(float64(*v[0].Loss), want.Validation.Loss) <= 2e-5) ||
				!(math.Abs(float64(*v[0].TokenAccuracy)*float64(v[0].Tokens)-float64(want.Validation.Right)) <= 1e-6) {
				t.Errorf("validation %+v, want %+v", v, want.Validation)
			}
			compareTrained(t, r.Scorer, filepath.Join(packed.Unpack(t, sftRuns), family, "final.safetensors"), want.Full)
		})
	}
}

// compareTrained compares the tensors of an adapter or a checkpoint with those of PEFT or transformers.
func compareTrained(t *testing.T, dir, file string, full bool) {
	t.Helper()
	want, _, err := checkpoints.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) ([]float32, error) {
		a, err := lora.Load(dir)
		if err != nil {
			return nil, err
		}
		return a.Tensors[name].Float32s(), nil
	}
	if full {
		w, err := checkpoints.OpenWeights(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		get = func(name string) ([]float32, error) {
			d, err := w.Dense(name)
			if err != nil {
				return nil, err
			}
			return d.Float32s(), nil
		}
	}
	for name, w := range want {
		got, err := get(name)
		if err != nil {
			t.Fatal(err)
		}
		// AdamW enlarges the rounding of a gradient near 0: see the traces of testdata/oracle.
		most, far := 0.0, 0
		for i, x := range w.Float32s() {
			d := math.Abs(float64(got[i]) - float64(x))
			if most = max(most, d); !(d <= 2e-5) {
				far++
			}
		}
		if !(most <= 1e-3) || far > max(1, w.DataSize()/100) {
			t.Errorf("%s: %d of %d values are off by more than 2e-5, at most %g", name, far, w.DataSize(), most)
		}
	}
}

// TestTextRanks: several ranks divide training and validation on conversations, with the same numbers as one process.
func TestTextRanks(t *testing.T) {
	long.Test(t)
	measure := func(n int) string {
		path, _ := sftConfig(t, "llavanext", "micro_batch: 1\n")
		c, errs := newCrew(n), make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			o := Options{Config: load(t, path), Factory: models.Open}
			if n > 1 {
				o.Strategy = strategyOf(mate{c, i})
			}
			wg.Go(func() { _, errs[i] = Train(t.Context(), o) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		v := metricLines[records.ValidationMetrics](t, path, "validation")
		if len(v) != 1 || v[0].Tokens == 0 {
			t.Fatalf("%d ranks: %+v", n, v)
		}
		return fmt.Sprint(v[0].Rows, v[0].Tokens, *v[0].Loss, *v[0].TokenAccuracy)
	}
	if one, two := measure(1), measure(2); one != two {
		t.Errorf("two ranks measure %s, one %s", two, one)
	}
}

// TestTextGoesOn stops a run after some steps: the result is the same as without a stop.
func TestTextGoesOn(t *testing.T) {
	long.Test(t)
	final := func(cut int) []byte {
		path, _ := sftConfig(t, "llavanext", "lora: {dropout: 0.1}\nmicro_batch: 2\ncheckpoint: {steps: 3}\n")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := Options{Config: load(t, path), Factory: models.Open}
		if cut > 0 {
			o.Progress = func(string, int64, string) dataset.Progress { return &cutter{after: cut, cancel: cancel} }
			if _, err := Train(ctx, o); !errors.Is(err, exit.ErrInterrupted) {
				t.Fatalf("interrupted: %v", err)
			}
			o.Progress = nil
		}
		r, err := Train(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(r.Scorer, lora.WeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		if r.BestScorer == "" {
			t.Error("there is no best adapter")
		}
		return raw
	}
	if d := cmp.Diff(final(0), final(10)); d != "" {
		t.Error("an interrupted run ends elsewhere")
	}
}

// cutter cancels after some samples.
type cutter struct {
	after  int
	cancel context.CancelFunc
}

func (c *cutter) Add(n int64, _ string) {
	if c.after -= int(n); c.after < 0 {
		c.cancel()
	}
}
func (*cutter) Close() {}

// TestTextRefuses: errors name what cannot be learned, instead of truncating it.
func TestTextRefuses(t *testing.T) {
	path, _ := sftConfig(t, "qwen2_5_vl", "")
	rows := filepath.Join(filepath.Dir(path), "rows.jsonl")
	image := `{"type": "image", "image": "` + must(filepath.Abs("../../testdata/oracle/images/coffee.png")) + `"}`
	for _, c := range []struct{ messages, more, want string }{
		{`[{"role": "user", "content": "a"}]`, "", "the last message must have the role assistant"},
		{`[{"role": "assistant", "content": "a"}]`, "", "there is no question before it"},
		{`[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b<|im_end|>"}]`, "", "special token"},
		{`[{"role": "user", "content": [` + image + `]}, {"role": "assistant", "content": "b"}]`,
			"text: {tune: lora, max_tokens: 20}",
			"text.max_tokens is 20: nothing is cut off"},
		{`[{"role": "user", "content": "` + strings.Repeat("word ", 9000) + `"}, {"role": "assistant", "content": "b"}]`, "",
			"max_position_embeddings"},
		{`[{"role": "user", "content": [{"type": "image", "image": "none.png"}]}, {"role": "assistant", "content": "b"}]`, "",
			"none.png"},
		{`[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "temperature": 1`, "", "temperature"},
	} {
		text := string(must(os.ReadFile(path)))
		i := strings.Index(text, "init:")
		text = text[:i] + c.more + text[strings.Index(text, "\ndata:"):]
		text = strings.ReplaceAll(text, must(filepath.Abs("testdata/sft/train.jsonl")), rows)
		config := filepath.Join(filepath.Dir(path), "other.yaml")
		good := `{"id": 7, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}` + "\n"
		err := errors.Join(os.WriteFile(config, []byte(text), 0o666),
			os.WriteFile(rows, []byte(good+`{"id": "the-bad-one", "messages": `+c.messages+"}\n"), 0o666))
		if err != nil {
			t.Fatal(err)
		}
		_, err = DryRun(t.Context(), load(t, config), models.OpenPlan)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the-bad-one") {
			t.Errorf("%s: error %v, want %q of the-bad-one", c.messages[:min(len(c.messages), 90)], err, c.want)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestTextBringsWhole starts from an adapter with full parameters: they train, and the file has them.
func TestTextBringsWhole(t *testing.T) {
	long.Test(t)
	for extra, some := range map[string]string{
		"lora: {bias: all}\n":                  ".bias",
		"lora: {modules_to_save: [lm_head]}\n": "lm_head.weight",
	} {
		path, _ := sftConfig(t, "qwen2_5_vl", extra)
		text := mustRead(t, path)
		i := strings.Index(text, "init:")
		text = text[:i] + text[i+strings.Index(text[i:], "\n")+1:]
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c := load(t, path)
		if _, err := DryRun(t.Context(), c, models.OpenPlan); err != nil {
			t.Errorf("%s: dry run: %v", extra, err)
		}
		r, err := Train(t.Context(), Options{Config: c, Factory: models.Open})
		if err != nil {
			t.Errorf("%s: %v", extra, err)
			continue
		}
		a := must(lora.Load(r.Scorer))
		w := must(checkpoints.OpenWeights(c.Backbone))
		moved := 0
		for _, name := range w.Names() {
			got := a.Tensors[lora.NameParameter(lora.Canonical(name))]
			if got != nil && !cmp.Equal(got.Float32s(), must(w.Dense(name)).Float32s()) {
				moved++
			}
		}
		w.Close()
		if moved == 0 || !strings.HasSuffix(a.Whole[0], some) {
			t.Errorf("%s: %d of %v moved", extra, moved, a.Whole)
		}
	}
}

package modeltest

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/optim"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/lora"
	"assay/model"
	"assay/model/batch"
)

// weights of the two losses in the fixtures.
const textLoss, scoreLoss = 1, 10

func openTuner(t *testing.T, dir string, o model.TuneOptions) *model.Tuner {
	t.Helper()
	o.TextLoss, o.ScoreLoss = textLoss, scoreLoss
	p, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	u, err := model.NewTuner(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

// gradients compares losses, and the gradient of every tensor of the scorer directory.
func (f Family) gradients(t *testing.T, o model.TuneOptions) {
	open := func(t *testing.T, dir string) *model.Tuner { return openTuner(t, dir, o) }
	each(t, f, open, func(t *testing.T, r *reference, u *model.Tuner) {
		r.step(t, u)
		if !r.Gradients {
			return
		}
		names, _ := u.Params()
		for _, n := range r.trained() {
			if !slices.Contains(names, n) {
				t.Errorf("%s is not trained", n)
			}
		}
	})
}

// step compares the losses of a training step, and the gradients of all trained tensors.
func (r *reference) step(t *testing.T, u *model.Tuner) {
	t.Helper()
	in := model.StepInput{Labels: []float64{r.Label / 10}, Weight: 1}
	got, err := u.Step(context.Background(), []*batch.Sample{r.sample(t, u)}, in)
	if err != nil {
		t.Fatal(err)
	}
	if d := math.Abs(got.Loss[0] - r.Loss); !(d <= 1e-4) {
		t.Errorf("loss %g, want %g", got.Loss[0], r.Loss)
	}
	if d := math.Abs(got.CE[0] - r.CE); !(d <= 1e-4) {
		t.Errorf("cross-entropy %g, want %g", got.CE[0], r.CE)
	}
	if !r.Gradients {
		return
	}
	names, _ := u.Params()
	for _, n := range names {
		oracle.Close(t, n, got.Grads[n].Data().([]float32), r.floats(t, "grad."+n), 1e-7, 1e-4)
	}
}

// vision compares the gradients of adapters on every linear layer, including the vision tower's, and of parameters of
// the backbone, with the gradients that tools/oracle/vision_lora.py wrote to vision.zip.
func (f Family) vision(t *testing.T) {
	long.Test(t)
	made := filepath.Join(packed.Unpack(t, "../../internal/modeltest/testdata/vision.zip"), f.Folder)
	want := oracle.Read[struct {
		ID   int     `json:"id"`
		Loss float64 `json:"loss"`
	}](t, filepath.Join(made, "case.json"))
	grads := oracle.Tensors(t, filepath.Join(made, "grads.safetensors"))
	family, err := filepath.Abs(filepath.Join("..", "..", "testdata", "oracle", f.Folder))
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{Case: oracle.Read[[]oracle.Case](t, filepath.Join(family, "cases.json"))[want.ID], family: family}
	dir := peftScorer(t, family, r.Scorer, made)
	for _, o := range []model.TuneOptions{
		{},
		{Full: true},
		{Full: true, Recompute: true},
		{Full: true, Recompute: true, Options: model.Options{Blocks: blockRows}},
		{Options: model.Options{LossRows: lossRows}},
		{Full: true, Options: model.Options{LossRows: lossRows}},
		{Options: fused},
		{Full: true, Recompute: true, Options: fused},
	} {
		u := openTuner(t, dir, o)
		in := model.StepInput{Labels: []float64{r.Label / 10}, Weight: 1}
		got, err := u.Step(context.Background(), []*batch.Sample{r.sample(t, u)}, in)
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(got.Loss[0]-want.Loss) <= 1e-4) {
			t.Errorf("loss %g, want %g", got.Loss[0], want.Loss)
		}
		seen := 0
		for n, g := range got.Grads {
			if w := grads[lora.Canonical(n)]; w != nil {
				oracle.Close(t, n, g.Data().([]float32), w.Data().([]float32), 1e-7, 1e-4)
				seen++
			}
		}
		for n := range grads {
			if strings.Contains(n, ".lora_") || o.Full {
				seen--
			}
		}
		if seen != 0 {
			t.Errorf("full=%v: %d expected tensors are not trained", o.Full, -seen)
		}
	}
}

// trace is train_trace*.json.
type trace struct {
	Scorer      string     `json:"scorer"`
	LR          float64    `json:"lr"`
	Betas       [2]float64 `json:"betas"`
	Eps         float64    `json:"eps"`
	WeightDecay float64    `json:"weight_decay"`
	Clip        float64    `json:"gradient_clipping"`
	Steps       []struct {
		Cases []int   `json:"cases"`
		Loss  float64 `json:"loss"`
		Norm  float64 `json:"grad_norm"`
		LR    float64 `json:"lr"`
	} `json:"steps"`
}

// trace repeats the reference's AdamW steps: losses and norms before each update, and every tensor afterwards.
func (f Family) trace(t *testing.T, o model.Options) {
	oracle.Each(t, func(t *testing.T, folder string) {
		family := filepath.Join(folder, f.Folder)
		tr := oracle.Read[trace](t, filepath.Join(family, f.Trace.Steps))
		u := openTuner(t, filepath.Join(family, tr.Scorer), model.TuneOptions{Options: o})
		cases := map[int]*reference{}
		for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, f.Trace.Cases)) {
			cases[c.ID] = &reference{Case: c, family: family}
		}
		names, values := u.Params()
		params := optim.NewParams(names, values)
		opt := optim.NewAdamW(params, tr.Betas, tr.Eps, tr.WeightDecay)
		for k, step := range tr.Steps {
			var samples []*batch.Sample
			var labels []float64
			for _, id := range step.Cases {
				samples, labels = append(samples, cases[id].sample(t, u)), append(labels, cases[id].Label/10)
			}
			in := model.StepInput{Labels: labels, Weight: 1 / float64(len(samples))}
			r, err := u.Step(context.Background(), samples, in)
			if err != nil {
				t.Fatal(err)
			}
			loss := 0.0
			for _, l := range r.Loss {
				loss += l / float64(len(r.Loss))
			}
			if !(math.Abs(loss-step.Loss) <= 1e-4) {
				t.Errorf("step %d: loss %g, want %g", k, loss, step.Loss)
			}
			grads := make([][]float32, len(names))
			for i, n := range names {
				grads[i] = r.Grads[n].Data().([]float32)
			}
			if norm := clip(grads, tr.Clip); tr.Clip > 0 && !(math.Abs(norm-step.Norm) <= 1e-4*step.Norm) {
				t.Errorf("step %d: the gradient's norm is %g, want %g", k, norm, step.Norm)
			}
			lr := tr.LR
			if step.LR > 0 {
				lr = step.LR
			}
			opt.Update(params, grads, lr)
		}
		final := oracle.Tensors(t, filepath.Join(family, f.Trace.Final))
		for i, n := range names {
			oracle.Close(t, n, values[i].Data().([]float32), oracle.Floats(t, final, n), 1e-4, 0)
		}
		if len(final) != len(names) {
			t.Errorf("%d tensors trained, want %d", len(names), len(final))
		}
	})
}

// clip returns the global norm of the gradients and, above a limit, scales them as the fixtures' README says.
func clip(grads [][]float32, limit float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, v := range g {
			sum += float64(v) * float64(v)
		}
	}
	norm := math.Sqrt(sum)
	if scale := limit / (norm + 1e-6); limit > 0 && scale < 1 {
		for _, g := range grads {
			for i := range g {
				g[i] *= float32(scale)
			}
		}
	}
	return norm
}

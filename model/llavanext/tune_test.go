package llavanext_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/oracle"
	"assay/model"
	"assay/trainer"
)

// weights of the two losses in the fixtures.
const textLoss, scoreLoss = 1, 10

func tuner(t *testing.T, dir string, o model.TuneOptions) *model.Tuner {
	t.Helper()
	o.TextLoss, o.ScoreLoss = textLoss, scoreLoss
	p, err := model.LoadParts(dir)
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

// eachTuned runs f on every case with a tuner of its scorer.
func eachTuned(t *testing.T, o model.TuneOptions, f func(t *testing.T, family string, c oracle.Case, u *model.Tuner, expect map[string]*tensor.Dense)) {
	oracle.Each(t, func(t *testing.T, folder string) {
		family := filepath.Join(folder, "llavanext")
		for _, file := range files {
			expect := oracle.Tensors(t, filepath.Join(family, file[1]))
			tuners := map[string]*model.Tuner{}
			for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, file[0])) {
				if tuners[c.Scorer] == nil {
					tuners[c.Scorer] = tuner(t, filepath.Join(family, c.Scorer), o)
				}
				t.Run(fmt.Sprintf("%s/%d", c.Scorer, c.ID), func(t *testing.T) { f(t, family, c, tuners[c.Scorer], expect) })
			}
		}
	})
}

func TestLossAndGradients(t *testing.T) {
	for _, o := range []model.TuneOptions{{}, {Recompute: true}, {Fixed: true}} {
		t.Run(fmt.Sprintf("recompute=%v,fixed=%v", o.Recompute, o.Fixed), func(t *testing.T) {
			eachTuned(t, o, func(t *testing.T, family string, c oracle.Case, u *model.Tuner, expect map[string]*tensor.Dense) {
				r, err := u.Step(context.Background(), []*model.Sample{prepare(t, family, c, u)}, []float64{c.Label / 10}, 1, 0)
				if err != nil {
					t.Fatal(err)
				}
				if d := math.Abs(r.Loss[0] - c.Loss); !(d <= 1e-4) {
					t.Errorf("loss %g, want %g", r.Loss[0], c.Loss)
				}
				if d := math.Abs(r.CE[0] - c.CE); !(d <= 1e-4) {
					t.Errorf("cross-entropy %g, want %g", r.CE[0], c.CE)
				}
				if !c.Gradients {
					return
				}
				names, _ := u.Params()
				prefix := fmt.Sprintf("case%d.grad.", c.ID)
				for _, n := range names {
					oracle.Close(t, n, r.Grads[n].Data().([]float32), oracle.Floats(t, expect, prefix+n), 1e-7, 1e-4)
				}
				for n := range expect {
					if len(n) > len(prefix) && n[:len(prefix)] == prefix && !slices.Contains(names, n[len(prefix):]) {
						t.Errorf("%s is not trained", n[len(prefix):])
					}
				}
			})
		})
	}
}

// trace is train_trace.json.
type trace struct {
	Scorer      string     `json:"scorer"`
	LR          float64    `json:"lr"`
	Betas       [2]float64 `json:"betas"`
	Eps         float64    `json:"eps"`
	WeightDecay float64    `json:"weight_decay"`
	Steps       []struct {
		Cases []int   `json:"cases"`
		Loss  float64 `json:"loss"`
	} `json:"steps"`
}

// TestTrace repeats 20 AdamW steps of the reference: losses before each update, and every tensor afterwards.
func TestTrace(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		family := filepath.Join(folder, "llavanext")
		raw, err := os.ReadFile(filepath.Join(family, "train_trace.json"))
		if err != nil {
			t.Fatal(err)
		}
		var tr trace
		if err := json.Unmarshal(raw, &tr); err != nil {
			t.Fatal(err)
		}
		u := tuner(t, filepath.Join(family, tr.Scorer), model.TuneOptions{})
		cases := map[int]oracle.Case{}
		for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, "cases.json")) {
			cases[c.ID] = c
		}
		names, values := u.Params()
		params := make([]trainer.Param, len(names))
		for i := range names {
			params[i] = trainer.Param{Name: names[i], Value: values[i]}
		}
		opt := trainer.NewAdamW(trainer.OptimizerConfig{Betas: tr.Betas[:], Eps: tr.Eps, WeightDecay: tr.WeightDecay}, params)
		for k, step := range tr.Steps {
			var samples []*model.Sample
			var labels []float64
			for _, id := range step.Cases {
				samples, labels = append(samples, prepare(t, family, cases[id], u)), append(labels, cases[id].Label/10)
			}
			r, err := u.Step(context.Background(), samples, labels, 1/float64(len(samples)), 0)
			if err != nil {
				t.Fatal(err)
			}
			loss := 0.0
			for _, l := range r.Loss {
				loss += l / float64(len(r.Loss))
			}
			if math.Abs(loss-step.Loss) > 1e-4 {
				t.Errorf("step %d: loss %g, want %g", k, loss, step.Loss)
			}
			grads := make([][]float32, len(names))
			for i, n := range names {
				grads[i] = r.Grads[n].Data().([]float32)
			}
			opt.Update(params, grads, tr.LR)
		}
		final := oracle.Tensors(t, filepath.Join(family, "trace_final.safetensors"))
		for i, n := range names {
			oracle.Close(t, n, values[i].Data().([]float32), oracle.Floats(t, final, n), 1e-4, 0)
		}
		if len(final) != len(names) {
			t.Errorf("%d tensors trained, want %d", len(names), len(final))
		}
	})
}

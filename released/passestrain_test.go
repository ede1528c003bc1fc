package released_test

import (
	"math"
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/losses"
	"assay/model"
	"assay/model/batch"
	"assay/released"
)

// passesStep runs a training step of a scorer. It runs unchanged for the term that is compared with the fixtures, and
// with an adapter for the terms that are compared with each other.
func passesStep(t *testing.T, dir, dimension string, samples func(u *model.Tuner) []*batch.Sample, terms []losses.Spec,
	items [][]losses.Item,
) (*model.Tuner, *model.StepResult) {
	t.Helper()
	p, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if adapted := !terms[0].Fused || terms[0].Kind == "l1"; adapted {
		addAdapter(t, p)
	}
	for i := range terms {
		if problems := terms[i].Check(); len(problems) > 0 {
			t.Fatal(problems)
		}
	}
	u, err := model.NewTuner(p, model.TuneOptions{Terms: terms, Share: true,
		Options: model.Options{Device: "cpu", Threads: 1, Dimension: dimension}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	r, err := u.Step(t.Context(), samples(u), model.StepInput{Items: items, Weight: 0.5, Draws: 3})
	if err != nil {
		t.Fatal(err)
	}
	return u, r
}

// TestPassesTrain: a judge of two passes trains. Its scores in a step, and the loss of its fusion, match the
// fixtures. The gradients of terms over its heads equal those of each head alone, whose steps are compared with
// PyTorch. The gradient of their mean is the mean of their gradients.
func TestPassesTrain(t *testing.T) {
	long.Test(t)
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		var cases []editCase
		for _, c := range all.Cases { // of one configuration
			if c.Config == all.Cases[0].Config && len(cases) < 2 {
				cases = append(cases, c)
			}
		}
		o := released.Options{Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"),
			Prompts: filepath.Join(dir, "prompts"), Config: filepath.Join(dir, cases[0].Config)}
		o.Out = filepath.Join(t.TempDir(), "scorer")
		if _, err := released.Import("editreward", o); err != nil {
			t.Fatal(err)
		}
		samples := func(u *model.Tuner) (out []*batch.Sample) {
			for _, c := range cases {
				sample, err := u.Sample(c.pair(t, s), model.Ask{})
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, sample)
			}
			return out
		}
		far := make([]losses.Item, len(cases)) // so far away that all edits have the same derivative
		for i := range far {
			far[i] = losses.Item{Edits: []int{i}, Label: 100, Weight: 1 / float64(len(cases))}
		}
		pair := []losses.Item{{Edits: []int{1, 0}, Weight: 1, Outcome: [3]float64{1, 0, 0}}}
		_, fused := passesStep(t, o.Out, "", samples, []losses.Spec{{Kind: "thurstone", Fused: true}},
			[][]losses.Item{pair})
		for i, c := range cases {
			near(t, "score in a step", fused.Score[i], c.Score)
		}
		a, b := cases[1].Fused[cases[1].Pooling], cases[0].Fused[cases[0].Pooling]
		z := (a[0] - b[0]) / math.Sqrt(math.Exp(2*a[1])+math.Exp(2*b[1]))
		near(t, "loss of the fusion", fused.Terms[0][0], -math.Log(0.5*math.Erfc(-z/math.Sqrt2)))

		whole, two := passesStep(t, o.Out, "", samples, []losses.Spec{{Kind: "l1", Dimension: "following"},
			{Kind: "gaussian", Dimension: "quality"}}, [][]losses.Item{far, far})
		var apart []map[string]*tensor.Dense
		for i, name := range []string{"following", "quality"} {
			kind := []string{"l1", "gaussian"}[i]
			_, one := passesStep(t, o.Out, name, samples, []losses.Spec{{Kind: kind, Dimension: name}}, [][]losses.Item{far})
			apart = append(apart, one.Grads)
			for k, v := range one.Terms[0] {
				near(t, "loss of "+name+" alone", two.Terms[i][k], v)
			}
		}
		names, _ := whole.Params()
		for _, name := range names {
			want := make([]float32, two.Grads[name].DataSize())
			for _, g := range apart {
				if g[name] != nil {
					for i, v := range g[name].Float32s() {
						want[i] += v
					}
				}
			}
			oracle.Close(t, "gradient of "+name, two.Grads[name].Float32s(), want, 1e-6, 1e-4)
		}
		_, mean := passesStep(t, o.Out, "", samples, []losses.Spec{{Kind: "l1", Fused: true}}, [][]losses.Item{far})
		_, each := passesStep(t, o.Out, "", samples, []losses.Spec{{Kind: "l1", Dimension: "following"},
			{Kind: "l1", Dimension: "quality"}}, [][]losses.Item{far, far})
		for _, name := range names {
			want := each.Grads[name].Float32s()
			for i := range want {
				want[i] /= 2
			}
			oracle.Close(t, "gradient of the mean with respect to "+name, mean.Grads[name].Float32s(), want, 1e-6, 1e-4)
		}
	})
}

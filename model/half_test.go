package model

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/model/batch"
)

// TestHalfSteps: losses and gradients of a step in half precision are those of float32 but for rounding. It runs the
// graphs of a GPU on the CPU, in float16, since the CPU has no kernels of bfloat16.
func TestHalfSteps(t *testing.T) {
	for i, family := range []string{"qwen2_5_vl", "llavanext", "qwen2_vl", "qwen3_vl"} {
		for name, o := range map[string]TuneOptions{
			"":                     {},
			", recomputed":         {Recompute: true},
			", in blocks":          {Options: Options{Blocks: 12}},
			", every weight":       {Full: true},
			", dropout":            {Dropout: 0.5},
			", one graph":          {Fixed: true},
			", one graph, a group": {Fixed: true, Share: true},
		} {
			t.Run(family+name, func(t *testing.T) {
				if i > 0 || name != "" {
					long.Test(t)
				}
				want := stepIn(t, family, "float32", o)
				o.Device, o.On = "cuda:0", "cpu"
				got := stepIn(t, family, "float16", o)
				for k, w := range want.Loss {
					if d := math.Abs(got.Loss[k]-w) / math.Abs(w); !(d <= 2e-3) {
						t.Errorf("edit %d: got loss %g, want %g", k, got.Loss[k], w)
					}
				}
				var difference, size float64
				for name, g := range want.Grads {
					for k, w := range g.Float32s() {
						d := float64(got.Grads[name].Float32s()[k] - w)
						difference, size = difference+d*d, size+float64(w)*float64(w)
					}
				}
				d := math.Sqrt(difference / size)
				if !(d > 0 && d <= 5e-3) {
					t.Errorf("got gradients %.2g of their norm off, want a difference of rounding", d)
				}
				t.Logf("gradients are %.2g of their norm off", d)
			})
		}
	}
}

// stepIn is a step over two edits of one source.
func stepIn(t *testing.T, family, dtype string, o TuneOptions) *StepResult {
	t.Helper()
	p, err := LoadScorerState(filepath.Join("../testdata/oracle", family, "scorer_sequence"))
	if err != nil {
		t.Fatal(err)
	}
	p.Config.DType = dtype
	o.TextLoss, o.ScoreLoss = 1, 10
	u, err := NewTuner(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	image := func(name string) edit.Picture {
		return data.File{Image: data.Image{Path: name + ".png"}, Folder: "../testdata/oracle/images"}
	}
	var samples []*batch.Sample
	for _, output := range []string{"coffee_blur", "coffee_blur_gt"} {
		s, err := u.Sample(edit.New(image("coffee"), image(output), "blur it"), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	got, err := u.Step(context.Background(), samples, []float64{0.2, 0.9}, 0.5, 7)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

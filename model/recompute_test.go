package model_test

import (
	"path/filepath"
	"slices"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/batch"
)

// TestRecomputeFirst: however many layers a step recomputes, its losses and gradients are bit-identical. The more there
// are, the less memory is planned.
func TestRecomputeFirst(t *testing.T) {
	root := oracle.Folders(t)[0]
	open := func(o model.TuneOptions) *model.Tuner {
		t.Helper()
		p, err := model.LoadScorerState(filepath.Join(root, "qwen2_5_vl", "scorer_sequence"))
		if err != nil {
			t.Fatal(err)
		}
		o.TextLoss, o.ScoreLoss, o.Threads = 1, 1, 1
		u, err := model.NewTuner(p, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { u.Close() })
		return u
	}
	step := func(u *model.Tuner) (*model.StepResult, int64) {
		t.Helper()
		file := func(name string) edit.Picture {
			return data.File{Image: data.Image{Path: name}, Folder: filepath.Join(root, "images")}
		}
		s, err := u.Sample(edit.New(file("coffee.png"), file("coffee_blur.png"), "blur it"), model.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		usage, err := u.Usage(s, 4, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := u.Step(t.Context(), []*batch.Sample{s}, model.StepInput{Labels: []float64{0.3}, Weight: 1})
		if err != nil {
			t.Fatal(err)
		}
		return r, usage.Bytes["training step"]
	}
	kept := open(model.TuneOptions{})
	if kept.Layers != 3 {
		t.Fatalf("%d layers, want 3", kept.Layers)
	}
	want, most := step(kept)
	all, least := step(open(model.TuneOptions{Recompute: true}))
	planned := []int64{most}
	same := func(what string, got *model.StepResult) {
		t.Helper()
		if got.Loss[0] != want.Loss[0] {
			t.Errorf("%s: loss %v, want %v", what, got.Loss[0], want.Loss[0])
		}
		for name, g := range want.Grads {
			if !slices.Equal(got.Grads[name].Float32s(), g.Float32s()) {
				t.Errorf("%s: the gradient of %s is not bit-identical", what, name)
			}
		}
	}
	same("all layers", all)
	for n := range kept.Layers + 1 {
		u := open(model.TuneOptions{Recompute: true})
		u.RecomputeFirst(n)
		got, bytes := step(u)
		same("the first layers", got)
		planned = append(planned, bytes)
	}
	if planned[1] != most || planned[len(planned)-1] != least || !slices.IsSortedFunc(planned, func(a, b int64) int {
		return int(b - a)
	}) {
		t.Errorf("planned %d bytes, want from %d (nothing recomputed) down to %d (all layers)", planned[1:], most, least)
	}
}

package dialogue_test

import (
	"context"
	"math"
	"testing"

	"assay/data"
	"assay/internal/long"
	"assay/lab/dialogue"
	"assay/model"
	_ "assay/model/families"
)

// A turn's loss does not depend on the other turns, nor on the other dialogues of the batch; neither do gradients,
// which are sums.
func TestDialogueTurnsAreIndependent(t *testing.T) {
	long.Test(t)
	for _, c := range []struct{ name, pair string }{
		{"qwen2_5_vl", model.Frames},
		{"qwen2_5_vl", model.Sequence},
		{"qwen3_vl", model.Sequence},
		{"llavanext", model.Sequence},
	} {
		t.Run(c.name+" "+c.pair, func(t *testing.T) {
			tuner, err := dialogue.New("../../testdata/oracle/"+c.name+"/backbone", c.pair, []int{56, 56},
				model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer tuner.Close()
			open := func(name string) *data.Picture {
				p, err := data.Open("../../testdata/oracle/images/"+name, data.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			a, b := open("coffee.png"), open("coffee_blur.png")
			turns := []dialogue.Turn{
				{Question: "blur the picture", Answer: "yes", Weight: 2},
				{Question: "make it a good deal brighter than it was", Answer: "no, that was not done", Weight: 0.5},
				{Question: "what was done?", Answer: "blurry", Weight: 1},
			}
			prepare := func(source, edit *data.Picture, turns ...dialogue.Turn) *dialogue.Sample {
				s, err := tuner.Prepare(dialogue.Dialogue{Source: source, Edit: edit, Turns: turns})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			step := func(samples ...*dialogue.Sample) *dialogue.Result {
				r, err := tuner.Step(context.Background(), samples, 1)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			together := step(prepare(a, b, turns...), prepare(b, a, turns[1]))
			alone := []*dialogue.Result{
				step(prepare(a, b, turns[0])),
				step(prepare(a, b, turns[1])),
				step(prepare(a, b, turns[2])),
				step(prepare(b, a, turns[1])),
			}
			for i := range 3 {
				if d := math.Abs(together.First[0][i] - alone[i].First[0][0]); !(d <= 1e-5) {
					t.Errorf("turn %d: %g beside others, %g alone", i, together.First[0][i], alone[i].First[0][0])
				}
			}
			sum := alone[0].Loss[0] + alone[1].Loss[0] + alone[2].Loss[0]
			if !(math.Abs(together.Loss[0]-sum) <= 1e-4) || !(math.Abs(together.Loss[1]-alone[3].Loss[0]) <= 1e-4) {
				t.Errorf("losses %v, want %g and %g", together.Loss, sum, alone[3].Loss[0])
			}
			names, _ := tuner.Params()
			for _, name := range names {
				got := together.Grads[name].Float32s()
				worst, largest := 0.0, 0.0
				for i, v := range got {
					want := 0.0
					for _, r := range alone {
						want += float64(r.Grads[name].Float32s()[i])
					}
					worst, largest = max(worst, math.Abs(float64(v)-want)), max(largest, math.Abs(want))
				}
				if !(worst <= 1e-4*largest+1e-6) {
					t.Errorf("gradient of %s differs by %g of %g", name, worst, largest)
				}
			}
		})
	}
}

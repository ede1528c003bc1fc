package trainer

import (
	"math"
	"testing"

	"gorgonia.org/tensor"
)

// TestAdamWIsTorchs follows torch.optim.AdamW and clip_grad_norm_ over several steps, see tools/oracle/trainer.py.
func TestAdamWIsTorchs(t *testing.T) {
	var runs []struct {
		Betas       []float64
		Eps         float64
		WeightDecay float64 `json:"weight_decay"`
		Clip        float64
		Shapes      [][]int
		Start       [][]float32
		Steps       []struct {
			LR     float64
			Norm   float64
			Grads  [][]float32
			Params [][]float32
		}
	}
	readJSON(t, "testdata/adamw.json", &runs)
	for r, run := range runs {
		var params []Param
		for i, s := range run.Start {
			params = append(params, Param{string(rune('a' + i)), tensor.New(tensor.WithShape(run.Shapes[i]...), tensor.WithBacking(s))})
		}
		a := NewAdamW(OptimizerConfig{Betas: run.Betas, Eps: run.Eps, WeightDecay: run.WeightDecay}, params)
		for i, s := range run.Steps {
			n := norm(s.Grads)
			if math.Abs(n-s.Norm) > 1e-6*s.Norm {
				t.Errorf("run %d, step %d: norm %g, torch has %g", r, i, n, s.Norm)
			}
			clip(s.Grads, n, run.Clip)
			a.Update(params, s.Grads, s.LR)
			for k, p := range params {
				if d := far(p.Value.Float32s(), s.Params[k]); d > 3e-7 {
					t.Errorf("run %d, step %d, parameter %d: %g from torch's", r, i, k, d)
				}
			}
		}
	}
}

func TestNormOfManyBlocks(t *testing.T) {
	g := make([]float32, 3*block+5)
	for i := range g {
		g[i] = 0.5
	}
	want := 0.5 * math.Sqrt(float64(len(g)))
	if got := norm([][]float32{g, nil}); math.Abs(got-want) > 1e-9 {
		t.Errorf("%g, want %g", got, want)
	}
	clip([][]float32{g}, want, want/2)
	if math.Abs(float64(g[len(g)-1])-0.25) > 1e-7 {
		t.Error("clipped to", g[len(g)-1])
	}
}

func TestCheckParams(t *testing.T) {
	good := tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Float32))
	view, err := tensor.New(tensor.WithShape(4, 3), tensor.Of(tensor.Float32)).Slice(nil, tensor.S(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, params := range map[string][]Param{
		"none":  nil,
		"wide":  {{"a", tensor.New(tensor.WithShape(2), tensor.Of(tensor.Float64))}},
		"view":  {{"a", view.(*tensor.Dense)}},
		"twice": {{"a", good}, {"a", good}},
		"nil":   {{"a", nil}},
	} {
		if checkParams(params) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := checkParams([]Param{{"a", good}}); err != nil {
		t.Error(err)
	}
}

// TestScheduleOfTheOracle has the learning rates of train_trace_frames.json (oracle README: linear warm-up of (t + 1)/4,
// then half a cosine to 0 at step 10).
func TestScheduleOfTheOracle(t *testing.T) {
	c := Default()
	c.Optimizer.LR = 0.002
	c.Schedule = ScheduleConfig{Kind: "cosine", Warmup: 4}
	s := NewSchedule(c, 10)
	want := []float64{0.0005, 0.001, 0.0015, 0.002, 0.002, 0.001866025403784439, 0.0015, 0.001, 0.0005000000000000002, 0.0001339745962155613}
	for i, w := range want {
		if got := s.LR(int64(i)); math.Abs(got-w) > 1e-18 {
			t.Errorf("step %d: %v, want %v", i, got, w)
		}
	}
}

func TestSchedules(t *testing.T) {
	c := Default()
	c.Optimizer.LR = 1
	c.Schedule = ScheduleConfig{Kind: "linear", Warmup: 0.1, MinLR: 0.2}
	s := NewSchedule(c, 50)
	if s.Warmup != 5 {
		t.Error("a tenth of 50 steps is", s.Warmup)
	}
	for step, want := range map[int64]float64{0: 0.2, 4: 1, 5: 1, 14: 0.84, 50: 0.2} {
		if got := s.LR(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %g, want %g", step, got, want)
		}
	}
	c.Schedule = ScheduleConfig{Kind: "constant"}
	if s := NewSchedule(c, 3); s.LR(0) != 1 || s.LR(2) != 1 {
		t.Error("constant is not")
	}
}

// A scalar is a parameter like any other; its tensor's DataSize is 0.
func TestAdamWUpdatesScalars(t *testing.T) {
	p := []Param{{Name: "logit_scale", Value: tensor.New(tensor.FromScalar(float32(2)))}}
	a := NewAdamW(OptimizerConfig{Betas: []float64{0.9, 0.98}, Eps: 1e-8}, p)
	a.Update(p, [][]float32{{3}}, 0.5)
	if got := p[0].Value.ScalarValue().(float32); math.Abs(float64(got)-1.5) > 1e-6 { // the first step is lr long
		t.Errorf("2 became %g, want 1.5", got)
	}
}

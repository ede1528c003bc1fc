package optim

import (
	"fmt"
	"math"
	"testing"

	"assay/internal/oracle"
	"assay/internal/testfile"

	"gorgonia.org/tensor"
)

// TestAdamWIsTorchs follows torch.optim.AdamW and clip_grad_norm_ over several steps, see tools/oracle/trainer.py.
func TestAdamWIsTorchs(t *testing.T) {
	var runs []struct {
		Betas       [2]float64
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
	testfile.ReadJSON(t, "testdata/adamw.json", &runs)
	for r, run := range runs {
		t.Run(fmt.Sprintf("run %d", r), func(t *testing.T) {
			var params []Param
			for i, s := range run.Start {
				params = append(
					params,
					Param{Name: string(rune('a' + i)), Value: tensor.New(tensor.WithShape(run.Shapes[i]...), tensor.WithBacking(s))},
				)
			}
			a := NewAdamW(params, run.Betas, run.Eps, run.WeightDecay)
			for i, s := range run.Steps {
				n := Root(Squares(s.Grads))
				if !(math.Abs(n-s.Norm) <= 1e-6*s.Norm) {
					t.Errorf("run %d, step %d: got norm %g, want torch's %g", r, i, n, s.Norm)
				}
				Clip(s.Grads, n, run.Clip)
				a.Update(params, s.Grads, s.LR)
				for k, p := range params {
					if d := oracle.Far(p.Value.Float32s(), s.Params[k]); !(d <= 3e-7) {
						t.Errorf("run %d, step %d, parameter %d: got values %g away, want at most 3e-7 from torch's", r, i, k, d)
					}
				}
			}
		})
	}
}

func TestNormOfManyBlocks(t *testing.T) {
	g := make([]float32, 3*Block+5)
	for i := range g {
		g[i] = 0.5
	}
	want := 0.5 * math.Sqrt(float64(len(g)))
	if got := Root(Squares([][]float32{g, nil})); !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("%g, want %g", got, want)
	}
	Clip([][]float32{g}, want, want/2)
	if !(math.Abs(float64(g[len(g)-1])-0.25) <= 1e-7) {
		t.Errorf("last gradient: got %v after clipping, want 0.25", g[len(g)-1])
	}
}

func TestCheck(t *testing.T) {
	good := tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Float32))
	view, err := tensor.New(tensor.WithShape(4, 3), tensor.Of(tensor.Float32)).Slice(nil, tensor.S(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, params := range map[string][]Param{
		"none":  nil,
		"wide":  {{Name: "a", Value: tensor.New(tensor.WithShape(2), tensor.Of(tensor.Float64))}},
		"view":  {{Name: "a", Value: view.(*tensor.Dense)}},
		"twice": {{Name: "a", Value: good}, {Name: "a", Value: good}},
		"nil":   {{Name: "a", Value: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			if Check(params) == nil {
				t.Errorf("%s: got no error for %v, want one", name, params)
			}
		})
	}
	if err := Check([]Param{{Name: "a", Value: good}}); err != nil {
		t.Error(err)
	}
}

// A scalar is a parameter like any other; its tensor's DataSize is 0.
func TestAdamWUpdatesScalars(t *testing.T) {
	p := []Param{{Name: "logit_scale", Value: tensor.New(tensor.FromScalar(float32(2)))}}
	a := NewAdamW(p, [2]float64{0.9, 0.98}, 1e-8, 0)
	a.Update(p, [][]float32{{3}}, 0.5)
	if got := p[0].Value.ScalarValue().(float32); !(math.Abs(float64(got)-1.5) <= 1e-6) { // the first step is lr long
		t.Errorf("2 became %g, want 1.5", got)
	}
}

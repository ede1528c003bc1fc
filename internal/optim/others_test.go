package optim

import (
	"math"
	"testing"

	"assay/internal/oracle"
	"assay/internal/testfile"

	"gorgonia.org/tensor"
)

// TestOthersAreTheirReferences follows torch.optim.Adafactor, lion-pytorch and transformers' schedules, see
// tools/oracle/optim.py.
func TestOthersAreTheirReferences(t *testing.T) {
	var all struct {
		Runs []struct {
			Name        string
			WeightDecay float64 `json:"weight_decay"`
			D           float64
			Shapes      [][]int
			Start       [][]float32
			Steps       []struct {
				LR            float64
				Grads, Params [][]float32
			}
		}
		Schedules []struct {
			Kind string
			LRs  []float64
		}
	}
	testfile.ReadJSON(t, "testdata/others.json", &all)
	for _, run := range all.Runs {
		t.Run(run.Name, func(t *testing.T) {
			var params []Param
			for i, s := range run.Start {
				v := tensor.New(tensor.WithShape(run.Shapes[i]...), tensor.WithBacking(s))
				params = append(params, Param{Name: string(rune('a' + i)), Value: v})
			}
			var o Optimizer = NewLion(params, [2]float64{0.9, 0.99}, run.WeightDecay)
			if run.Name == "adafactor" {
				a := NewAdafactor(params, run.WeightDecay)
				if run.D > 0 {
					a.D = run.D
				}
				o = a
			}
			for i, s := range run.Steps {
				o.Update(params, s.Grads, s.LR)
				for k, p := range params {
					if d := oracle.Far(p.Floats(), s.Params[k]); !(d <= 1e-6) {
						t.Errorf("%s, step %d, parameter %d: got values %g away, want at most 1e-6 from the reference's", run.Name, i, k,
							d)
					}
				}
			}
			if n := o.Updates(); n != int64(len(run.Steps)) {
				t.Errorf("%s: got %d updates, want %d", run.Name, n, len(run.Steps))
			}
		})
	}
	for _, c := range all.Schedules {
		t.Run(c.Kind, func(t *testing.T) {
			s := Schedule{Kind: c.Kind, Peak: 2, Total: 30, Cycles: 3, Decay: 8}
			if c.Kind == "wsd" {
				s.End = 0.2
			}
			for i, want := range c.LRs {
				if got := s.LR(int64(i)); !(math.Abs(got-want) <= 1e-12) {
					t.Errorf("%s, step %d: %v, transformers has %v", c.Kind, i, got, want)
				}
			}
		})
	}
}

// TestStateIsAllOfIt: an optimizer that restores another's state continues like it.
func TestStateIsAllOfIt(t *testing.T) {
	makers := map[string]func([]Param) Optimizer{
		"adamw":     func(p []Param) Optimizer { return NewAdamW(p, [2]float64{0.9, 0.99}, 1e-8, 0.1) },
		"lion":      func(p []Param) Optimizer { return NewLion(p, [2]float64{0.9, 0.99}, 0.1) },
		"adafactor": func(p []Param) Optimizer { return NewAdafactor(p, 0.1) },
		"adamw8":    func(p []Param) Optimizer { return NewAdamW8(p, [2]float64{0.9, 0.99}, 1e-8, 0.1) },
	}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			fresh := func() []Param {
				return []Param{
					{Name: "a", Value: tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{1, 2, 3, 4, 5, 6}))},
					{Name: "b", Value: tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, -1}))},
				}
			}
			grads := func(i int) [][]float32 {
				x := float32(i + 1)
				return [][]float32{{x, -1, 2, 0.5 * x, 3, -x}, {x, 0.25}}
			}
			p, q := fresh(), fresh()
			a, b := make(p), make(q)
			for i := range 6 {
				a.Update(p, grads(i), 0.1)
				if i < 3 {
					b.Update(q, grads(i), 0.1)
				} else if i == 3 {
					c := make(q)
					for k, s := range c.State() {
						copy(s.Values, b.State()[k].Values)
					}
					c.SetUpdates(b.Updates())
					b = c
				}
				if i >= 3 {
					b.Update(q, grads(i), 0.1)
				}
			}
			for k := range p {
				if oracle.Far(p[k].Floats(), q[k].Floats()) != 0 {
					t.Errorf("%s: %v, want %v", name, q[k].Floats(), p[k].Floats())
				}
			}
		})
	}
}

func TestDecayed(t *testing.T) {
	p := []Param{
		{Name: "layers.0.weight", Value: tensor.New(tensor.WithShape(1, 1), tensor.WithBacking([]float32{1}))},
		{Name: "layers.0.bias", Value: tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1}))},
		{Name: "score_token.embedding", Value: tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1}))},
	}
	d := Decayed(p, func(name string) bool { return name == "score_token.embedding" })
	a := NewAdamW(p, [2]float64{0.9, 0.99}, 1e-8, 0.5)
	a.Decayed = d
	a.Update(p, [][]float32{{0}, {0}, {0}}, 0.1)
	for i, want := range []float32{0.95, 1, 0.95} {
		if got := p[i].Floats()[0]; !(math.Abs(float64(got-want)) <= 1e-6) {
			t.Errorf("%s: %g, want %g", p[i].Name, got, want)
		}
	}
}

// TestLionSign: a value with zero direction only decays, because sign(0) is 0; the others move by the rate.
func TestLionSign(t *testing.T) {
	value := tensor.New(tensor.WithShape(3), tensor.WithBacking([]float32{1, 1, 1}))
	l := NewLion([]Param{{Name: "a", Value: value}}, [2]float64{0.5, 0.5}, 0.5)
	l.Update([]Param{{Name: "a", Value: value}}, [][]float32{{0, 0.25, -0.25}}, 0.125)
	if got, want := value.Data().([]float32), []float32{0.9375, 0.8125, 1.0625}; oracle.Far(got, want) != 0 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := l.M[0], []float32{0, 0.125, -0.125}; oracle.Far(got, want) != 0 {
		t.Errorf("momentum: got %v, want %v", got, want)
	}
}

package optimizer

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/internal/exit"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

func param(name string, values ...float32) optim.Param {
	return optim.Param{Name: name, Value: dense(values...)}
}

func dense(values ...float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(values)), tensor.WithBacking(values))
}

// TestSteps: gradients of micro-batches are summed, clipped to the norm, and applied with the rates of their groups.
func TestSteps(t *testing.T) {
	c := config.Default()
	c.Optimizer.Name, c.Optimizer.LR, c.ClipNorm = "lion", 0.5, 1
	rate, decay := 0.25, 0.0
	c.Optimizer.Groups = &config.GroupsConfig{Head: &config.GroupConfig{LR: &rate, WeightDecay: &decay}}
	params := []optim.Param{param("layers.0.bias", 1, 1), param("score_token.embedding", 2)}
	o, err := New(c, nil, params, params)
	if err != nil {
		t.Fatal(err)
	}
	o.MakeGrads()
	if err := o.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, grads := range [][]*tensor.Dense{{dense(1, -2), dense(1)}, {dense(2, -2), dense(-1)}} {
		if err := o.Check(grads); err != nil {
			t.Fatal(err)
		}
		o.Add(grads)
	}
	norm, err := o.Sum(t.Context())
	if err != nil || !(math.Abs(norm-5) <= 1e-6) {
		t.Fatalf("got a norm of %g, %v, want 5", norm, err)
	}
	m := &records.StepMetrics{}
	rates := o.Rates(m, 0, nil)
	if m.LR != 0.5 || m.LRs["head"] != 0.25 {
		t.Errorf("got rates %g and %v, want 0.5 and 0.25 of the head", m.LR, m.LRs)
	}
	o.Apply(norm, rates)
	if d := cmp.Diff([]float32{0.75, 1.25}, params[0].Floats()); d != "" { // Lion's updates are signs
		t.Errorf("head: want -, got +:\n%s", d)
	}
	if d := cmp.Diff([]float32{2}, params[1].Floats()); d != "" {
		t.Errorf("rows: want -, got +:\n%s", d)
	}
}

// TestChecks: gradients with wrong shapes and groups without tensors are refused.
func TestChecks(t *testing.T) {
	c := config.Default()
	params := []optim.Param{param("layers.0.bias", 1, 1)}
	o, err := New(c, nil, params, params)
	if err != nil {
		t.Fatal(err)
	}
	for name, grads := range map[string][]*tensor.Dense{"none": {}, "another shape": {dense(1)}, "nil": {nil}} {
		t.Run(name, func(t *testing.T) {
			if o.Check(grads) == nil {
				t.Error("got no error, want one")
			}
		})
	}
	c.Optimizer.Groups = &config.GroupsConfig{Vision: &config.GroupConfig{}}
	if _, err := GroupsOf(c, params); exit.Code(err) != exit.Wrong {
		t.Errorf("got %v, want wrong usage: no tensor in vision trains", err)
	}
}

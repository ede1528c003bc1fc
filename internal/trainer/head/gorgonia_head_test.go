package head

import (
	"fmt"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/optim"
	"assay/internal/oracle"
	"assay/internal/testfile"
	"assay/model"
)

// TestHeadIsTorchs compares scores, losses and gradients with tools/oracle/trainer.py's, twice, so that a stale graph
// or one that overwrites its inputs is noticed.
func TestHeadIsTorchs(t *testing.T) {
	var cases []struct {
		Kind      string
		Hidden    []int
		In        int
		Values    []float64
		Weight    float64
		X         [][]float32
		Labels    []float64
		Score     []float64
		ScoreLoss []float64 `json:"score_loss"`
		Params    map[string]struct {
			Shape       []int
			Value, Grad []float32
		}
	}
	testfile.ReadJSON(t, "testdata/heads.json", &cases)
	for i, c := range cases {
		head := model.HeadConfig{Hidden: c.Hidden, Kind: c.Kind, Values: c.Values}
		var params []optim.Param
		for l := range len(c.Hidden) + 1 {
			for _, k := range []string{"weight", "bias"} {
				name := fmt.Sprintf("layers.%d.%s", l, k)
				p := c.Params[name]
				params = append(
					params,
					optim.Param{
						Name:  name,
						Value: tensor.New(tensor.WithShape(p.Shape...), tensor.WithBacking(append([]float32{}, p.Value...))),
					},
				)
			}
		}
		h, err := NewGorgonia(head, params)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			r, err := h.Run(c.X, c.Labels, 10*c.Weight)
			if err != nil {
				t.Fatalf("case %d: %v", i, err)
			}
			if d := oracle.Far(r.Score, c.Score); !(d <= 1e-5) {
				t.Errorf("case %d, round %d: scores differ by %g", i, round, d)
			}
			if d := oracle.Far(r.Loss, c.ScoreLoss); !(d <= 1e-5) {
				t.Errorf("case %d, round %d: losses differ by %g: %v %v", i, round, d, r.Loss, c.ScoreLoss)
			}
			for k, p := range params {
				if d := oracle.Far(r.Grads[k].Float32s(), c.Params[p.Name].Grad); !(d <= 1e-5) {
					t.Errorf("case %d, round %d: gradient of %s differs by %g", i, round, p.Name, d)
				}
				if oracle.Far(p.Value.Float32s(), c.Params[p.Name].Value) != 0 {
					t.Errorf("case %d: %s was changed", i, p.Name)
				}
			}
		}
	}
}

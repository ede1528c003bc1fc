package losses

import (
	"context"
	"fmt"
	"math"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/testfile"
	"assay/onnx"
	"assay/onnx/grad"
	"assay/ort"
)

// torchCase is a case of testdata/torch.json (tools/oracle/losses.py).
type torchCase struct {
	Name    string
	Spec    Spec
	Outputs string
	Values  []float64
	Z, Grad [][]float64
	Items   []Item
	Draws   []float64
	Losses  []float64
	Loss    float64

	Cuts     []float64 // of learned cuts
	GradCuts []float64 `json:"grad_cuts"`
}

func torchCases(t *testing.T) (cases []torchCase) {
	t.Helper()
	testfile.ReadJSON(t, "testdata/torch.json", &cases)
	return cases
}

// result is the output of a graph for a case.
type result struct {
	losses, grad []float64
	cuts         []float64 // gradient of learned cuts
	loss         float64
}

// evaluate builds the graph of one loss in the given type, differentiates it and runs it.
func evaluate(t *testing.T, c *torchCase, dtype onnx.DType) (*result, error) {
	t.Helper()
	if p := c.Spec.Check(); len(p) > 0 {
		t.Fatalf("Check: got problems %v, want none", p)
	}
	n, k := len(c.Z), len(c.Z[0])
	b := onnx.NewBuilder("loss", 23)
	head := Head{Outputs: c.Outputs, Z: b.Input("z", dtype, onnx.Dims("examples", k)), Values: c.Values}
	if c.Outputs != Classes {
		head.Score = b.OpA("Gather", onnx.Attrs{"axis": 1}, head.Z, b.Int(0))
	}
	sum, err := Build(b, 3, c.Spec, head, dtype)
	if err != nil {
		t.Fatal(err)
	}
	b.Output("sum", sum, dtype, onnx.Dims(1))
	wrt, learned := []string{"z"}, Parameters(3, &c.Spec)
	for _, p := range learned {
		wrt = append(wrt, p.Name)
	}
	grads, err := grad.Append(b.M, grad.Options{Outputs: []string{"sum"}, Wrt: wrt})
	if err != nil {
		t.Fatal(err)
	}
	onnx.Extend(b.M).Output("dz", grads["z"], dtype, onnx.Dims("examples", k))
	for _, p := range learned {
		onnx.Extend(b.M).Output("dcuts", grads[p.Name], dtype, onnx.Dims(len(p.Value)))
	}
	s, err := ort.Open(b.M, ort.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// The edits are in a different order in the graph.
	place := func(e int) int { return n - 1 - e }
	feeds, rows, err := Feeds(3, c.Spec, head, c.Items, n, place, 1)
	if err != nil {
		t.Fatal(err)
	}
	z := make([]float64, n*k)
	for i, row := range c.Z {
		copy(z[place(i)*k:], row)
	}
	feeds["z"] = dense(onnx.Float, z, n, k)
	if len(c.Draws) > 0 {
		feeds[Name(3, "draws")] = dense(onnx.Float, c.Draws, len(c.Draws))
	}
	for _, p := range learned {
		feeds[p.Name] = dense(onnx.Double, c.Cuts, len(c.Cuts))
		if dtype == onnx.Float {
			feeds[p.Name] = dense(onnx.Float, c.Cuts, len(c.Cuts))
		}
	}
	in := map[string]*tensor.Dense{}
	for _, v := range b.M.Inputs {
		in[v.Name] = feeds[v.Name]
		if v.Type == onnx.Double {
			in[v.Name] = dense(dtype, floats(feeds[v.Name]), feeds[v.Name].Shape()...)
		}
	}
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	r := &result{losses: rows.Sum(floats(out[Name(3, Out)]), len(c.Items)), loss: floats(out["sum"])[0]}
	if len(learned) > 0 {
		r.cuts = floats(out["dcuts"])
	}
	g := floats(out["dz"])
	for i := range n {
		r.grad = append(r.grad, g[place(i)*k:(place(i)+1)*k]...)
	}
	return r, nil
}

func dense(t onnx.DType, v []float64, shape ...int) *tensor.Dense {
	if t == onnx.Double {
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))
	}
	single := make([]float32, len(v))
	for i := range v {
		single[i] = float32(v[i])
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(single))
}

func floats(d *tensor.Dense) []float64 {
	switch v := d.Data().(type) {
	case []float64:
		return v
	case []float32:
		out := make([]float64, len(v))
		for i := range v {
			out[i] = float64(v[i])
		}
		return out
	}
	panic(fmt.Sprintf("%T", d.Data()))
}

// near compares relative to the larger of 1 and the value.
func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(got[i]-want[i]) / math.Max(1, math.Abs(want[i])); !(d <= tolerance) {
			t.Errorf("%s: %d is %.17g, torch has %.17g (%.2g off)", what, i, got[i], want[i], d)
		}
	}
}

// TestAgainstTorch compares values and gradients with torch's in float64: in double precision, and in float32 as in
// training.
func TestAgainstTorch(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range torchCases(t) {
		seen[c.Spec.Kind] = true
		t.Run(fmt.Sprintf("%s/%s", c.Spec.Kind, c.Name), func(t *testing.T) {
			var grad []float64
			for _, row := range c.Grad {
				grad = append(grad, row...)
			}
			// Torch's own formulas subtract numbers of 10,000, whose spacing is 2e-12.
			for dtype, tolerance := range map[onnx.DType]float64{onnx.Double: 1e-11, onnx.Float: 2e-6} {
				r, err := evaluate(t, &c, dtype)
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprint(dtype)
				near(t, what+" losses", r.losses, c.Losses, tolerance)
				near(t, what+" sum", []float64{r.loss}, []float64{c.Loss}, tolerance)
				near(t, what+" gradient", r.grad, grad, tolerance)
				near(t, what+" gradient of the cuts", r.cuts, c.GradCuts, tolerance)
			}
		})
	}
	for _, row := range Table() {
		if !seen[row.Kind] && row.build != nil {
			t.Errorf("got no case of %s, want at least one", row.Kind)
		}
	}
}

// TestNoItems: a run with nothing to compare has no loss and no gradient.
func TestNoItems(t *testing.T) {
	for _, c := range torchCases(t) {
		c.Items, c.Draws = nil, nil
		r, err := evaluate(t, &c, onnx.Float)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range append(r.grad, r.loss) {
			if g != 0 {
				t.Fatalf("%s: got loss %v, gradient %v, want zeros", c.Spec.Kind, r.loss, r.grad)
			}
		}
	}
}

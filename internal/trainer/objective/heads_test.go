package objective

import (
	"context"
	"math"
	"testing"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/internal/testfile"
	"assay/internal/trainer/dataset"
	"assay/losses"
	"assay/onnx"
	"assay/onnx/grad"
	"assay/ort"
)

// headsCase is testdata/heads.json (tools/oracle/heads.py).
type headsCase struct {
	Terms []losses.Spec
	Heads map[string]struct {
		Outputs string
		Z, Grad [][]float64
	}
	Values []float64
	Labels []map[string]float64
	Losses []float64
	Loss   float64
}

// TestMissingLabels: for a batch whose edits lack labels for most heads, run in parts, the loss of each head, their
// sum and its gradient match torch's over the existing labels.
func TestMissingLabels(t *testing.T) {
	var c headsCase
	testfile.ReadJSON(t, "testdata/heads.json", &c)
	for i := range c.Terms {
		if p := c.Terms[i].Check(); p != nil {
			t.Fatalf("Check: got problems %v, want none", p)
		}
	}
	var parts [][][]losses.Item
	o, size := New(c.Terms, nil), 5
	for lo := 0; lo < len(c.Labels); lo += size {
		var part []dataset.Example
		for i, labels := range c.Labels[lo:min(lo+size, len(c.Labels))] {
			part = append(part, dataset.Example{Index: lo + i, Unit: i, Annotations: data.Annotations{Labels: labels}})
		}
		parts = append(parts, o.Items(part))
	}
	Normalize(parts)
	sum, terms := 0.0, make([]float64, len(c.Terms))
	for k, s := range c.Terms {
		head := c.Heads[s.Dimension]
		for p, items := range parts {
			rows := head.Z[p*size : min((p+1)*size, len(head.Z))]
			loss, each, grads := runTerm(t, k, s, losses.Head{Outputs: head.Outputs, Values: c.Values}, rows, items[k])
			sum += loss
			for i, it := range items[k] {
				terms[k] += it.Weight * each[i]
			}
			for i := range rows {
				for j, want := range head.Grad[p*size+i] {
					if got := grads[i*len(rows[i])+j]; !(math.Abs(got-want) <= 1e-11) {
						t.Errorf("%s, edit %d, output %d: got gradient %g, torch has %g", s.Dimension, p*size+i, j, got, want)
					}
				}
			}
		}
		if !(math.Abs(terms[k]-c.Losses[k]) <= 1e-11) {
			t.Errorf("%s of %s: got loss %.9g, torch has %.9g", s.Kind, s.Dimension, terms[k], c.Losses[k])
		}
	}
	if !(math.Abs(sum-c.Loss) <= 1e-11) {
		t.Errorf("got sum %.9g, torch has %.9g", sum, c.Loss)
	}
}

// runTerm returns a term's share of the sum, the losses of its items, and the gradient with respect to the head's
// outputs.
func runTerm(t *testing.T, k int, s losses.Spec, head losses.Head, rows [][]float64, items []losses.Item) (
	sum float64, each, gradient []float64,
) {
	t.Helper()
	n, width := len(rows), len(rows[0])
	b := onnx.NewBuilder("loss", 23)
	head.Z = b.Input("z", onnx.Double, onnx.Dims("examples", width))
	if head.Outputs != losses.Classes {
		head.Score = b.OpA("Gather", onnx.Attrs{"axis": 1}, head.Z, b.Int(0))
	}
	out, err := losses.Build(b, k, s, head, onnx.Double)
	if err != nil {
		t.Fatal(err)
	}
	b.Output("sum", out, onnx.Double, onnx.Dims(1))
	grads, err := grad.Append(b.M, grad.Options{Outputs: []string{"sum"}, Wrt: []string{"z"}})
	if err != nil {
		t.Fatal(err)
	}
	onnx.Extend(b.M).Output("dz", grads["z"], onnx.Double, onnx.Dims("examples", width))
	session, err := ort.Open(b.M, ort.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	feeds, of, err := losses.Feeds(k, s, head, items, n, func(e int) int { return e }, 1)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*tensor.Dense{}
	for _, v := range b.M.Inputs {
		switch d := feeds[v.Name]; {
		case v.Name == "z":
			var z []float64
			for _, row := range rows {
				z = append(z, row...)
			}
			in["z"] = tensor.New(tensor.WithShape(n, width), tensor.WithBacking(z))
		case v.Name == losses.Name(k, "weight") && len(items) > 0: // which training rounds to float32
			var weights []float64
			for _, it := range items {
				weights = append(weights, it.Weight)
			}
			in[v.Name] = tensor.New(tensor.WithShape(len(items)), tensor.WithBacking(weights))
		case v.Type == onnx.Double:
			in[v.Name] = tensor.New(tensor.WithShape(d.Shape()...), tensor.WithBacking(doubles(d.Data().([]float32))))
		default:
			in[v.Name] = d
		}
	}
	got, err := session.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	values := func(name string) []float64 { return got[name].Data().([]float64) }
	return values("sum")[0], of.Sum(values(losses.Name(k, losses.Out)), len(items)), values("dz")
}

func doubles(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

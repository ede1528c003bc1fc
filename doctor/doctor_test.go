package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/long"
	"assay/onnx"
)

// TestCPU visits this machine: nothing is wrong with it, and every part of the report is there.
func TestCPU(t *testing.T) {
	long.Test(t)
	r, err := Run(t.Context(), Options{Device: "cpu", Steps: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Err() != nil || r.Device != "cpu" || len(r.Traces) != 2 || len(r.Placement) != 1 || len(r.Speed) != 1 {
		text, _ := json.MarshalIndent(r, "", " ")
		t.Fatalf("%v: %s", r.Err(), text)
	}
	for _, c := range r.Traces {
		if len(c.Losses) != 3 || c.Worst == "" || !c.Same {
			t.Errorf("%+v", c)
		}
	}
	p := r.Placement[0]
	if p.Ran["CPUExecutionProvider"] < p.Nodes/4 || len(p.Ran) != 1 || len(p.Without) > 0 || p.Release == "" {
		t.Errorf("%+v", p)
	}
	if s := r.Speed[0]; s.Tokens <= 0 || s.Peak <= 0 || s.Share <= 0 {
		t.Errorf("%+v", s)
	}
	var tried []string
	for _, row := range r.Rows {
		tried = append(tried, row.Part)
		if row.Error != "" || row.Seconds <= 0 || row.Part != "scoring" && row.Worst == "" {
			t.Errorf("%+v", row)
		}
	}
	if diff := cmp.Diff(Parts()[2:], tried); diff != "" {
		t.Error(diff)
	}
	if r.Memory.Planned <= 0 || r.Memory.Measured <= 0 || r.Model.Decoder <= 0 || r.Machine.Runtime == "" ||
		!strings.Contains(strings.Join(r.Machine.Libraries, " "), "onnxruntime") {
		t.Errorf("%+v, %+v, %+v", r.Memory, r.Model, r.Machine)
	}
}

// TestParts: the parts that are asked for, and a failing one is a row with its error.
func TestParts(t *testing.T) {
	if _, err := Run(t.Context(), Options{Device: "cpu", Parts: []string{"scoring", "colours"}}); err == nil ||
		!strings.Contains(err.Error(), "colours") {
		t.Error(err)
	}
	defer func(was []part) { parts = was }(parts)
	parts = append([]part{{"broken", func(*doctor, context.Context, way) (values, error) {
		return nil, errors.New("it is broken")
	}}}, parts...)
	r, err := Run(t.Context(), Options{Device: "cpu", Parts: []string{"broken", "scoring"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Error != "it is broken" || !r.Rows[1].Same || len(r.Problems) != 1 ||
		len(r.Traces)+len(r.Placement)+len(r.Speed) > 0 || r.Err() == nil {
		t.Errorf("%+v", r)
	}
	nan := float32(math.NaN())
	for _, off := range []values{{"a": {1, nan}}, {"a": {2, 1}}, {}, {"a": {1}}} {
		if r := beside(values{"a": {1, 1}}, off); r.within("bfloat16") {
			t.Errorf("%v: %+v", off, r)
		}
	}
	for _, off := range []values{{"loss": {2, nan}, "score": {1}}, {"loss": {2, 4}, "score": {0.5}}} {
		if r := beside(values{"loss": {2, 4}, "score": {1}}, off); r.within("bfloat16") {
			t.Errorf("%v: %+v", off, r)
		}
	}
}

// TestFaultsAreSeen: a gradient that is off, one that is not finite, and a node that strayed from the GPU.
func TestFaultsAreSeen(t *testing.T) {
	want := &traced{losses: []float64{1, 2}, gradients: map[string][]float32{"a": {1, 2}, "b": {0, 4}}}
	off := &traced{losses: []float64{1, 2.2}, gradients: map[string][]float32{"a": {1, 2}, "b": {0, 3}}}
	if c := compare(want, off); c.Gradients != 0.25 || c.Worst != "b" || c.Loss < 0.0999 || c.Loss > 0.1001 {
		t.Errorf("%+v", c)
	}
	nan := float32(0)
	off.gradients["a"][1] = nan / nan
	if c := compare(want, off); c.Worst != "a" || c.Gradients < 1e300 {
		t.Errorf("%+v", c)
	}
	for _, far := range []float32{nan / nan, 1} { // where the reference is zero
		want.gradients, off.gradients = map[string][]float32{"A": {0, 0}}, map[string][]float32{"A": {0, far}}
		if c := compare(want, off); c.Worst != "A" || c.Gradients < 1e300 {
			t.Errorf("%v: %+v", far, c)
		}
	}
	if c := compare(want, want); c.Gradients != 0 {
		t.Errorf("%+v", c)
	}
	b := onnx.NewBuilder("graph", 23)
	b.Output("y", b.Op("Exp", b.Input("x", onnx.Float, onnx.Dims(2))), onnx.Float, onnx.Dims(2))
	prefix := filepath.Join(t.TempDir(), "profile")
	const trace = `[{"cat": "Session", "name": "run"},
{"cat": "Node", "name": "e_kernel_time", "args": {"op_name": "Exp", "provider": "CPUExecutionProvider", 
  "output_type_shape": [{"float": [2]}]}},
{"cat": "Node", "name": "e_kernel_time", "args": {"op_name": "Exp", "provider": "CPUExecutionProvider", 
  "output_type_shape": [{"float": [2]}]}},
{"cat": "Node", "name": "w_kernel_time", "args": {"op_name": "Where", "provider": "CPUExecutionProvider", 
  "output_type_shape": [{"float": [2304]}]}},
{"cat": "Node", "name": "x_kernel_time", "args": {"op_name": "Where", "provider": "CPUExecutionProvider", 
  "output_type_shape": [{"float": [1, 1, 2304, 2304]}]}},
{"cat": "Node", "name": "s_kernel_time", "args": {"op_name": "Shape", "provider": "CPUExecutionProvider", 
  "output_type_shape": [{"int64": [1]}]}},
{"cat": "Node", "name": "m_kernel_time", "args": {"op_name": "FusedMatMul", "provider": "CUDAExecutionProvider", 
  "output_type_shape": [{"float": [2]}]}}]`
	if err := os.WriteFile(prefix+"-1.json", []byte(trace), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := placed(prefix, []*onnx.Model{b.M}, true)
	if err != nil {
		t.Fatal(err)
	}
	if p.Strays["Exp"] != 1 || p.Strays["Shape"] != 0 || p.Ran["CPUExecutionProvider"] != 4 ||
		p.Strays["Where"] != 1 || p.Ran["CUDAExecutionProvider"] != 1 || len(p.Made) != 3 {
		t.Errorf("%+v", p)
	}
}

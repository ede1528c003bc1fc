package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/doctor/trial"
	"assay/internal/long"
	"assay/onnx"
)

// TestCPU checks this machine: every part runs and there are no problems.
func TestCPU(t *testing.T) {
	long.Test(t)
	r, err := run(t.Context(), "cpu", nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 || r.Device != "cpu" || len(r.Placement) != 1 {
		t.Fatalf("got problems %q on %s with %d placements, want none on cpu with 1", r.Problems, r.Device, len(r.Placement))
	}
	p := r.Placement[0]
	if p.Ran["CPUExecutionProvider"] < p.Nodes/4 || len(p.Ran) != 1 || len(p.Without) > 0 || p.Release == "" {
		t.Errorf("got placement %+v, want all nodes on the CPU", p)
	}
	var tried []string
	for _, row := range r.Rows {
		tried = append(tried, row.Part)
		if row.Error != "" || row.Seconds <= 0 || row.Part != "scoring" && row.Worst == "" {
			t.Errorf("got %+v, want no error, a time, and the worst gradient's name", row)
		}
	}
	if want := partNames()[1:]; !slices.Equal(tried, want) {
		t.Errorf("got parts %q, want %q", tried, want)
	}
}

// TestParts checks that only the chosen parts run; a failing part is a row with its error.
func TestParts(t *testing.T) {
	if _, err := run(t.Context(), "cpu", []string{"scoring", "colours"}, nil); err == nil {
		t.Error("got no error, want one of the unknown part colours")
	}
	defer func(was []part) { parts = was }(parts)
	parts = append([]part{{"broken", func(*visit, context.Context, trial.Way) (values, error) {
		return nil, errors.New("it is broken")
	}}}, parts...)
	r, err := run(t.Context(), "cpu", []string{"broken", "scoring"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Error != "it is broken" || !r.Rows[1].Same || len(r.Problems) != 1 ||
		len(r.Placement) > 0 {
		t.Errorf("got %+v, want a broken row, scoring that is the same, and one problem", r)
	}
}

// TestBeside: differences that are too large, NaN, or due to missing values are found.
func TestBeside(t *testing.T) {
	nan := float32(math.NaN())
	for _, off := range []values{{"a": {1, nan}}, {"a": {2, 1}}, {}, {"a": {1}}} {
		if r := beside(values{"a": {1, 1}}, off); r.within("bfloat16") {
			t.Errorf("beside(%v) = %+v, want a difference", off, r)
		}
	}
	for _, off := range []values{{"loss": {2, nan}, "score": {1}}, {"loss": {2, 4}, "score": {0.5}}} {
		if r := beside(values{"loss": {2, 4}, "score": {1}}, off); r.within("bfloat16") {
			t.Errorf("beside(%v) = %+v, want a difference", off, r)
		}
	}
}

// TestStrays: a node that ran on the host although there is a kernel is found.
func TestStrays(t *testing.T) {
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
		t.Errorf("got %+v, want strays Exp and Where, 4 nodes on the CPU, 1 on CUDA, 3 made", p)
	}
}

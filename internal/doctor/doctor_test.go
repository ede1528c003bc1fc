package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/ort"
)

// TestCPU checks this machine: no problems are found, and every part of the report is filled in.
func TestCPU(t *testing.T) {
	long.Test(t)
	var fused []string // ways
	if _, err := ort.FusedLibrary(); err == nil {
		fused = []string{"cpu, float32, fused kernels"}
	}
	r, err := Run(t.Context(), Options{Device: "cpu", Steps: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Err() != nil || r.Device != "cpu" || len(r.Traces) != 2+len(fused) ||
		r.Kernels != "plain (results on the CPU keep their bits)" {
		text, _ := json.MarshalIndent(r, "", " ")
		t.Fatalf("%v: %s", r.Err(), text)
	}
	if len(fused) > 0 && r.Traces[2].Way != fused[0] {
		t.Errorf("got a trace of %s, want one of %s", r.Traces[2].Way, fused[0])
	}
	for _, c := range r.Traces {
		if len(c.Losses) != 3 || c.Worst == "" || !c.Same {
			t.Errorf("%+v", c)
		}
	}
	if r.Memory.Planned <= 0 || r.Memory.Measured <= 0 || r.Machine.Runtime == "" ||
		!strings.Contains(strings.Join(r.Machine.Libraries, " "), "onnxruntime") {
		t.Errorf("%+v, %+v, %+v", r.Memory, r.Model, r.Machine)
	}
}

// TestFaultsAreSeen: a wrong gradient and one that is not finite are detected.
func TestFaultsAreSeen(t *testing.T) {
	want := &steps{losses: []float64{1, 2}, gradients: map[string][]float32{"a": {1, 2}, "b": {0, 4}}}
	off := &steps{losses: []float64{1, 2.2}, gradients: map[string][]float32{"a": {1, 2}, "b": {0, 3}}}
	if c := compare(want, off); c.Gradients != 0.25 || c.Worst != "b" || !(c.Loss >= 0.0999) || c.Loss > 0.1001 {
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
}

package grad_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/packed"
	"assay/internal/testfile"
	"assay/onnx"
	"assay/onnx/grad"
	"assay/ort"
)

// oracleFolders returns the fixture folders: the one in ASSAY_ORACLE, or both folders of the repository.
func oracleFolders() []string {
	if dir := os.Getenv("ASSAY_ORACLE"); dir != "" {
		return []string{dir}
	}
	return []string{"../../testdata/oracle", "../../testdata/oracle_b"}
}

type oracleCase struct {
	Inputs, Outputs []string
	Wrt             struct{ Inputs, Initializers []string }
	RTol, ATol      float64
}

// TestOracle compares forward values and gradients with PyTorch's, for every case of the fixtures.
func TestOracle(t *testing.T) {
	for _, root := range oracleFolders() {
		folders, err := filepath.Glob(filepath.Join(root, "onnx", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if archive := filepath.Join(root, "onnx.zip"); fileExists(archive) {
			more, err := filepath.Glob(filepath.Join(packed.Unpack(t, archive), "*"))
			if err != nil {
				t.Fatal(err)
			}
			folders = append(folders, more...)
		}
		if len(folders) < 32 {
			t.Fatalf("%s: got %d cases, want at least 32", root, len(folders))
		}
		for _, folder := range folders {
			for _, recompute := range []bool{false, true} {
				name := fmt.Sprintf("%s/%s/recompute=%v", filepath.Base(root), filepath.Base(folder), recompute)
				t.Run(name, func(t *testing.T) { runOracle(t, folder, recompute) })
			}
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func runOracle(t *testing.T, folder string, recompute bool) {
	var c oracleCase
	testfile.ReadJSON(t, filepath.Join(folder, "case.json"), &c)
	m, err := onnx.Read(filepath.Join(folder, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if recompute { // three arbitrary segments
		for i, n := range m.Nodes {
			n.Segment = fmt.Sprint("part", 3*i/len(m.Nodes))
		}
	}
	o := grad.Options{
		Outputs:    c.Outputs,
		Cotangents: map[string]string{},
		Wrt:        append(c.Wrt.Inputs, c.Wrt.Initializers...),
		Recompute:  recompute,
	}
	for _, out := range m.Outputs {
		ct := out
		ct.Name = "cotangent/" + out.Name
		m.Inputs = append(m.Inputs, ct)
		o.Cotangents[out.Name] = ct.Name
	}
	grads, err := grad.Append(m, o)
	if err != nil {
		t.Fatal(err)
	}
	for x, g := range grads {
		addOutput(t, m, "gradient/"+x, g)
	}
	in := readTensors(t, filepath.Join(folder, "inputs.safetensors"))
	for name, v := range readTensors(t, filepath.Join(folder, "cotangent.safetensors")) {
		in["cotangent/"+name] = v
	}
	got := runModel(t, m, in)
	for name, want := range readTensors(t, filepath.Join(folder, "outputs.safetensors")) {
		compare(t, name, got[name], want, c.RTol, c.ATol)
	}
	wants := readTensors(t, filepath.Join(folder, "grads.safetensors"))
	if len(wants) != len(o.Wrt) {
		t.Errorf("got %d gradients, want %d", len(wants), len(o.Wrt))
	}
	for name, want := range wants {
		compare(t, "gradient of "+name, got["gradient/"+name], want, c.RTol, c.ATol)
	}
}

// addOutput declares a value as graph output under another name.
func addOutput(t *testing.T, m *onnx.Model, name, value string) {
	t.Helper()
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	v := types.Of(value)
	m.Nodes = append(m.Nodes, &onnx.Node{Name: name, Op: "Identity", Inputs: []string{value}, Outputs: []string{name}})
	m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: name, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
}

func readTensors(t *testing.T, path string) map[string]*tensor.Dense {
	t.Helper()
	f, err := checkpoints.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]*tensor.Dense{}
	for _, name := range f.Names() {
		if out[name], err = f.Dense(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func runModel(t *testing.T, m *onnx.Model, in map[string]*tensor.Dense) map[string]*tensor.Dense {
	t.Helper()
	s, err := ort.Open(m, ort.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// numbers returns a tensor's elements as float64.
func numbers(t *testing.T, d *tensor.Dense) []float64 {
	t.Helper()
	switch v := d.Data().(type) {
	case float32:
		return []float64{float64(v)}
	case float64:
		return []float64{v}
	case []float32:
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out
	case []float64:
		return v
	}
	t.Fatalf("got a tensor of %T, want floating-point numbers", d.Data())
	return nil
}

func compare(t *testing.T, what string, got, want *tensor.Dense, rtol, atol float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: got %v, want a tensor", what, got)
		return
	}
	if g, w := fmt.Sprint(got.Shape()), fmt.Sprint(want.Shape()); g != w {
		t.Errorf("%s has shape %v, want %v", what, g, w)
		return
	}
	a, b := numbers(t, got), numbers(t, want)
	worst, at := 0.0, -1
	for i := range a {
		if d := math.Abs(a[i]-b[i]) / (atol + rtol*math.Abs(b[i])); !(d <= worst) {
			worst, at = d, i
		}
	}
	if !(worst <= 1) {
		t.Errorf("%s: element %d is %g, want %g (%.2g times the tolerance)", what, at, a[at], b[at], worst)
	}
}

package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/packed"
	"assay/onnx"
	"assay/onnx/gradjob"
	"assay/ort"
)

const gradCases = "../../../testdata/oracle/onnx/"

// packedCases are the oracle's other models.
const packedCases = "../../../testdata/oracle/onnx.zip"

// trainGrad runs the command on a case's files; later flags override earlier ones.
func trainGrad(t *testing.T, folder string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(folder, name) }
	args := append(
		[]string{
			"grad",
			"--model",
			in("model.onnx"),
			"--inputs",
			in("inputs.safetensors"),
			"--cotangents",
			in("cotangent.safetensors"),
		},
		flags...)
	var out, errs bytes.Buffer
	code = App.Run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func sameTensors(t *testing.T, got, want string, subset bool) {
	t.Helper()
	a, _, err := checkpoints.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := checkpoints.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if !subset && len(a) != len(b) {
		t.Errorf("%s holds %d tensors, want %d", got, len(a), len(b))
	}
	for name, w := range b {
		g := a[name]
		if g == nil {
			if !subset {
				t.Errorf("%s lacks %s", got, name)
			}
			continue
		}
		if !g.Shape().Eq(w.Shape()) {
			t.Errorf("%s has shape %v, want %v", name, g.Shape(), w.Shape())
			continue
		}
		x, y := flat(g), flat(w)
		for i := range x {
			if d := math.Abs(float64(x[i] - y[i])); !(d <= 1e-4*(1+math.Abs(float64(y[i])))) {
				t.Errorf("%s[%d] is %g, want %g", name, i, x[i], y[i])
				break
			}
		}
	}
}

func flat(d *tensor.Dense) []float32 {
	if v, ok := d.Data().(float32); ok {
		return []float32{v}
	}
	return d.Data().([]float32)
}

func TestGrad(t *testing.T) {
	others := packed.Unpack(t, packedCases)
	for _, name := range []string{"llama", "resize", "dynamic_shapes", "arithmetic_broadcast"} {
		dir, folder := t.TempDir(), filepath.Join(others, name)
		if name == "llama" {
			folder = gradCases + name
		}
		out, outputs := filepath.Join(dir, "grads.safetensors"), filepath.Join(dir, "outputs.safetensors")
		code, stdout, stderr := trainGrad(t, folder, "--out", out, "--outputs-out", outputs, "--json")
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
		var r gradjob.Result
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Out != out || len(r.Gradients) == 0 {
			t.Errorf("%s: %v in %s", name, err, stdout)
		}
		sameTensors(t, outputs, folder+"/outputs.safetensors", false)
		want, _, err := checkpoints.ReadFile(folder + "/grads.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		for x := range want {
			if r.Gradients[x] == nil {
				t.Errorf("%s: no gradient of %s by default", name, x)
			}
		}
		sameTensors(t, out, folder+"/grads.safetensors", true)
	}
}

func TestGradOfChosenNames(t *testing.T) {
	out := filepath.Join(t.TempDir(), "grads.safetensors")
	if code, _, stderr := trainGrad(t, gradCases+"llama", "--out", out, "--wrt", "norm.weight,k.weight"); code != 0 {
		t.Fatal(stderr)
	}
	got, _, err := checkpoints.ReadFile(out)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d gradients, %v; want 2", len(got), err)
	}
	sameTensors(t, out, gradCases+"llama/grads.safetensors", true)
}

// TestGradOfExternalWeights moves all weights of a model into another file.
func TestGradOfExternalWeights(t *testing.T) {
	dir := externalCase(t, func(*onnx.Model) {})
	out := filepath.Join(dir, "grads.safetensors")
	if code, _, stderr := trainGrad(
		t,
		gradCases+"llama",
		"--model",
		filepath.Join(dir, "model.onnx"),
		"--out",
		out,
	); code != 0 {
		t.Fatal(stderr)
	}
	sameTensors(t, out, gradCases+"llama/grads.safetensors", true)
}

func externalCase(t *testing.T, change func(m *onnx.Model)) string {
	t.Helper()
	dir := t.TempDir()
	m, err := onnx.Read(gradCases + "llama/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for _, w := range m.Initializers {
		if w.Type == onnx.Float && len(w.Shape) > 0 {
			w.External = &onnx.External{Location: "weights.bin", Offset: int64(len(data)), Length: int64(len(w.Data))}
			data, w.Data = append(data, w.Data...), nil
		}
	}
	change(m)
	encoded, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"weights.bin": data, "model.onnx": encoded} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGradOfNothing: an empty --wrt is named, not what follows from it.
func TestGradOfNothing(t *testing.T) {
	code, _, stderr := trainGrad(t, gradCases+"llama", "--wrt", "", "--out", filepath.Join(t.TempDir(), "g.safetensors"))
	if code != exit.Failed || !strings.Contains(stderr, "--wrt names no value") {
		t.Errorf("got exit code %d, %q, want %d and what is empty", code, stderr, exit.Failed)
	}
}

func TestGradErrors(t *testing.T) {
	external := func(change func(w *onnx.External)) func(t *testing.T) string {
		return func(t *testing.T) string {
			return filepath.Join(externalCase(t, func(m *onnx.Model) {
				for _, w := range m.Initializers {
					if w.Name == "norm.weight" {
						change(w.External)
					}
				}
			}), "model.onnx")
		}
	}
	changed := func(change func(m *onnx.Model)) func(t *testing.T) string {
		return func(t *testing.T) string { return filepath.Join(externalCase(t, change), "model.onnx") }
	}
	for name, c := range map[string]struct {
		model func(t *testing.T) string
		want  []string
	}{
		"offset": {external(func(e *onnx.External) { e.Offset = 1 << 30 }),
			[]string{`"norm.weight"`, "weights.bin", "1073741824"}},
		"length": {external(func(e *onnx.External) { e.Length = 8 }), []string{`"norm.weight"`, "64 bytes", "8 bytes"}},
		"file":   {external(func(e *onnx.External) { e.Location = "gone.bin" }), []string{`"norm.weight"`, "gone.bin"}},
		"path": {external(func(e *onnx.External) { e.Location = "../weights.bin" }),
			[]string{`"norm.weight"`, "below the model's folder"}},
		"cycle": {changed(func(m *onnx.Model) { m.Nodes[3].Inputs[0] = m.Nodes[len(m.Nodes)-1].Outputs[0] }),
			[]string{"cycle", "n3", "opset 17"}},
		"rule": {changed(func(m *onnx.Model) {
			for _, n := range m.Nodes {
				if n.Op == "Sigmoid" {
					n.Op = "Hardmax"
				}
			}
		}), []string{"ai.onnx.Hardmax", "opset 17", "no gradient rule"}},
		"shape": {changed(func(m *onnx.Model) {
			for _, w := range m.Initializers {
				if w.Name == "gate.weight" {
					w.Shape = []int64{w.Shape[1], w.Shape[0]}
				}
			}
		}), []string{"ai.onnx.MatMul", "inner sizes"}},
		"truncated": {func(t *testing.T) string {
			dir := externalCase(t, func(*onnx.Model) {})
			path := filepath.Join(dir, "model.onnx")
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, data[:len(data)/2], 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			return path
		}, []string{"model.onnx", "cut short"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "grads.safetensors")
			code, _, stderr := trainGrad(t, gradCases+"llama", "--model", c.model(t), "--out", out)
			if code != exit.Failed {
				t.Errorf("exit code %d, want %d", code, exit.Failed)
			}
			for _, w := range c.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("%q lacks %q", stderr, w)
				}
			}
			if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 0 {
				t.Errorf("left behind: %v %v", entries, err)
			}
		})
	}
}

func TestGradRefusesOtherInputs(t *testing.T) {
	out := filepath.Join(t.TempDir(), "grads.safetensors")
	vit := filepath.Join(packed.Unpack(t, packedCases), "vit", "inputs.safetensors")
	code, _, stderr := trainGrad(t, gradCases+"llama", "--inputs", vit, "--out", out)
	if code != exit.Failed || !strings.Contains(stderr, `input "input_ids" is missing`) ||
		!strings.Contains(stderr, `no input "pixel_values"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	code, _, stderr = trainGrad(t, gradCases+"llama", "--wrt", "nothing", "--out", out)
	if code != exit.Failed || !strings.Contains(stderr, `"nothing"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	cotangents := filepath.Join(t.TempDir(), "ct.safetensors")
	if err := checkpoints.WriteFile(
		cotangents,
		map[string]*tensor.Dense{"t103": tensor.New(tensor.WithShape(2), tensor.Of(tensor.Float32))},
		nil,
	); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = trainGrad(t, gradCases+"llama", "--cotangents", cotangents, "--out", out)
	if code != exit.Failed || !strings.Contains(stderr, cotangents+`: the cotangent of output "t103" has shape (2)`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, _ = trainGrad(t, gradCases+"llama"); code != exit.Wrong {
		t.Errorf("without --out: exit code %d, want %d", code, exit.Wrong)
	}
}

// TestGradModelOut: the written model computes the same outputs and gradients, and its outputs are fully declared.
func TestGradModelOut(t *testing.T) {
	for _, where := range []string{"beside", "elsewhere"} {
		folder := externalCase(t, func(*onnx.Model) {})
		dir := folder
		if where == "elsewhere" {
			dir = t.TempDir()
		}
		written := filepath.Join(dir, "gradients.onnx")
		code, stdout, stderr := trainGrad(
			t,
			gradCases+"llama",
			"--model",
			filepath.Join(folder, "model.onnx"),
			"--inputs",
			"",
			"--model-out",
			written,
			"--wrt",
			"norm.weight,k.weight",
			"--json",
		)
		if code != 0 {
			t.Fatal(stdout, stderr)
		}
		m, err := onnx.Read(written)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range m.Outputs {
			if !out.Ranked || !out.Type.IsFloat() {
				t.Errorf("%s: output %q is declared %v without rank", where, out.Name, out.Type)
			}
		}
		if err := onnx.CheckExternal(m, dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(written + ".data"); (err == nil) != (where == "elsewhere") {
			t.Errorf("%s: weights beside the model: %v", where, err)
		}
		s, err := ort.Open(m, ort.Options{Folder: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		feeds, _, err := checkpoints.ReadFile(gradCases + "llama/inputs.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		cts, _, err := checkpoints.ReadFile(gradCases + "llama/cotangent.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		for name, ct := range cts {
			feeds["cotangent/"+name] = ct
		}
		got, err := s.Run(context.Background(), feeds)
		if err != nil {
			t.Fatal(err)
		}
		grads := map[string]*tensor.Dense{}
		for name, v := range got {
			if x, is := strings.CutPrefix(name, "gradient/"); is {
				grads[x] = v
			}
		}
		if len(grads) != 2 {
			t.Errorf("%s: %d gradients, want 2", where, len(grads))
		}
		out := filepath.Join(dir, "got.safetensors")
		if err := checkpoints.WriteFile(out, grads, nil); err != nil {
			t.Fatal(err)
		}
		sameTensors(t, out, gradCases+"llama/grads.safetensors", true)
	}
}

// TestGradOfNoElements: an input without elements has a gradient without elements.
func TestGradOfNoElements(t *testing.T) {
	b := onnx.NewBuilder("empty", 17)
	b.Input("x", onnx.Float, onnx.Dims("n", 3))
	w := b.Weight(
		&onnx.Tensor{Name: "w", Type: onnx.Float, Shape: []int64{3}, Data: onnx.Float32Bytes([]float32{1, 2, 3})},
	)
	b.Output("y", b.Op("Tanh", b.Op("Mul", "x", w)), onnx.Float, onnx.Dims("n", 3))
	data, err := b.M.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("model.onnx"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	none := tensor.New(tensor.WithShape(0, 3), tensor.WithBacking([]float32{}))
	for _, file := range []struct{ name, tensor string }{{"inputs.safetensors", "x"}, {"cotangent.safetensors", "y"}} {
		if err := checkpoints.WriteFile(in(file.name), map[string]*tensor.Dense{file.tensor: none}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if code, stdout, stderr := trainGrad(t, dir, "--out", in("grads.safetensors")); code != 0 {
		t.Fatal(stdout, stderr)
	}
	got, _, err := checkpoints.ReadFile(in("grads.safetensors"))
	if err != nil || !got["x"].Shape().Eq(tensor.Shape{0, 3}) {
		t.Fatalf("%v, %v", got["x"], err)
	}
	for _, v := range flat(got["w"]) {
		if v != 0 {
			t.Errorf("the gradient of w is %v, want zeros", got["w"])
		}
	}
}

// TestGradOfExternalNorm: a fused norm's weight in another file may have a 0, by which the fused gradient would divide.
// With y = w x / r, r the root of the mean square, dx is w/r - x sum(w x) / (3 r^3) for three columns.
func TestGradOfExternalNorm(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	w, x := []float64{0.5, 0, -2}, []float64{1, 2, -1}
	b := onnx.NewBuilder("norm", 17)
	b.Input("x", onnx.Float, []onnx.Dim{onnx.Fixed(1), onnx.Fixed(3)})
	b.M.Initializers = append(b.M.Initializers, &onnx.Tensor{Name: "w", Type: onnx.Float, Shape: []int64{3},
		External: &onnx.External{Location: "weights.bin", Length: 12}})
	b.M.Opsets[onnx.FusedDomain] = 1
	y := b.Node(onnx.FusedDomain, "AddRMSNorm", 3, onnx.Attrs{"epsilon": 0.0}, "x", "", "w")[1]
	b.Output("y", y, onnx.Float, []onnx.Dim{onnx.Fixed(1), onnx.Fixed(3)})
	encoded, err := b.M.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(at("model.onnx"), encoded, 0o644),
		os.WriteFile(at("weights.bin"), onnx.Float32Bytes([]float32{0.5, 0, -2}), 0o644),
		checkpoints.WriteFile(at("inputs.safetensors"), map[string]*tensor.Dense{"x": tensor.New(tensor.WithShape(1, 3),
			tensor.WithBacking([]float32{1, 2, -1}))}, nil)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := trainGrad(t, dir, "--cotangents", "", "--wrt", "x", "--out", at("out.safetensors")); code != 0 {
		t.Fatal(stderr)
	}
	got, _, err := checkpoints.ReadFile(at("out.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	r, wx := math.Sqrt(2), 2.5 // (1 + 4 + 1) / 3, and 0.5 + 2
	for i, g := range flat(got["x"]) {
		if want := w[i]/r - x[i]*wx/(3*r*r*r); math.Abs(float64(g)-want) > 1e-6 {
			t.Errorf("dx[%d]: got %v, want %v", i, g, want)
		}
	}
}

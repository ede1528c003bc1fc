package onnx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tower is x [2,3] -> MatMul w [3,4] -> Relu -> Concat with itself -> out.
func tower() *Model {
	b := NewBuilder("tower", 17)
	x := b.Input("x", Float, Dims("batch", 3))
	w := b.Weight(&Tensor{Name: "w", Type: Float, Shape: []int64{3, 4}, Data: make([]byte, 48)})
	h := b.Op("Relu", b.Op("MatMul", x, w))
	b.Output("out", b.OpA("Concat", Attrs{"axis": 1}, h, h), Float, Dims("batch", 8))
	return b.M
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got error %v, want one with %q", err, parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got error %q, want %q in it", err, p)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := Check(tower()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(m *Model)
		want   []string
	}{
		"operator": {func(m *Model) { m.Nodes[1].Op = "Rleu" },
			[]string{`node "Relu" (ai.onnx.Rleu, opset 17)`, "no such operator"}},
		"later operator": {func(m *Model) { m.Nodes[1].Op = "Mish" },
			[]string{"ai.onnx.Mish, opset 17", "added in opset 18"}},
		"gone operator": {func(m *Model) { m.Nodes[1].Op = "Upsample" },
			[]string{"ai.onnx.Upsample", "removed in opset 10"}},
		"domain": {func(m *Model) { m.Nodes[1].Domain = "my.ops"; m.Opsets["my.ops"] = 1 },
			[]string{`node "Relu" (my.ops.Relu, opset 1)`, `domain "my.ops"`}},
		"import": {func(m *Model) { m.Nodes[1].Domain = "com.microsoft" },
			[]string{"com.microsoft.Relu, opset 0", "imports no operator set"}},
		"opset": {func(m *Model) { m.Opsets[""] = 99 }, []string{"opset 99", "want 13 to 25"}},
		"inputs": {func(m *Model) { m.Nodes[0].Inputs = []string{"x"} },
			[]string{`node "MatMul"`, "1 inputs, want 2"}},
		"outputs": {func(m *Model) { m.Nodes[1].Outputs = append(m.Nodes[1].Outputs, "z") },
			[]string{`node "Relu"`, "2 outputs, want 1"}},
		"attribute": {func(m *Model) { m.Nodes[2].Attrs = nil }, []string{`node "Concat"`, `the attribute "axis"`}},
		"undefined": {func(m *Model) { m.Nodes[0].Inputs[0] = "y" },
			[]string{`node "MatMul"`, `input "y" is not defined`}},
		"twice": {func(m *Model) { m.Nodes[1].Outputs[0] = "x" },
			[]string{`"x" is defined twice`, "a graph input", `node "Relu"`}},
		"order": {func(m *Model) { m.Nodes[0], m.Nodes[1] = m.Nodes[1], m.Nodes[0] },
			[]string{`node "Relu"`, "made by a later node", "Sort"}},
		"cycle": {func(m *Model) { m.Nodes[0].Inputs[0] = "Relu" },
			[]string{"cycle", `node "MatMul"`, `node "Relu"`}},
		"bytes": {func(m *Model) { m.Initializers[0].Data = m.Initializers[0].Data[1:] },
			[]string{`tensor "w"`, "48 bytes", "47"}},
		"output undefined": {func(m *Model) { m.Outputs[0].Name = "gone" }, []string{`graph output "gone"`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := tower()
			c.change(m)
			wantError(t, Check(m), c.want...)
		})
	}
}

func TestSort(t *testing.T) {
	m := tower()
	first := m.Nodes[0]
	m.Nodes[0], m.Nodes[3] = m.Nodes[3], m.Nodes[0]
	if err := Sort(m); err != nil {
		t.Fatal(err)
	}
	if err := Check(m); err != nil || m.Nodes[0] != first {
		t.Errorf("Check: got error %v, the first node %v, want %v", err, m.Nodes[0], first)
	}
	m.Nodes[0].Inputs[0] = "out"
	wantError(t, Sort(m), "cycle", `node "MatMul"`)
}

func TestPrune(t *testing.T) {
	b := Extend(tower())
	b.Op("Exp", b.Weight(&Tensor{Name: "unused", Type: Float, Shape: []int64{1}, Data: make([]byte, 4)}))
	body := &Graph{Outputs: []ValueInfo{{Name: "MatMul"}}} // a subgraph that reads a value of the enclosing graph
	b.M.Nodes = append(
		b.M.Nodes,
		&Node{
			Name:    "branch",
			Op:      "If",
			Inputs:  []string{"yes"},
			Outputs: []string{"z"},
			Attrs:   map[string]any{"then_branch": body, "else_branch": body},
		},
	)
	b.M.Initializers = append(b.M.Initializers, &Tensor{Name: "yes", Type: Bool, Shape: []int64{}, Data: []byte{1}})
	b.M.Outputs = []ValueInfo{{Name: "z"}}
	Prune(b.M)
	var names []string
	for _, n := range b.M.Nodes {
		names = append(names, n.Name)
	}
	for _, w := range b.M.Initializers {
		names = append(names, w.Name)
	}
	if got := strings.Join(names, " "); got != "MatMul branch w yes" {
		t.Errorf("got nodes %q, want %q", got, "MatMul branch w yes")
	}
}

func TestCheckExternal(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weights.bin"), make([]byte, 64), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("weights.bin", filepath.Join(dir, "link.bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   External
		want []string
	}{
		"good":     {External{"weights.bin", 16, 48}, nil},
		"offset":   {External{"weights.bin", 17, 48}, []string{`tensor "w"`, "48 bytes at offset 17", "has 64 bytes"}},
		"far":      {External{"weights.bin", 1 << 62, 48}, []string{"the offset is wrong"}},
		"negative": {External{"weights.bin", -1, 48}, []string{"must not be negative"}},
		"length":   {External{"weights.bin", 0, 47}, []string{"needs 48 bytes", "47 bytes long"}},
		"missing":  {External{"no.bin", 0, 48}, []string{`"no.bin"`, "no file"}},
		"parent":   {External{"../weights.bin", 0, 48}, []string{"below the model's folder"}},
		"absolute": {External{filepath.Join(dir, "weights.bin"), 0, 48}, []string{"below the model's folder"}},
		"link":     {External{"link.bin", 0, 48}, []string{"symbolic link"}},
		"folder":   {External{"folder", 0, 48}, []string{"not a file"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := tower()
			m.Initializers[0].Data, m.Initializers[0].External = nil, &c.at
			err := CheckExternal(m, dir)
			if c.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, c.want...)
		})
	}
}

// TestTruncated: no prefix of a model is accepted as a model.
func TestTruncated(t *testing.T) {
	data, err := tower().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Decode(data); err != nil || Check(m) != nil {
		t.Fatalf("Decode: got error %v, Check: %v, want none", err, Check(m))
	}
	for n := range data {
		m, err := Decode(data[:n])
		if err == nil {
			err = Check(m)
		}
		if err == nil {
			t.Errorf("the first %d of %d bytes: got error %v, want one", n, len(data), err)
		}
	}
}

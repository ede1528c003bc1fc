package onnx

import (
	"encoding/binary"
	"slices"
)

// LastStep returns the body of a Scan as a separate model, or nil if the node is not a Scan with a body. Captures of
// the body become inputs of the model. The types are those in the step that reads the last entries.
func (t *Types) LastStep(n *Node) *Model {
	body, ok := n.Attrs["body"].(*Graph)
	if !ok || n.Op != "Scan" {
		return nil
	}
	step := &Model{Graph: *body, IRVersion: t.m.IRVersion, Opsets: t.m.Opsets}
	step.Inputs, step.Initializers = nil, slices.Clone(body.Initializers)
	states := len(n.Inputs) - int(n.Int("num_scan_inputs", 0))
	axes, _ := ScanAxes(n, "input", len(n.Inputs)-states)
	for i, x := range n.Inputs {
		v := *t.Of(x)
		if i < states {
			v.Ints, v.Const = nil, nil // those of the first step
		}
		if k := i - states; k >= 0 && v.Ranked {
			v.Ints = v.Ints[max(0, len(v.Ints)-1):] // the last number of a vector, in either scan direction
			if a, err := axis(axes[k], len(v.Shape)); err == nil {
				v.Shape = slices.Delete(slices.Clone(v.Shape), int(a), int(a)+1)
			}
		}
		step.put(body.Inputs[i].Name, &v)
	}
	for _, x := range n.Captures() {
		step.put(x, t.Of(x))
	}
	return step
}

// put declares a value as a constant of a model if its contents are known, else as an input.
func (m *Model) put(name string, v *Value) {
	numbers, ok := v.Known()
	sizes, whole := v.Sizes()
	if !ok || !whole || v.Type != Int64 {
		m.Inputs = append(m.Inputs, ValueInfo{Name: name, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
		return
	}
	t := &Tensor{Name: name, Type: Int64, Shape: sizes}
	for _, n := range numbers {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(n))
	}
	m.Initializers = append(m.Initializers, t)
}

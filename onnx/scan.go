package onnx

import (
	"encoding/binary"
	"slices"
)

// LastStep returns the body of a Scan as a model of its own, or nil if the node is no Scan with a body. What the body
// captures are inputs of the model, typed as in the step of the last entries.
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
			v.Ints, v.Const = nil, nil // of the first step
		}
		if k := i - states; k >= 0 && v.Ranked {
			v.Ints = v.Ints[max(0, len(v.Ints)-1):] // of a vector: its last number, from whichever end it is read
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

// put declares a value of which something is known as an input of a model, or as a constant.
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

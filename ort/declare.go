package ort

import (
	"fmt"
	"slices"

	"assay/onnx"
)

// stretch is the number of nodes within which equal sizes share a name.
const stretch = 200

// encode returns the bytes of a model for a session on a device.
func encode(m onnx.Model, d device) ([]byte, error) {
	if d == cpu { // not measured on GPUs
		m = declare(m)
	}
	return m.Encode()
}

// declare adds the shapes of intermediate values to a model that has none, as far as they can be inferred.
//
// When a session opens, ONNX Runtime looks for each value through all buffers that are free by then, for one of the
// same shape. Its own inference cannot follow sizes through Reshape, so most buffers fit nothing, the list grows, and a
// graph of 5,000 nodes spends four fifths of the time in it. A name is only valid within a stretch of nodes: a buffer
// that waited for its next use from the forward to the backward pass would raise the peak.
func declare(m onnx.Model) onnx.Model {
	if len(m.Values) > 0 {
		return m
	}
	types, err := onnx.Infer(&m)
	if err != nil { // the runtime decides what it accepts
		return m
	}
	outputs := map[string]bool{}
	for _, v := range m.Outputs {
		outputs[v.Name] = true
	}
	for i, n := range m.Nodes {
		for _, name := range n.Outputs {
			v := types.Of(name)
			if name == "" || outputs[name] || v.Type == onnx.Undefined || !v.Ranked {
				continue
			}
			shape := slices.Clone(v.Shape)
			for k, d := range shape {
				if !d.Known() {
					shape[k].Name = fmt.Sprintf("%s@%d", d.Name, i/stretch)
				}
			}
			m.Values = append(m.Values, onnx.ValueInfo{Name: name, Type: v.Type, Shape: shape, Ranked: true})
		}
	}
	return m
}

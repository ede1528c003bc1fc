package model

import "assay/onnx"

// Usage is what training needs.
type Usage struct {
	Parameters int64            // of backbone and scorer
	Trainable  int64            // of them
	Bytes      map[string]int64 // memory, by what for
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Device is where the graphs run: cpu or cuda:N.
func (e *engine) Device() string { return e.options.Device }

// Weights counts the backbone's parameters and the memory that they take: half precision is widened on the CPU.
func (e *engine) Weights() (parameters, bytes int64) {
	w := e.backbone.Weights
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		n := elements(info.Shape)
		parameters += n
		size := int64(info.Type.Size())
		if !e.onCUDA() && info.Type.IsFloat() {
			size = int64(onnx.Float.Size())
		}
		bytes += n * size
	}
	return parameters, bytes
}

// Usage estimates the memory of a training step over a micro-batch of that many sequences of tokens tokens: weights, gradients
// and both AdamW moments of what is trained, and the activations that the backward pass reads, of all layers or, with
// recomputation, of one layer and the layers' inputs.
func (t *Tuner) Usage(tokens, micro int) Usage {
	u := Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = t.Weights()
	for _, v := range t.own {
		u.Parameters += int64(v.DataSize())
	}
	for _, p := range t.params {
		u.Trainable += elements(p.Shape)
	}
	u.Bytes["gradients and optimizer"] = u.Trainable * 4 * 3
	d := t.backbone.Decoder()
	rows := int64(tokens * micro)
	// norms, queries, keys, values, attention, both products of the gated MLP and its activation; scores and their softmax
	layer := 4 * (rows*int64(6*d.Hidden+2*(d.Heads+d.KVHeads)*d.HeadDim+5*d.Intermediate) + 2*int64(d.Heads)*rows*int64(tokens))
	u.Bytes["activations"] = layer * int64(d.Layers)
	if t.o.Recompute {
		u.Bytes["activations"] = layer + 4*rows*int64(d.Hidden*d.Layers)
	}
	return u
}

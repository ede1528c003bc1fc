package backbone

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/model/nn"
	"assay/onnx"
)

// storedType is the type of the weights in a configuration, as named today and before transformers 5.
type storedType struct {
	Today  string `json:"dtype"`
	Before string `json:"torch_dtype"`
}

// or returns the type of absent weights: the first one named, float32 if there is none.
func (s storedType) or(other storedType) onnx.DType {
	types := map[string]onnx.DType{"float32": onnx.Float, "float16": onnx.Float16, "bfloat16": onnx.BFloat16}
	for _, name := range []string{s.Today, s.Before, other.Today, other.Before} {
		if t, ok := types[name]; ok {
			return t
		}
	}
	return onnx.Float
}

// shown is the maximum number of wrong tensors that an error lists.
const shown = 40

var floating = map[onnx.DType]bool{onnx.Float: true, onnx.Float16: true, onnx.BFloat16: true}

// leftovers are name suffixes of buffers that older versions of transformers stored and newer ones compute.
var leftovers = []string{".position_ids", ".rotary_emb.inv_freq", ".rotary_pos_emb.inv_freq", ".masked_bias"}

// fit declares the parameters if the weights are absent. Otherwise it reports every parameter that is missing or has
// a different shape, and every stored tensor that is not used: then configuration and weights do not match.
func fit(p nn.Parameters, w *checkpoints.Weights, t onnx.DType) error {
	if w.Absent() {
		for _, x := range p {
			if w.Quantized(x.Name) == nil {
				w.Declare(x.Name, t, x.Shape)
			}
		}
		return nil
	}
	var wrong []error
	known := make(map[string]bool, len(p))
	for _, x := range p {
		info, ok := w.Info(x.Name)
		known[info.Name] = ok
		switch {
		case !ok && !x.Unread:
			wrong = append(wrong, fmt.Errorf("%s is missing; it should have shape %v", x.Name, x.Shape))
		case ok && !floating[info.Type]:
			wrong = append(wrong,
				fmt.Errorf("%s has type %v, want float32, float16 or bfloat16 (are the weights quantised?)", x.Name, info.Type))
		case ok && !slices.Equal(info.Shape, x.Shape):
			wrong = append(wrong, fmt.Errorf("%s has shape %v; it should be %v", x.Name, info.Shape, x.Shape))
		}
	}
	for _, name := range w.Names() {
		if !known[name] && !slices.ContainsFunc(leftovers, func(end string) bool { return strings.HasSuffix(name, end) }) {
			wrong = append(wrong, fmt.Errorf("%s is stored, but config.json calls for no such tensor", name))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	n := len(wrong)
	if n > shown {
		wrong = append(wrong[:shown], fmt.Errorf("and %d more", n-shown))
	}
	return fmt.Errorf("%d tensors do not match config.json, which calls for %d:\n%w", n, len(p), errors.Join(wrong...))
}

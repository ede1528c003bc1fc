package metrics

import (
	"fmt"
	"slices"

	"assay/checkpoints"
	"assay/onnx"
)

// weights are tensors of float32 by their names.
type weights struct {
	path    string
	tensors map[string]weight
	used    map[string]bool
}

type weight struct {
	shape  []int64
	values []float32
}

// readWeights reads a .safetensors file, or what torch.save made of a state dict (.pth, .pt, .bin).
func readWeights(path string) (*weights, error) {
	w := &weights{path, map[string]weight{}, map[string]bool{}}
	f, err := checkpoints.OpenTensors(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		if !info.Type.IsFloat() {
			continue // counters of batches and the like
		}
		raw, err := f.Bytes(name)
		if err != nil {
			return nil, err
		}
		values, err := checkpoints.Float32s(info.Type, raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, err)
		}
		w.tensors[name] = weight{info.Shape, values}
	}
	return w, nil
}

// take adds a tensor to a graph as an initializer. -1 stands for any size.
func (w *weights) take(b *onnx.Builder, name string, want ...int64) (string, []int64, error) {
	t, ok := w.tensors[name]
	if !ok {
		return "", nil, fmt.Errorf("%s has no tensor %s", w.path, name)
	}
	same := len(want) == len(t.shape)
	for i := range want {
		same = same && (want[i] < 0 || want[i] == t.shape[i])
	}
	if !same {
		return "", nil, fmt.Errorf("%s: %s is %v, want %v", w.path, name, t.shape, want)
	}
	w.used[name] = true
	return b.Weight(&onnx.Tensor{Name: name, Type: onnx.Float, Shape: slices.Clone(t.shape),
		Data: onnx.Float32Bytes(t.values)}), t.shape, nil
}

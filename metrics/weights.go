package metrics

import (
	"fmt"
	"slices"

	"assay/checkpoints"
	"assay/onnx"
)

// weights are the tensors of a file, and which of them were used.
type weights struct {
	checkpoints.TensorFile
	used map[string]bool
}

func newWeights(f checkpoints.TensorFile) *weights { return &weights{f, map[string]bool{}} }

// take adds a tensor to a graph as an initializer of float32. -1 in want matches any size.
func (w *weights) take(b *onnx.Builder, name string, want ...int64) (string, []int64, error) {
	info, ok := w.Info(name)
	if !ok {
		return "", nil, fmt.Errorf("no tensor %s", name)
	}
	if !slices.EqualFunc(want, info.Shape, func(want, size int64) bool { return want < 0 || want == size }) {
		return "", nil, fmt.Errorf("%s is %v, want %v", name, info.Shape, want)
	}
	raw, err := w.Bytes(name)
	if err != nil {
		return "", nil, err
	}
	values, err := checkpoints.Float32s(info.Type, raw)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	w.used[name] = true
	return b.Weight(&onnx.Tensor{Name: name, Type: onnx.Float, Shape: slices.Clone(info.Shape),
		Data: onnx.Float32Bytes(values)}), info.Shape, nil
}

// linearLayers returns the prefixes of a file's linear layers: layers.N. in order of N, or an empty one.
func linearLayers(f checkpoints.TensorFile) (prefixes []string) {
	if _, one := f.Info("weight"); one {
		return []string{""}
	}
	for n := range 100 {
		prefix := fmt.Sprintf("layers.%d.", n)
		if _, ok := f.Info(prefix + "weight"); ok {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// LinearHead adds the head of an aesthetic predictor or of ImageReward to a graph: linear layers over x [rows,
// width], layers.N.weight and .bias, or weight and bias. No published head has anything between its layers at
// inference: the ReLUs are commented out, and dropout does nothing. The last layer outputs one number per row, [rows,
// 1].
func LinearHead(b *onnx.Builder, f checkpoints.TensorFile, x string, width int64) (string, error) {
	return newWeights(f).linear(b, x, width)
}

func (w *weights) linear(b *onnx.Builder, x string, width int64) (string, error) {
	for _, layer := range linearLayers(w) {
		weight, shape, err := w.take(b, layer+"weight", -1, width)
		if err != nil {
			return "", err
		}
		bias, _, err := w.take(b, layer+"bias", shape[0])
		if err != nil {
			return "", err
		}
		width = shape[0]
		x = b.OpA("Gemm", onnx.Attrs{"transB": 1}, x, weight, bias)
	}
	if width != 1 {
		return "", fmt.Errorf("the last layer outputs %d numbers, want 1", width)
	}
	return x, nil
}

package checkpoints

import (
	"encoding/binary"
	"math"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// QuantizedTensor is a matrix that a checkpoint stores quantized and packed, in several tensors.
type QuantizedTensor interface {
	Shape() []int64
	Values() ([]float32, error) // all elements, row-major
	Stored() int64              // bytes of its stored tensors
	Memory() int64              // bytes that it needs while graphs with it run
	Key() string                // identifies the values on this machine
}

// AddQuantized adds a quantized tensor under a name that is not stored. Its parts, stored tensors, are no longer among
// Names; Bytes, Info and Dense still find them by name.
func (w *Weights) AddQuantized(name string, d QuantizedTensor, parts ...string) {
	if w.quantized == nil {
		w.quantized, w.parts = map[string]QuantizedTensor{}, map[string]bool{}
	}
	w.quantized[name] = d
	for _, p := range parts {
		w.parts[p] = true
	}
}

// Quantized returns the quantized tensor with a name; nil: none.
func (w *Weights) Quantized(name string) QuantizedTensor { return w.quantized[name] }

// AnyLocation is the location, relative to Folder, of a file of the checkpoint: see [onnx.LazyTensor].
func (w *Weights) AnyLocation() string { return w.shards[0].location }

// ShardOf returns the file that contains a stored tensor; nil: it is not stored.
func (w *Weights) ShardOf(name string) *Shard {
	s, _ := w.find(name)
	return s
}

// Part describes a stored tensor and returns its mapped bytes, even if a quantized tensor has its name.
func (w *Weights) Part(name string) (TensorInfo, []byte, error) {
	s, stored := w.find(name)
	if s == nil {
		return TensorInfo{}, nil, w.missing(name)
	}
	info, _ := s.Info(w.inFile(stored))
	raw, err := s.Bytes(info.Name)
	return info, raw, err
}

func (w *Weights) dequantized(d QuantizedTensor) (*tensor.Dense, error) {
	if err := w.Present(); err != nil {
		return nil, err
	}
	v, err := d.Values()
	if err != nil {
		return nil, err
	}
	shape := d.Shape()
	return tensor.New(tensor.WithShape(int(shape[0]), int(shape[1])), tensor.WithBacking(v)), nil
}

// lazyTensor returns the dequantized matrix, float32, for graphs that cannot compute with the packed one.
func (w *Weights) lazyTensor(name string, d QuantizedTensor) *onnx.Tensor {
	return &onnx.Tensor{Name: name, Type: onnx.Float, Shape: d.Shape(), Lazy: &onnx.LazyTensor{
		Key:      d.Key() + " values",
		Location: w.AnyLocation(),
		Fill: func(into []byte) error {
			v, err := d.Values()
			if err != nil {
				return err
			}
			for i, x := range v {
				binary.LittleEndian.PutUint32(into[4*i:], math.Float32bits(x))
			}
			return nil
		},
	}}
}

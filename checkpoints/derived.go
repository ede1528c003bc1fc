package checkpoints

import (
	"encoding/binary"
	"math"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// Derived is a matrix that a checkpoint stores in another form: packed into few bits, say, in several tensors.
type Derived interface {
	Shape() []int64
	Values() ([]float32, error) // all elements, row-major
	Stored() int64              // bytes of the tensors that it is stored in
	Memory() int64              // bytes that it takes while graphs over it run
	Key() string                // identifies the values on this machine
}

// Derive makes a tensor known under a name that is not stored. The stored tensors that it is made of are no longer
// among Names; Bytes, Info and Dense still give them to those who know them.
func (w *Weights) Derive(name string, d Derived, parts ...string) {
	if w.made == nil {
		w.made, w.parts = map[string]Derived{}, map[string]bool{}
	}
	w.made[name] = d
	for _, p := range parts {
		w.parts[p] = true
	}
}

// Derived returns the tensor that was derived under a name; nil: none was.
func (w *Weights) Derived(name string) Derived { return w.made[name] }

// Near is the location, relative to Folder, of a file of the checkpoint: see [onnx.Made].
func (w *Weights) Near() string { return w.shards[0].location }

// ShardOf returns the file that a stored tensor lies in; nil: it is not stored.
func (w *Weights) ShardOf(name string) *Shard {
	s, _ := w.find(name)
	return s
}

// Part describes a stored tensor and returns its mapped bytes, also where a derived one has its name.
func (w *Weights) Part(name string) (Info, []byte, error) {
	s, stored := w.find(name)
	if s == nil {
		return Info{}, nil, w.missing(name)
	}
	info, _ := s.Info(w.inFile(stored))
	raw, err := s.Bytes(info.Name)
	return info, raw, err
}

func (w *Weights) derivedDense(d Derived) (*tensor.Dense, error) {
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

// derivedTensor is the whole matrix as float32, for those who cannot compute with it packed.
func (w *Weights) derivedTensor(name string, d Derived) *onnx.Tensor {
	return &onnx.Tensor{Name: name, Type: onnx.Float, Shape: d.Shape(), Made: &onnx.Made{
		Key:  d.Key() + " values",
		Near: w.Near(),
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

package ort

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// kind carries arrays of one element type between tensor.Dense and the runtime's values, without copies.
type kind struct {
	dtype tensor.Dtype
	// wrap makes a value over the array's memory (over a row-major copy if it is a view).
	wrap func(d *tensor.Dense) (onnxruntime.Value, error)
	// make makes a zeroed value.
	make func(shape []int64) (onnxruntime.Value, error)
	// dense makes an array over the value's memory. shape overrides the value's shape if it is not nil.
	dense func(v onnxruntime.Value, shape []int64) (*tensor.Dense, error)
}

var kinds = map[onnx.DType]kind{
	onnx.Float:  kindOf[float32](tensor.Float32),
	onnx.Double: kindOf[float64](tensor.Float64),
	onnx.Int8:   kindOf[int8](tensor.Int8),
	onnx.Int16:  kindOf[int16](tensor.Int16),
	onnx.Int32:  kindOf[int32](tensor.Int32),
	onnx.Int64:  kindOf[int64](tensor.Int64),
	onnx.Uint8:  kindOf[uint8](tensor.Uint8),
	onnx.Uint16: kindOf[uint16](tensor.Uint16),
	onnx.Uint32: kindOf[uint32](tensor.Uint32),
	onnx.Uint64: kindOf[uint64](tensor.Uint64),
	onnx.Bool:   kindOf[bool](tensor.Bool),

	onnx.Float16:  halfKind(onnxruntime.TensorElementDataTypeFloat16),
	onnx.BFloat16: halfKind(onnxruntime.TensorElementDataTypeBFloat16),
}

func kindOf[T onnxruntime.TensorData](dtype tensor.Dtype) kind {
	return kind{dtype: dtype, wrap: wrap[T], make: makeValue[T], dense: dense[T]}
}

func wrap[T onnxruntime.TensorData](d *tensor.Dense) (onnxruntime.Value, error) {
	shape := sizes(d.Shape())
	switch {
	case len(shape) == 0:
		return onnxruntime.NewScalar(d.ScalarValue().(T))
	case d.Shape().TotalSize() == 0:
		return onnxruntime.NewTensor[T](shape, nil)
	}
	return onnxruntime.NewTensor(shape, contiguous[T](d))
}

// contiguous returns the elements of an array in row-major order: its memory, or a copy if it is a view.
func contiguous[T any](d *tensor.Dense) []T {
	data, shape, n := d.Data().([]T), sizes(d.Shape()), d.Shape().TotalSize()
	if !rowMajor(shape, d.Strides()) || len(data) != n {
		data = gather(make([]T, 0, n), data, shape, d.Strides())
	}
	return data
}

// halfKind carries half precision as its bits.
func halfKind(of onnxruntime.TensorElementDataType) kind {
	value := func(shape []int64, bits []uint16) (onnxruntime.Value, error) {
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(bits))), 2*len(bits))
		return onnxruntime.NewCustomDataTensor(shape, raw, of)
	}
	return kind{
		dtype: tensor.Uint16,
		wrap: func(d *tensor.Dense) (onnxruntime.Value, error) {
			if d.Dims() == 0 || d.Shape().TotalSize() == 0 {
				return nil, errors.New("half precision must have dimensions and elements")
			}
			return value(sizes(d.Shape()), contiguous[uint16](d))
		},
		make: func(shape []int64) (onnxruntime.Value, error) {
			return value(shape, make([]uint16, onnx.Elements(shape)))
		},
		dense: func(onnxruntime.Value, []int64) (*tensor.Dense, error) {
			return nil, errors.New("half precision is returned in room that the caller provides")
		},
	}
}

func rowMajor(shape []int64, strides []int) bool {
	if len(strides) != len(shape) {
		return false
	}
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] > 1 && int64(strides[i]) != step {
			return false
		}
		step *= shape[i]
	}
	return true
}

// gather appends the elements of a strided array in row-major order.
func gather[T any](to, from []T, shape []int64, strides []int) []T {
	if len(shape) == 0 {
		return append(to, from[0])
	}
	for i := range int(shape[0]) {
		to = gather(to, from[i*strides[0]:], shape[1:], strides[1:])
	}
	return to
}

func makeValue[T onnxruntime.TensorData](shape []int64) (onnxruntime.Value, error) {
	if len(shape) == 0 {
		return onnxruntime.NewEmptyScalar[T]()
	}
	return onnxruntime.NewEmptyTensor[T](shape)
}

func dense[T onnxruntime.TensorData](v onnxruntime.Value, shape []int64) (*tensor.Dense, error) {
	if shape == nil {
		shape = v.GetShape()
	}
	switch v := v.(type) {
	case *onnxruntime.Scalar[T]:
		return tensor.New(tensor.FromScalar(v.GetData())), nil
	case *onnxruntime.Tensor[T]:
		if len(shape) == 0 {
			return tensor.New(tensor.FromScalar(v.GetData()[0])), nil
		}
		dims := make([]int, len(shape))
		for i, d := range shape {
			dims[i] = int(d)
		}
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(v.GetData())), nil
	}
	return nil, fmt.Errorf("the runtime returned a %T, not the declared type", v)
}

// feed makes the value of an input that check has passed.
func (p port) feed(d *tensor.Dense, v *View) (onnxruntime.Value, error) {
	switch {
	case p.hidden:
		return kinds[p.typ].make([]int64{1})
	case v != nil:
		return v, nil
	}
	return kinds[p.typ].wrap(d)
}

// room returns the value that the runtime writes an output into, over the caller's array or view if there is one. It
// is nil if the size is not known yet: the runtime then allocates it.
func (p port) room(given *tensor.Dense, v *View) (onnxruntime.Value, error) {
	switch {
	case v != nil:
		return v, p.checkView(v)
	case p.bound && given == nil:
		return nil, errors.New("its view or room is missing")
	}
	if given != nil {
		switch {
		case p.inner != p.name || !p.ranked:
			return nil, errors.New("it is converted and cannot have room")
		case given.Dtype() != kinds[p.typ].dtype:
			return nil, fmt.Errorf("its room has type %v, want %v", given.Dtype(), kinds[p.typ].dtype)
		case !rowMajor(sizes(given.Shape()), given.Strides()):
			return nil, errors.New("its room is not a row-major array")
		}
		return kinds[p.typ].wrap(given)
	}
	if shape, ok := p.fixed(); ok {
		return kinds[p.typ].make(shape)
	}
	return nil, nil
}

// check compares an input with its declaration.
func (p port) check(d *tensor.Dense, v *View) error {
	switch {
	case p.hidden:
		return nil
	case v != nil && d != nil:
		return fmt.Errorf("input %q is given twice", p.name)
	case v != nil:
		return p.checkView(v)
	case d == nil:
		return fmt.Errorf("input %q (%v %s) is missing", p.name, p.typ, p.dims())
	case d.Dtype() != kinds[p.typ].dtype:
		return fmt.Errorf("input %q has type %v, want %v", p.name, d.Dtype(), kinds[p.typ].dtype)
	case !p.ranked:
		return nil
	}
	got := d.Shape()
	ok := len(got) == len(p.shape)
	for i := range p.shape {
		ok = ok && (!p.shape[i].Known() || int64(got[i]) == p.shape[i].Size)
	}
	if !ok {
		return fmt.Errorf("input %q has shape %s, want %s", p.name, brackets(got), p.dims())
	}
	return nil
}

func (p port) dims() string {
	if !p.ranked {
		return "of any shape"
	}
	return brackets(p.shape)
}

func brackets[T any](dims []T) string {
	parts := make([]string, len(dims))
	for i, d := range dims {
		parts[i] = fmt.Sprint(d)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func sizes(s tensor.Shape) []int64 {
	list := make([]int64, len(s))
	for i, d := range s {
		list[i] = int64(d)
	}
	return list
}

// collect returns the outputs of a run as arrays by name, without those that the caller already has.
func collect(
	ports []port,
	values []onnxruntime.Value,
	given func(name string) bool,
) (map[string]*tensor.Dense, error) {
	out := make(map[string]*tensor.Dense, len(ports))
	for i, p := range ports {
		if p.hidden || given(p.name) {
			continue
		}
		var shape []int64
		if !p.ranked {
			s, ok := values[p.shapes].(*onnxruntime.Tensor[int64])
			if !ok {
				return nil, errors.New("the runtime returned no shape of output " + p.name)
			}
			shape = append([]int64{}, s.GetData()...)
		}
		d, err := kinds[p.typ].dense(values[i], shape)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", p.name, err)
		}
		out[p.name] = d
	}
	return out, nil
}

// destroy frees values; the Go memory they refer to lives on in the arrays.
func destroy(values []onnxruntime.Value) {
	for _, v := range values {
		if v != nil {
			v.Destroy() // never fails
		}
	}
}

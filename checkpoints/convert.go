package checkpoints

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// Float32s widens the bytes of a floating-point tensor (little-endian) to float32; float64 is rounded.
func Float32s(t onnx.DType, data []byte) ([]float32, error) {
	if !t.IsFloat() {
		return nil, fmt.Errorf("%v is not a floating-point type", t)
	}
	if len(data)%t.Size() != 0 {
		return nil, fmt.Errorf("%d bytes are not a whole number of elements of type %v", len(data), t)
	}
	out := make([]float32, len(data)/t.Size())
	return out, Widen(out, t, data)
}

// halves returns the values of all float16 numbers.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	var out [1 << 16]float32
	for i := range out {
		out[i] = onnx.Float16Value(uint16(i))
	}
	return &out
})

// Widen is [Float32s] into an existing slice, whose length must match the bytes.
func Widen(out []float32, t onnx.DType, data []byte) error {
	if !t.IsFloat() {
		return fmt.Errorf("%v is not a floating-point type", t)
	}
	if len(data) != len(out)*t.Size() {
		return fmt.Errorf("%d bytes are not %d elements of type %v", len(data), len(out), t)
	}
	le := binary.LittleEndian
	switch t {
	case onnx.Float:
		for i := range out {
			out[i] = math.Float32frombits(le.Uint32(data[4*i:]))
		}
	case onnx.Double:
		for i := range out {
			out[i] = float32(math.Float64frombits(le.Uint64(data[8*i:])))
		}
	case onnx.Float16:
		values := halves()
		for i := range out {
			out[i] = values[le.Uint16(data[2*i:])]
		}
	case onnx.BFloat16:
		for i := range out {
			out[i] = onnx.BFloat16Value(le.Uint16(data[2*i:]))
		}
	}
	return nil
}

// AppendFloat32s appends v as elements of the floating-point type t, little-endian, rounded to nearest even.
func AppendFloat32s(b []byte, t onnx.DType, v []float32) ([]byte, error) {
	if !t.IsFloat() {
		return nil, fmt.Errorf("%v is not a floating-point type", t)
	}
	b = slices.Grow(b, len(v)*t.Size())
	le := binary.LittleEndian
	for _, x := range v {
		switch t {
		case onnx.Float:
			b = le.AppendUint32(b, math.Float32bits(x))
		case onnx.Double:
			b = le.AppendUint64(b, math.Float64bits(float64(x)))
		case onnx.Float16:
			b = le.AppendUint16(b, onnx.Float16Bits(x))
		case onnx.BFloat16:
			b = le.AppendUint16(b, onnx.BFloat16Bits(x))
		}
	}
	return b, nil
}

// dense copies little-endian bytes into a tensor.
func dense(t onnx.DType, shape []int64, data []byte) (*tensor.Dense, error) {
	dims := make([]int, len(shape))
	for i, d := range shape {
		dims[i] = int(d)
	}
	var backing any
	switch t {
	case onnx.Float, onnx.Float16, onnx.BFloat16:
		v, err := Float32s(t, data)
		if err != nil {
			return nil, err
		}
		backing = v
	case onnx.Double:
		backing = decode[float64](data)
	case onnx.Int64:
		backing = decode[int64](data)
	case onnx.Int32:
		backing = decode[int32](data)
	case onnx.Int16:
		backing = decode[int16](data)
	case onnx.Int8:
		backing = decode[int8](data)
	case onnx.Uint64:
		backing = decode[uint64](data)
	case onnx.Uint32:
		backing = decode[uint32](data)
	case onnx.Uint16:
		backing = decode[uint16](data)
	case onnx.Uint8:
		backing = slices.Clone(data)
	case onnx.Bool:
		v := make([]bool, len(data))
		for i, x := range data {
			v[i] = x != 0
		}
		backing = v
	default:
		return nil, fmt.Errorf("elements of type %v are not supported", t)
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(backing)), nil
}

func decode[T float64 | int64 | int32 | int16 | int8 | uint64 | uint32 | uint16](data []byte) []T {
	var zero T
	out := make([]T, len(data)/binary.Size(zero))
	if _, err := binary.Decode(data, binary.LittleEndian, out); err != nil {
		panic(err) // the length was checked with the header
	}
	return out
}

// storedType returns the element type that a tensor is stored with.
func storedType(d *tensor.Dense) (onnx.DType, error) {
	for t, dt := range map[onnx.DType]tensor.Dtype{onnx.Float: tensor.Float32, onnx.Double: tensor.Float64,
		onnx.Int64: tensor.Int64, onnx.Int32: tensor.Int32, onnx.Int16: tensor.Int16, onnx.Int8: tensor.Int8,
		onnx.Uint64: tensor.Uint64, onnx.Uint32: tensor.Uint32, onnx.Uint16: tensor.Uint16, onnx.Uint8: tensor.Uint8,
		onnx.Bool: tensor.Bool} {
		if d.Dtype() == dt {
			return t, nil
		}
	}
	return 0, fmt.Errorf("elements of type %v cannot be stored", d.Dtype())
}

// appendElements appends the elements of a tensor, little-endian and row-major.
func appendElements(b []byte, d *tensor.Dense) ([]byte, error) {
	if slices.Contains(d.Shape(), 0) { // no elements, and no data to ask for
		return b, nil
	}
	if d.RequiresIterator() || !d.DataOrder().IsRowMajor() { // a view: copy it to make it contiguous
		d = d.Materialize().(*tensor.Dense)
	}
	data := d.Data()
	switch v := data.(type) { // a scalar's data is not a slice
	case float32:
		data = []float32{v}
	case float64, int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool:
		return binary.Append(b, binary.LittleEndian, v)
	}
	if v, ok := data.([]float32); ok {
		return AppendFloat32s(b, onnx.Float, v)
	}
	return binary.Append(b, binary.LittleEndian, data)
}

package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	pb "assay/onnx/onnxpb"
)

// packed holds the bits per element of types that this package does not compute with. Their tensors are read and
// written unchanged.
var packed = map[DType]uint64{
	14: 64, 15: 128, // complex64, complex128
	17: 8, 18: 8, 19: 8, 20: 8, 24: 8, // float8
	21: 4, 22: 4, 23: 4, 25: 2, 26: 2, // uint4, int4, float4, uint2, int2: several to a byte
}

// byteSize returns the number of bytes of a tensor of fixed-size elements.
func byteSize(t DType, shape []int64) (int64, error) {
	width := uint64(8 * t.Size())
	if width == 0 {
		width = packed[t]
	}
	if width == 0 && t != String {
		return 0, fmt.Errorf("elements of %v are not supported", t)
	}
	n := uint64(1)
	empty := false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", shape)
		}
		empty = empty || d == 0
	}
	if empty {
		return 0, nil
	}
	for _, d := range append([]int64{int64(max(width, 1))}, shape...) {
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v has too many elements", shape)
		}
		n = low
	}
	return int64((n + 7) / 8), nil
}

func decodeTensor(p *pb.TensorProto) (*Tensor, error) {
	if p == nil {
		return nil, errors.New("it is declared a tensor but has none")
	}
	t := &Tensor{Name: p.GetName(), Type: DType(p.GetDataType()), Shape: append([]int64{}, p.Dims...)}
	size, err := byteSize(t.Type, t.Shape)
	switch {
	case err != nil:
		return nil, err
	case p.Segment != nil:
		return nil, errors.New("segments of tensors are not supported: store the full tensor")
	case len(p.RawData) > 0 && typedLen(p) > 0:
		return nil, errors.New("it has both raw_data and typed values, want one of them")
	case p.GetDataLocation() == pb.TensorProto_EXTERNAL:
		if len(p.RawData) > 0 || typedLen(p) > 0 {
			return nil, errors.New("its data is declared external, but it also has data itself")
		}
		t.External, err = decodeExternal(p, t.Type, size)
		return t, err
	case p.GetDataLocation() != pb.TensorProto_DEFAULT:
		return nil, fmt.Errorf("unknown data location %d", p.GetDataLocation())
	case t.Type == String:
		if n := t.Count(); int64(len(p.StringData)) != n || typedLen(p) != len(p.StringData) || len(p.RawData) > 0 {
			return nil, fmt.Errorf("shape %v of strings needs %d in string_data, the file has %d",
				t.Shape, n, len(p.StringData))
		}
		for _, s := range p.StringData {
			t.Strings = append(t.Strings, string(s))
		}
		return t, nil
	case len(p.RawData) > 0 || typedLen(p) == 0:
		t.Data = p.RawData
	default:
		if t.Data, err = typedData(p, t.Type); err != nil {
			return nil, err
		}
	}
	if t.Data == nil {
		t.Data = []byte{}
	}
	if int64(len(t.Data)) != size {
		return nil, fmt.Errorf("shape %v of %v needs %d bytes, the file has %d", t.Shape, t.Type, size, len(t.Data))
	}
	return t, nil
}

func decodeExternal(p *pb.TensorProto, t DType, size int64) (*External, error) {
	if t == String {
		return nil, errors.New("strings cannot be external data")
	}
	e := &External{Length: size}
	seen := map[string]bool{}
	for _, kv := range p.ExternalData {
		key, value := kv.GetKey(), kv.GetValue()
		if seen[key] {
			return nil, fmt.Errorf("external %s is given twice", key)
		}
		seen[key] = true
		switch {
		case key == "location":
			e.Location = value
		case key == "offset" || key == "length":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("external %s %q is not a number of bytes", key, value)
			}
			if key == "offset" {
				e.Offset = n
			} else {
				e.Length = n
			}
		case key == "checksum" || strings.HasPrefix(key, "prepacked"): // irrelevant for finding the data
		default:
			return nil, fmt.Errorf("external data has the entry %q, want location, offset, length, checksum", key)
		}
	}
	if e.Location == "" {
		return nil, errors.New("external data without a location")
	}
	return e, nil
}

// typedLen counts the values in the typed fields.
func typedLen(p *pb.TensorProto) int {
	return len(p.FloatData) + len(p.DoubleData) + len(p.Int32Data) + len(p.Int64Data) + len(p.Uint64Data) +
		len(p.StringData)
}

// typedData turns the typed fields of a TensorProto into raw bytes. Each type has one field; a value in any other is
// an error.
func typedData(p *pb.TensorProto, t DType) ([]byte, error) {
	le := binary.LittleEndian
	var b []byte
	own := 0
	switch t {
	case Float, 14:
		b, own = Float32Bytes(p.FloatData), len(p.FloatData)
	case Double, 15:
		for _, v := range p.DoubleData {
			b = le.AppendUint64(b, math.Float64bits(v))
		}
		own = len(p.DoubleData)
	case Int64:
		b, own = int64Bytes(p.Int64Data), len(p.Int64Data)
	case Uint64:
		for _, v := range p.Uint64Data {
			b = le.AppendUint64(b, v)
		}
		own = len(p.Uint64Data)
	case Uint32:
		for _, v := range p.Uint64Data {
			if v > math.MaxUint32 {
				return nil, fmt.Errorf("%d is not a valid %v", v, t)
			}
			b = le.AppendUint32(b, uint32(v))
		}
		own = len(p.Uint64Data)
	default:
		low, high := int64(math.MinInt8), int64(math.MaxUint8) // of a byte; writers store it signed or unsigned
		width := 1
		switch t {
		case Int32:
			low, high, width = math.MinInt32, math.MaxInt32, 4
		case Int16:
			low, high, width = math.MinInt16, math.MaxInt16, 2
		case Uint16, Float16, BFloat16:
			low, high, width = 0, math.MaxUint16, 2
		case Int8:
			high = math.MaxInt8
		case Uint8:
			low = 0
		case Bool:
			low, high = 0, 1
		}
		for _, v := range p.Int32Data {
			if int64(v) < low || int64(v) > high {
				return nil, fmt.Errorf("%d is not a valid %v", v, t)
			}
			b = append(b, le.AppendUint32(nil, uint32(v))[:width]...)
		}
		own = len(p.Int32Data)
	}
	if n := typedLen(p); n != own {
		return nil, fmt.Errorf("%d values are in fields of other types than %v", n-own, t)
	}
	return b, nil
}

package onnx

import (
	"encoding/binary"
	"math"
)

// Floats reads a floating-point constant whose bytes are in memory; nil otherwise.
func Floats(t *Tensor) []float64 {
	if t == nil || t.Data == nil {
		return nil
	}
	out := make([]float64, t.Count())
	for i := range out {
		switch t.Type {
		case Float:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
		case Double:
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
		case Float16:
			out[i] = float64(Float16Value(binary.LittleEndian.Uint16(t.Data[2*i:])))
		case BFloat16:
			out[i] = float64(BFloat16Value(binary.LittleEndian.Uint16(t.Data[2*i:])))
		default:
			return nil
		}
	}
	return out
}

package quant

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"assay/checkpoints"
	"assay/internal/workers"
	"assay/onnx"
)

// Matrix is a matrix rounded to nearest in blocks along its columns.
type Matrix struct {
	Out, In, Bits, Block int
	Q                    []byte    // [out, in]
	Scales               []float32 // [out, blocks]
	Zeros                []byte    // [out, blocks]
}

// Quantizer rounds matrices to nearest.
type Quantizer struct {
	Bits, Block int
	Symmetric   bool
	Half        bool // scales are rounded to float16 before values are quantised
}

// Round quantises w [out, in] in blocks of Block columns, of which the last may be short, as ONNX Runtime's own
// quantiser does. With lo = min(0, least) and hi = max(0, greatest) of a block,
//
//	symmetric: scale = (the one of larger magnitude, lo when equal) / -2^(bits-1), with its sign; zero = 2^(bits-1)
//	otherwise: scale = (hi - lo) / (2^bits - 1); zero = round(-lo / scale), 0 if the scale is 0
//
// q = round(w (1/scale) + zero), 0 for 1/0; everything is clamped to 0 .. 2^bits - 1, and halves round away from
// zero.
func (h Quantizer) Round(w []float32, out, in int) *Matrix {
	r := h.empty(out, in)
	blocks := len(r.Scales) / out
	for n := range out {
		for b := range blocks {
			from, to := n*in+b*h.Block, n*in+min(in, (b+1)*h.Block)
			r.Scales[n*blocks+b], r.Zeros[n*blocks+b] = h.block(w[from:to], r.Q[from:to])
		}
	}
	return r
}

func (h Quantizer) empty(out, in int) *Matrix {
	blocks := (in + h.Block - 1) / h.Block
	return &Matrix{
		Out:    out,
		In:     in,
		Bits:   h.Bits,
		Block:  h.Block,
		Q:      make([]byte, out*in),
		Scales: make([]float32, out*blocks),
		Zeros:  make([]byte, out*blocks),
	}
}

func (h Quantizer) block(w []float32, q []byte) (scale float32, zero byte) {
	var lo, hi float32
	for _, v := range w {
		lo, hi = min(lo, v), max(hi, v)
	}
	top, middle := float32(int(1)<<h.Bits-1), float32(int(1)<<(h.Bits-1))
	switch {
	case !h.Symmetric:
		scale = (hi - lo) / top
	case hi > -lo:
		scale = hi / -middle
	default:
		scale = lo / -middle
	}
	if h.Half {
		scale = onnx.Float16Value(onnx.Float16Bits(scale))
	}
	if h.Symmetric {
		zero = byte(middle)
	} else if scale != 0 {
		zero = byte(cut(halfAway(-lo/scale), top))
	}
	var r float32
	if scale != 0 {
		r = 1 / scale
	}
	for i, v := range w {
		product := v * r // rounded to float32 before the sum
		q[i] = byte(cut(halfAway(product+float32(zero)), top))
	}
	return scale, zero
}

// halfAway rounds to an integer, halves away from zero, with the sum in float32.
func halfAway(x float32) float32 {
	if x < 0 {
		return -float32(math.Floor(float64(-x + 0.5)))
	}
	return float32(math.Floor(float64(x + 0.5)))
}

func cut(x, top float32) float32 { return min(max(x, 0), top) }

// Value is element [n, k] of the dequantised matrix.
func (r *Matrix) Value(n, k int) float32 {
	blocks := (r.In + r.Block - 1) / r.Block
	b := n*blocks + k/r.Block
	return r.Scales[b] * (float32(r.Q[n*r.In+k]) - float32(r.Zeros[b]))
}

// Error is the error of rounding W to W'.
type Error struct {
	Relative float64 // |W - W'| / |W|, roots of the sums of squares
	Largest  float64 // largest |w - w'|
}

// RoundStored is Round for a matrix as stored in a checkpoint. NaN, infinities and ranges that overflow are errors,
// and so are scales that float16 would hold with less than its 11 bits of precision.
func (h Quantizer) RoundStored(data []byte, t onnx.DType, out, in int) (*Matrix, Error, error) {
	r := h.empty(out, in)
	blocks := len(r.Scales) / out
	size := in * t.Size()
	sums := make([]struct{ off, all, most float64 }, out)
	err := workers.Each(out, runtime.GOMAXPROCS(0), func(n int) error {
		w, err := checkpoints.Float32s(t, data[n*size:(n+1)*size])
		if err != nil {
			return err
		}
		row := h.Round(w, 1, in)
		if err := h.checkScales(w, row.Scales); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		copy(r.Q[n*in:], row.Q)
		copy(r.Scales[n*blocks:], row.Scales)
		copy(r.Zeros[n*blocks:], row.Zeros)
		s := &sums[n]
		for k, v := range w {
			d := math.Abs(float64(v) - float64(row.Value(0, k)))
			s.off, s.all, s.most = s.off+d*d, s.all+float64(v)*float64(v), max(s.most, d)
		}
		if math.IsNaN(s.all) || math.IsInf(s.all, 0) {
			return fmt.Errorf("row %d holds NaN or infinities", n)
		}
		if math.IsNaN(s.off) || math.IsInf(s.off, 0) {
			return fmt.Errorf("row %d: its smallest and largest value (%g, %g) are further apart than float32 can hold", n,
				slices.Min(w), slices.Max(w))
		}
		return nil
	})
	if err != nil {
		return nil, Error{}, err
	}
	var e Error
	var off, all float64
	for _, s := range sums {
		off, all, e.Largest = off+s.off, all+s.all, max(e.Largest, s.most)
	}
	if all > 0 {
		e.Relative = math.Sqrt(off / all)
	}
	return r, e, nil
}

// The range of float16's normal numbers.
const minHalf, maxHalf = 0x1p-14, 65504

// checkScales refuses scales of the row w that float16 does not hold at full precision.
func (h Quantizer) checkScales(w, scales []float32) error {
	for b, s := range scales {
		size := math.Abs(float64(s))
		block := w[b*h.Block : min(len(w), (b+1)*h.Block)]
		zero := s == 0 && !slices.ContainsFunc(block, func(v float32) bool { return v != 0 })
		if h.Half && !zero && !(size >= minHalf && size <= maxHalf) {
			return fmt.Errorf("the scale of the columns starting at %d is outside float16's normal numbers: store scales in "+
				"float32", b*h.Block)
		}
	}
	return nil
}

// GPTQ is a matrix in GPTQ's layout, version 2.
type GPTQ struct {
	In     int
	Weight []byte    // int32 [in bits/32, out]
	Zeros  []byte    // int32 [groups, out bits/32]
	Scales []float32 // [groups, out]
}

// GPTQ returns the matrix in GPTQ's layout. Its sides must fill whole words.
func (r *Matrix) GPTQ() GPTQ {
	blocks := (r.In + r.Block - 1) / r.Block
	return GPTQ{
		In:     r.In,
		Weight: packAlongIn(r.Q, r.Out, r.In, r.Bits),
		Zeros:  packAlongRow(transpose(r.Zeros, blocks, r.Out), blocks, r.Out, r.Bits),
		Scales: transpose(r.Scales, blocks, r.Out),
	}
}

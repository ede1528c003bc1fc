package quant

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/onnx"
)

// TestRangeOverflows: a block whose range float32 does not hold is an error, not a NaN.
func TestRangeOverflows(t *testing.T) {
	w := make([]float32, 32)
	w[1], w[2] = 3e38, -3e38
	_, _, err := Quantizer{Bits: 4, Block: 16}.RoundStored(onnx.Float32Bytes(w), onnx.Float, 2, 16)
	if err == nil || !strings.Contains(err.Error(), "further apart than float32 can hold") {
		t.Errorf("got error %v, want one with %q", err, "further apart than float32 can hold")
	}
}

// TestHalfScales: float16 scales cost little accuracy, and scales that it cannot hold are errors.
func TestHalfScales(t *testing.T) {
	w := make([]float32, 4*64)
	for i := range w {
		w[i] = float32(math.Sin(float64(i*i))) / 50
	}
	for _, symmetric := range []bool{false, true} {
		t.Run(fmt.Sprintf("symmetric %t", symmetric), func(t *testing.T) {
			exact := Quantizer{Bits: 4, Block: 32, Symmetric: symmetric}
			half := exact
			half.Half = true
			_, lossA, errA := exact.RoundStored(onnx.Float32Bytes(w), onnx.Float, 4, 64)
			b, lossB, errB := half.RoundStored(onnx.Float32Bytes(w), onnx.Float, 4, 64)
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			for _, s := range b.Scales {
				if onnx.Float16Value(onnx.Float16Bits(s)) != s {
					t.Errorf("got scale %g, want a value of float16", s)
				}
			}
			if !(math.Abs(lossA.Relative-lossB.Relative) <= 0.001*lossA.Relative) {
				t.Errorf("got relative errors %g and %g, want equal ones", lossA.Relative, lossB.Relative)
			}
			for _, tiny := range []float32{1e-6, 1e9} {
				v := slices.Clone(w)
				for i := range 32 {
					v[i] *= tiny
				}
				if _, _, err := half.RoundStored(onnx.Float32Bytes(v), onnx.Float, 4, 64); err == nil ||
					!strings.Contains(err.Error(), "float16") {
					t.Errorf("%g: error %v, want one about float16", tiny, err)
				}
			}
		})
	}
}

// TestCheckScales: scales that float16 holds at full precision, and scales on either side.
func TestCheckScales(t *testing.T) {
	for _, c := range []struct {
		scale, weight float32
		want          bool
	}{
		{minHalf, 1, true}, {math.Nextafter32(minHalf, 0), 1, false}, {-minHalf, 1, true}, {maxHalf, 1, true},
		{math.Nextafter32(maxHalf, 1e9), 1, false}, {0, 0, true}, {0, 1, false}, {float32(math.NaN()), 1, false},
	} {
		t.Run(fmt.Sprint(c.scale, c.weight), func(t *testing.T) {
			w, scales := []float32{0, 0, 0, c.weight, 0}, []float32{1, c.scale, 1} // blocks of two
			err := Quantizer{Bits: 4, Block: 2, Half: true}.checkScales(w, scales)
			if (err == nil) != c.want || err != nil && !strings.Contains(err.Error(), "columns starting at 2") {
				t.Errorf("got error %v, want none: %t", err, c.want)
			}
			if err := (Quantizer{Bits: 4, Block: 2}).checkScales(w, scales); err != nil {
				t.Errorf("in float32: got error %v, want none", err)
			}
		})
	}
}

// TestRoundStored: the error of rounding, and rows with NaN or infinities.
func TestRoundStored(t *testing.T) {
	w := make([]float32, 32)
	for i := range w {
		w[i] = float32(i % 16) // 4 bits hold them
	}
	h := Quantizer{Bits: 4, Block: 16}
	r, loss, err := h.RoundStored(onnx.Float32Bytes(w), onnx.Float, 2, 16)
	if err != nil || loss != (Error{}) {
		t.Fatalf("whole numbers: got %+v, %v, want no cost", loss, err)
	}
	if l := r.Layer("key", "near", false); l.Stored() != 32/2+2*4 || l.Key() != "key" || l.zeros == nil || l.Block != 16 {
		t.Errorf("Layer: got %d bytes, key %s, blocks of %d, want 24, key, 16", l.Stored(), l.Key(), l.Block)
	}
	w[16+3] = 3.25 // so the nearest value is 0.25 away
	if _, loss, err = h.RoundStored(onnx.Float32Bytes(w), onnx.Float, 2, 16); err != nil || loss.Largest != 0.25 {
		t.Errorf("a quarter: got largest %v, %v, want 0.25", loss.Largest, err)
	}
	all := 0.0
	for _, v := range w {
		all += float64(v) * float64(v)
	}
	if want := 0.25 / math.Sqrt(all); !(math.Abs(loss.Relative-want) <= 1e-15) {
		t.Errorf("a quarter: got relative %v, want %v", loss.Relative, want)
	}
	if _, loss, err := h.RoundStored(make([]byte, 4*32), onnx.Float, 2, 16); err != nil || loss.Relative != 0 {
		t.Errorf("zeros: got %+v, %v, want no cost", loss, err)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		w[16+3] = float32(v)
		if _, _, err := h.RoundStored(onnx.Float32Bytes(w), onnx.Float, 2, 16); err == nil ||
			!strings.Contains(err.Error(), "row 1 holds NaN or infinities") {
			t.Errorf("%v: got error %v, want one of row 1", v, err)
		}
	}
}

// Layer is the rounded matrix as a packed weight; a symmetric one has no zero points.
func (r *Matrix) Layer(key, location string, symmetric bool) *QuantLinear {
	l := &QuantLinear{
		Out:      r.Out,
		In:       r.In,
		Bits:     r.Bits,
		key:      key,
		location: location,
		codes:    func() ([]byte, error) { return r.Q, nil },
		scales:   func() ([]float32, error) { return r.Scales, nil },
	}
	l.stored = int64(len(r.Q)*r.Bits/8 + 4*len(r.Scales))
	l.setBlock(r.Block)
	if !symmetric {
		l.zeros = func() ([]byte, error) { return r.Zeros, nil }
	}
	return l
}

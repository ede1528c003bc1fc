package quant

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"assay/checkpoints"
	"assay/internal/workers"
	"assay/onnx"
)

// Bnb is bitsandbytes' 4-bit format: the matrix is stored row by row in blocks, each with its largest magnitude; a
// value is table[q] times that magnitude. Two values per byte, the first in the high half.
type Bnb struct {
	Kind  int64 // in MatMulBnb4's numbering: 0 FP4, 1 NF4
	Block int   // values per block

	data func() ([]byte, error)
	most func() ([]float32, error)
}

// bnbState is the JSON of quant_state.bitsandbytes__nf4.
type bnbState struct {
	Kind        string  `json:"quant_type"`
	Block       int     `json:"blocksize"`
	Type        string  `json:"dtype"`
	Shape       []int64 `json:"shape"`
	NestedBlock int     `json:"nested_blocksize"`
	NestedType  string  `json:"nested_dtype"`
	Offset      float32 `json:"nested_offset"`
}

// Bnb4 returns the initializers of com.microsoft.MatMulBnb4: the bytes [out in/2] uint8, and the magnitudes [blocks]
// float32.
func (l *QuantLinear) Bnb4(name string) (b, most *onnx.Tensor) {
	b = &onnx.Tensor{Name: name + ".B", Type: onnx.Uint8, Shape: []int64{int64(l.Out * l.In / 2)},
		Lazy: &onnx.LazyTensor{Key: l.key + " MatMulBnb4 B", Location: l.location, Fill: func(into []byte) error {
			data, err := l.Bnb.data()
			copy(into, data)
			return err
		}}}
	most = &onnx.Tensor{Name: name + ".absmax", Type: onnx.Float, Shape: []int64{int64(l.Out * l.In / l.Bnb.Block)},
		Lazy: &onnx.LazyTensor{Key: l.key + " MatMulBnb4 absmax", Location: l.location, Fill: func(into []byte) error {
			v, err := l.Bnb.most()
			for i, x := range v {
				binary.LittleEndian.PutUint32(into[4*i:], math.Float32bits(x))
			}
			return err
		}}}
	return b, most
}

// values computes W.
func (b *Bnb) values() ([]float32, error) {
	data, err := b.data()
	if err != nil {
		return nil, err
	}
	most, err := b.most()
	if err != nil {
		return nil, err
	}
	out := make([]float32, 2*len(data))
	table := &onnx.Bnb4Values[b.Kind]
	workers.Do(len(most), func(i int) {
		for k := i * b.Block / 2; k < (i+1)*b.Block/2; k++ {
			out[2*k], out[2*k+1] = table[data[k]>>4]*most[i], table[data[k]&15]*most[i]
		}
	})
	return out, nil
}

// bnbLayer reads NAME.weight and the tensors that bitsandbytes stores with it.
func (f *finder) bnbLayer(base string) (*QuantLinear, []string, error) {
	weight, state := base+".weight", base+".weight.quant_state.bitsandbytes__"+f.config.Kind
	parts := []string{weight, weight + ".absmax", weight + ".quant_map", state}
	text, err := f.raw(state, onnx.Uint8)
	if err != nil {
		return nil, nil, err
	}
	var s bnbState
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", state, err)
	}
	if s.Kind != f.config.Kind || s.Block < 2 || s.Block%2 != 0 || len(s.Shape) != 2 {
		return nil, nil, fmt.Errorf("%s: quant_type %q, blocksize %d and shape %v do not describe a matrix in %s", state,
			s.Kind, s.Block, s.Shape, f.config.Kind)
	}
	l := &QuantLinear{Out: int(s.Shape[0]), In: int(s.Shape[1]), Bnb: &Bnb{Block: s.Block}}
	if s.Kind == "nf4" {
		l.Bnb.Kind = 1
	}
	count := l.Out * l.In
	if count%s.Block != 0 {
		return nil, nil, fmt.Errorf("%s: %v is not a whole number of blocks of %d", state, s.Shape, s.Block)
	}
	if err := f.shape(weight, onnx.Uint8, int64(count/2), 1); err != nil {
		return nil, nil, err
	}
	table, err := f.floats(weight+".quant_map", 16)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(table, onnx.Bnb4Values[l.Bnb.Kind][:]) {
		return nil, nil, fmt.Errorf("%s.quant_map is not bitsandbytes' table of %s", weight, s.Kind)
	}
	l.Bnb.data = func() ([]byte, error) { return f.raw(weight, onnx.Uint8) }
	blocks := count / s.Block
	if f.config.Double {
		parts = append(parts, weight+".nested_absmax", weight+".nested_quant_map")
		err = f.nested(l, weight+".", blocks, s)
	} else {
		l.Bnb.most = func() ([]float32, error) { return f.floats(weight+".absmax", int64(blocks)) }
		_, err = l.Bnb.most()
	}
	l.values = l.Bnb.values
	return l, parts, err
}

// nested reads magnitudes that are themselves quantised: offset + table[q] times the magnitude of their block.
func (f *finder) nested(l *QuantLinear, at string, blocks int, s bnbState) error {
	if s.NestedBlock < 1 {
		return fmt.Errorf("%squant_state: nested_blocksize is missing", at)
	}
	table, err := f.floats(at+"nested_quant_map", 256)
	if err != nil {
		return err
	}
	outer, err := f.floats(at+"nested_absmax", int64((blocks+s.NestedBlock-1)/s.NestedBlock))
	if err != nil {
		return err
	}
	if err := f.shape(at+"absmax", onnx.Uint8, int64(blocks)); err != nil {
		return err
	}
	l.Bnb.most = func() ([]float32, error) {
		q, err := f.raw(at+"absmax", onnx.Uint8)
		out := make([]float32, len(q))
		for i, v := range q {
			product := table[v] * outer[i/s.NestedBlock]
			out[i] = product + s.Offset
		}
		return out, err
	}
	return nil
}

// floatBytes are the values of float8 E4M3: sign, 4 bits of exponent (bias 7), 3 bits of fraction; no infinities.
var floatBytes = func() (table [256]float32) {
	for b := range table {
		e, m := b>>3&15, float64(b&7)
		v := math.Ldexp(1+m/8, e-7)
		if e == 0 {
			v = math.Ldexp(m/8, -6)
		}
		if b&127 == 127 {
			v = math.NaN()
		}
		if b >= 128 {
			v = -v
		}
		table[b] = float32(v)
	}
	return table
}()

// float8Layer reads NAME.weight in float8 with NAME.weight_scale, per row or one for all: W = scale value in float32.
func (f *finder) float8Layer(base string) (*QuantLinear, []string, error) {
	weight, scale := base+".weight", base+".weight_scale"
	info, _ := f.info(weight)
	if len(info.Shape) != 2 {
		return nil, nil, fmt.Errorf("%s has shape %v, want a matrix", weight, info.Shape)
	}
	l := &QuantLinear{Out: int(info.Shape[0]), In: int(info.Shape[1])}
	of, _ := f.info(scale)
	count := onnx.Elements(of.Shape)
	if count != 1 && (count != int64(l.Out) || of.Shape[0] != count) {
		return nil, nil, fmt.Errorf("%s has shape %v, want one scale or one for each of the %d rows", scale, of.Shape, l.Out)
	}
	scales, err := f.floats(scale, of.Shape...)
	if err != nil {
		return nil, nil, err
	}
	l.values = func() ([]float32, error) {
		raw, err := f.raw(weight, onnx.Float8E4M3)
		if err != nil {
			return nil, err
		}
		out := make([]float32, len(raw))
		workers.Do(l.Out, func(n int) {
			s := scales[min(n, len(scales)-1)]
			for k := n * l.In; k < (n+1)*l.In; k++ {
				out[k] = floatBytes[raw[k]] * s
			}
		})
		return out, nil
	}
	return l, []string{weight, scale}, nil
}

var _ checkpoints.QuantizedTensor = (*QuantLinear)(nil)

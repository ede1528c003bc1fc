// Package quant reads 4- and 8-bit weights of published quantised checkpoints in place, quantises weights by rounding
// to nearest, and lays them out for the kernels of ONNX Runtime (MatMulNBits, MatMulBnb4).
//
// A weight W [out, in] is split into groups along in: W = scale (q - zero), computed in float32, where q are integers
// 0 .. 2^bits - 1, and scale and zero belong to the group. GPTQ, AWQ and compressed-tensors store q, scale and zero
// in different bit layouts; a [QuantLinear] represents any of them, or bitsandbytes' 4-bit values. [Split] reads
// quantization_config from config.json, and [Config.Find] turns the stored tensors into QuantLinears.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"assay/internal/workers"
	"assay/onnx"
)

// QuantLinear is the packed weight of a linear layer: a [checkpoints.QuantizedTensor].
type QuantLinear struct {
	Out, In int
	Bits    int     // bits per value, 4 or 8; 0: not integers
	Block   int     // columns that share a scale in MatMulNBits, a power of two; 0: MatMulNBits cannot hold it
	Order   []int64 // column i of the packed weight is column Order[i] of W; nil: same order as in W
	Bnb     *Bnb    // bitsandbytes' 4-bit values; nil: integers

	group    int     // columns that share a scale in the checkpoint
	groups   int     // groups per row
	of       []int32 // group of each column of W; nil: column / group
	stored   int64   // bytes
	key      string
	location string

	codes  func() ([]byte, error)    // q [out, in]
	scales func() ([]float32, error) // [out, groups]
	zeros  func() ([]byte, error)    // [out, groups]; nil: all are 2^(bits-1)
	values func() ([]float32, error) // W itself, of layers without codes
}

// Shape is [out, in].
func (l *QuantLinear) Shape() []int64 { return []int64{int64(l.Out), int64(l.In)} }

// Stored is the size in the checkpoint in bytes.
func (l *QuantLinear) Stored() int64 { return l.stored }

// Key identifies the values on this machine.
func (l *QuantLinear) Key() string { return l.key }

// Packed reports whether graphs compute with the packed weight. Other weights are dequantised to float32 when opened.
func (l *QuantLinear) Packed() bool { return l.Block > 0 || l.Bnb != nil }

// Memory is the number of bytes of memory that the weight takes while graphs with it run.
func (l *QuantLinear) Memory() int64 {
	if l.Bnb != nil {
		return int64(l.Out*l.In/2) + 4*int64(l.Out*l.In/l.Bnb.Block)
	}
	if l.Block == 0 {
		return 4 * int64(l.Out) * int64(l.In)
	}
	n := int64(l.Out) * int64(l.blocks()*l.Block*l.Bits/8) // of B
	n += 4*int64(l.Out*l.blocks()) + 8*int64(len(l.Order))
	if l.zeros != nil {
		n += int64(l.Out * l.zeroRow())
	}
	return n
}

func (l *QuantLinear) blocks() int  { return (l.In + l.Block - 1) / l.Block }
func (l *QuantLinear) zeroRow() int { return (l.blocks()*l.Bits + 7) / 8 }

// Values computes W, row by row: scale (q - zero) in float32.
func (l *QuantLinear) Values() ([]float32, error) {
	if l.values != nil {
		return l.values()
	}
	q, err := l.codes()
	if err != nil {
		return nil, err
	}
	scales, err := l.scales()
	if err != nil {
		return nil, err
	}
	zeros, err := l.allZeros()
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(q))
	workers.Do(l.Out, func(n int) {
		s, z := scales[n*l.groups:(n+1)*l.groups], zeros[n*l.groups:(n+1)*l.groups]
		to := out[n*l.In : (n+1)*l.In]
		for k, v := range q[n*l.In : (n+1)*l.In] {
			g := l.groupOf(k)
			to[k] = s[g] * (float32(v) - float32(z[g]))
		}
	})
	return out, nil
}

func (l *QuantLinear) groupOf(column int) int {
	if l.of != nil {
		return int(l.of[column])
	}
	return column / l.group
}

// allZeros returns the zeros, including implied ones.
func (l *QuantLinear) allZeros() ([]byte, error) {
	if l.zeros != nil {
		return l.zeros()
	}
	z := slices.Repeat([]byte{1 << (l.Bits - 1)}, l.Out*l.groups)
	return z, nil
}

// NBits returns the initializers of com.microsoft.MatMulNBits, with names that start with name: B [out, blocks, block
// bits/8] uint8, scales [out, blocks] float32, and zero_points [out, ceil(blocks bits/8)] uint8, nil if all are
// 2^(bits-1).
func (l *QuantLinear) NBits(name string) (b, scales, zeros *onnx.Tensor) {
	make := func(part string, t onnx.DType, fill func([]byte) error, shape ...int) *onnx.Tensor {
		out := &onnx.Tensor{Name: name + "." + part, Type: t, Lazy: &onnx.LazyTensor{
			Key: l.key + " MatMulNBits " + part, Location: l.location, Fill: fill}}
		for _, d := range shape {
			out.Shape = append(out.Shape, int64(d))
		}
		return out
	}
	b = make("B", onnx.Uint8, l.fillB, l.Out, l.blocks(), l.Block*l.Bits/8)
	scales = make("scales", onnx.Float, l.fillScales, l.Out, l.blocks())
	if l.zeros != nil {
		zeros = make("zero_points", onnx.Uint8, l.fillZeros, l.Out, l.zeroRow())
	}
	return b, scales, zeros
}

// fillB packs q with its columns in packed order; columns beyond in are 0.
func (l *QuantLinear) fillB(into []byte) error {
	q, err := l.codes()
	if err != nil {
		return err
	}
	row := len(into) / l.Out
	workers.Do(l.Out, func(n int) {
		from, to := q[n*l.In:(n+1)*l.In], into[n*row:(n+1)*row]
		if l.Order != nil {
			sorted := make([]byte, l.In)
			for i, k := range l.Order {
				sorted[i] = from[k]
			}
			from = sorted
		}
		packInto(to, from, l.Bits, 0)
	})
	return nil
}

// packInto packs 4- or 8-bit values, the first of two in the low half; fill is an unused high half.
func packInto(to, from []byte, bits int, fill byte) {
	if bits == 8 {
		copy(to, from)
		return
	}
	for i := range len(from) / 2 {
		to[i] = from[2*i] | from[2*i+1]<<4
	}
	if last := len(from) - 1; last%2 == 0 {
		to[last/2] = from[last] | fill<<4
	}
}

func (l *QuantLinear) fillScales(into []byte) error {
	scales, err := l.scales()
	if err != nil {
		return err
	}
	blocks, each := l.blocks(), l.group/l.Block
	for n := range l.Out {
		for b := range blocks {
			s := scales[n*l.groups+min(b/each, l.groups-1)]
			binary.LittleEndian.PutUint32(into[4*(n*blocks+b):], math.Float32bits(s))
		}
	}
	return nil
}

func (l *QuantLinear) fillZeros(into []byte) error {
	zeros, err := l.zeros()
	if err != nil {
		return err
	}
	blocks, each, size := l.blocks(), l.group/l.Block, l.zeroRow()
	row := make([]byte, blocks)
	for n := range l.Out {
		for b := range row {
			row[b] = zeros[n*l.groups+min(b/each, l.groups-1)]
		}
		packInto(into[n*size:(n+1)*size], row, l.Bits, 8)
	}
	return nil
}

// Block sizes that MatMulNBits supports.
const minBlock, maxBlock = 16, 256

// setBlock sets the groups, and the largest block size that divides them; 0 if MatMulNBits supports none. size is the
// size of all groups but the last.
func (l *QuantLinear) setBlock(size int) {
	l.group = size
	l.groups = (l.In + size - 1) / size
	most := maxBlock
	if l.groups == 1 { // one group for the full row: blocks of any size, the last one short
		for l.group = minBlock; l.group < l.In; l.group *= 2 {
		}
		most = min(most, l.group)
	}
	for l.Block = most; l.group%l.Block != 0; l.Block /= 2 {
	}
	if l.Block < minBlock {
		l.Block = 0
	}
}

// sortColumns sets the group of each column. Sorting columns stably by group forms blocks if every group but the last
// is full.
func (l *QuantLinear) sortColumns(of []int32) error {
	sorted := true
	count := make([]int, l.groups)
	for k, g := range of {
		if g < 0 || int(g) >= l.groups {
			return fmt.Errorf("column %d is in group %d; there are %d", k, g, l.groups)
		}
		count[g]++
		sorted = sorted && int(g) == k/l.group
	}
	if sorted {
		return nil
	}
	l.of = of
	start := make([]int64, l.groups+1)
	for g, n := range count {
		if start[g+1] = start[g] + int64(n); n != l.group && g < l.groups-1 || n > l.group {
			l.Block = 0
			return nil
		}
	}
	l.Order = make([]int64, l.In)
	for k, g := range of {
		l.Order[start[g]] = int64(k)
		start[g]++
	}
	return nil
}

package onnx

import (
	"fmt"
	"slices"
)

// Bnb4Values are the values of com.microsoft.MatMulBnb4's 4-bit types, by quant_type: FP4, NF4. They match
// bitsandbytes.
var Bnb4Values = [2][16]float32{
	{
		0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25,
		0, -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25,
	},
	{
		-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
	},
}

func init() {
	inferShaped(inferMatMulNBits, "com.microsoft.MatMulNBits", "com.microsoft.MatMulBnb4")
	inferAs(inferGatherBlock, "com.microsoft.GatherBlockQuantized")
}

// inferMatMulNBits: A [..., K], a packed weight [N, K] -> [..., N].
func inferMatMulNBits(c *inference, a []Dim) ([]Dim, error) {
	n, k := c.n.Int("N", 0), c.n.Int("K", 0)
	if len(a) == 0 || n <= 0 || k <= 0 {
		return nil, fmt.Errorf("needs A of rank 1 or more, and N and K")
	}
	if last := a[len(a)-1]; last.Known() && last.Size != k {
		return nil, fmt.Errorf("input A has %d columns, K is %d", last.Size, k)
	}
	if c.n.Op == "MatMulBnb4" && c.n.Int("transB", 1) == 0 {
		return nil, nil
	}
	return append(slices.Clone(a[:len(a)-1]), Fixed(n)), nil
}

// inferGatherBlock: rows of a block-wise quantised table, with the type of the scales. A byte holds two 4-bit values.
func inferGatherBlock(c *inference) error {
	data, index, t := c.shape(0), c.shape(1), c.arg(2).Type
	c.set(0, t, nil)
	if data == nil || index == nil {
		return nil
	}
	a, err := axis(c.n.Int("gather_axis", 0), len(data))
	if err != nil {
		return err
	}
	q, err := axis(c.n.Int("quantize_axis", 1), len(data))
	if err != nil {
		return err
	}
	sizes := append([]Dim{}, data...)
	if bits := c.n.Int("bits", 4); c.arg(0).Type == Uint8 && bits < 8 && sizes[q].Known() {
		sizes[q] = Fixed(sizes[q].Size * (8 / bits))
	}
	c.set(0, t, append(append(append([]Dim{}, sizes[:a]...), index...), sizes[a+1:]...))
	return nil
}

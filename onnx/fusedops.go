package onnx

import (
	"fmt"
	"math"
	"slices"
)

// FusedDomain is the domain of the operators of libassay_ops.so (ops/ in the repository): attention, rotary embedding,
// normalisation and gated products in one pass each, and their gradients.
const FusedDomain = "assay"

func init() {
	inferAs(inferFlashAttention, "assay.FlashAttention")
	inferAs(func(c *inference) error { return c.like(1, 2, 3) }, "assay.FlashAttentionGrad")
	inferAs(inferRopeSplit, "assay.RopeSplit")
	inferAs(inferRopeSplitGrad, "assay.RopeSplitGrad")
	inferAs(inferAddRMSNorm, "assay.AddRMSNorm")
	inferAs(inferRMSNormGrad, "assay.RMSNormGrad")
	inferAs(func(c *inference) error { return c.like(0) }, "assay.Dropout")
	inferAs(inferSwiGLU, "assay.SwiGLU")
	inferAs(func(c *inference) error { return c.like(1) }, "assay.SwiGLUGrad")
}

// like gives each output the type and shape of an input.
func (c *inference) like(inputs ...int) error {
	for o, i := range inputs {
		c.set(o, c.arg(i).Type, c.shape(i))
	}
	return nil
}

// matrix returns the shape of an input of rank 2, nil if it is unknown.
func (c *inference) matrix(i int) ([]Dim, error) {
	s := c.shape(i)
	if s != nil && len(s) != 2 {
		return nil, fmt.Errorf("input %d has rank %d, want 2", i, len(s))
	}
	return s, nil
}

// inferFlashAttention: q [N, heads D], k and v [M, kv_heads D], segments [G, 5] -> o with the shape of q, lse [heads,
// N].
func inferFlashAttention(c *inference) error {
	q, err := c.matrix(0)
	c.set(0, c.arg(0).Type, q)
	c.set(1, Float, nil)
	heads := c.n.Int("heads", 0)
	kv := c.n.Int("kv_heads", heads)
	switch {
	case err != nil:
		return err
	case heads <= 0 || kv <= 0 || heads%kv != 0:
		return fmt.Errorf("needs heads and a kv_heads that divides it, have %d and %d", heads, kv)
	case q == nil:
		return nil
	}
	c.set(1, Float, []Dim{Fixed(heads), q[0]})
	for i := 1; i < 3; i++ {
		k, err := c.matrix(i)
		if err != nil {
			return err
		}
		if k != nil && k[1].Known() && q[1].Known() && k[1].Size*heads != q[1].Size*kv {
			return fmt.Errorf("q has %d columns for %d heads, input %d has %d for %d", q[1].Size, heads, i, k[1].Size, kv)
		}
	}
	return nil
}

// headSize returns the elements per head of columns that hold heads heads; 0 if columns is unknown.
func headSize(columns Dim, heads int64) (int64, error) {
	if heads <= 0 {
		return 0, fmt.Errorf("needs heads and kv_heads")
	}
	if !columns.Known() {
		return 0, nil
	}
	if columns.Size%heads != 0 {
		return 0, fmt.Errorf("%d columns do not divide into %d heads", columns.Size, heads)
	}
	return columns.Size / heads, nil
}

// inferRopeSplit: qkv [N, (heads + 2 kv_heads) D] -> q [N, heads D], k and v [N, kv_heads D].
func inferRopeSplit(c *inference) error {
	heads := c.n.Int("heads", 0)
	kv := c.n.Int("kv_heads", heads)
	x, err := c.matrix(0)
	if err != nil {
		return err
	}
	for i, n := range []int64{heads, kv, kv} {
		c.set(i, c.arg(0).Type, nil)
		if x == nil {
			continue
		}
		size, err := headSize(x[1], heads+2*kv)
		if err != nil {
			return err
		}
		columns := Symbol(fmt.Sprintf("?%s.columns", c.n.Outputs[i]))
		if size > 0 {
			columns = Fixed(n * size)
		}
		c.set(i, c.arg(0).Type, []Dim{x[0], columns})
	}
	return nil
}

// inferRopeSplitGrad: the gradient of qkv from those of q, k and v, any of which may be missing.
func inferRopeSplitGrad(c *inference) error {
	heads := c.n.Int("heads", 0)
	kv := c.n.Int("kv_heads", heads)
	for i, n := range []int64{heads, kv, kv} {
		if !c.has(i) {
			continue
		}
		c.set(0, c.arg(i).Type, nil)
		x, err := c.matrix(i)
		if err != nil || x == nil {
			return err
		}
		size, err := headSize(x[1], n)
		if err != nil {
			return err
		}
		if size > 0 {
			c.set(0, c.arg(i).Type, []Dim{x[0], Fixed((heads + 2*kv) * size)})
			return nil
		}
	}
	return nil
}

// inferAddRMSNorm: x [..., h], y like x or missing, weight [h] -> the sum like x, the normalised rows with the type
// of y, and the inverse deviations [...].
func inferAddRMSNorm(c *inference) error {
	x, t := c.shape(0), c.arg(0).Type
	c.set(0, t, x)
	if c.has(1) {
		t = c.arg(1).Type
	}
	c.set(1, t, x)
	c.set(2, Float, nil)
	if len(x) > 0 {
		c.set(2, Float, x[:len(x)-1])
	}
	return nil
}

// HasZero reports whether a norm's weight has a 0, or nearly so: RMSNormGrad would divide by it.
func HasZero[T float32 | float64](weight []T) bool {
	return slices.ContainsFunc(weight, func(w T) bool { return math.Abs(float64(w)) < 1e-30 })
}

// inferRMSNormGrad: both outputs have the shape of the normed rows; dx has the weight's type, dy theirs.
func inferRMSNormGrad(c *inference) error {
	rows := c.shape(2)
	c.set(0, c.arg(3).Type, rows)
	c.set(1, c.arg(2).Type, rows)
	return nil
}

// inferSwiGLU: [N, 2 D] -> [N, D].
func inferSwiGLU(c *inference) error {
	x, err := c.matrix(0)
	c.set(0, c.arg(0).Type, nil)
	if err != nil || x == nil {
		return err
	}
	columns := Symbol(fmt.Sprintf("?%s.columns", c.n.Outputs[0]))
	if x[1].Known() {
		if x[1].Size%2 != 0 {
			return fmt.Errorf("%d columns do not split into two halves", x[1].Size)
		}
		columns = Fixed(x[1].Size / 2)
	}
	c.set(0, c.arg(0).Type, []Dim{x[0], columns})
	return nil
}

// Package optim updates parameters by their gradients, step for step as torch does: AdamW (also with 8-bit moments),
// Adafactor and Lion, clipping by norm, and learning-rate schedules.
//
// Tensors become [Param]s, in [ParamGroups] with one optimizer per group. A training step computes the [Squares] of
// the gradients (per block, so that shards give the same norm), clips by their [Root], gets a rate from the
// [Schedule], and calls Update. State lists all tensors of a checkpoint.
package optim

import (
	"errors"
	"fmt"

	"gorgonia.org/tensor"
)

// Param is one trainable tensor, float32, updated in place by the optimizer. The name is its name in the scorer
// directory or the checkpoint.
type Param struct {
	Name  string
	Value *tensor.Dense

	// For a slice of a tensor: the shape of the full tensor (nil: Value is the full tensor), and the index of the
	// first element of the slice.
	Whole tensor.Shape
	First int
}

// Stretch returns elements lo to hi-1 of a parameter, in place. The stretches of a tensor partition it. If each
// begins at a multiple of [Block], and ends at one or at the tensor's end, an optimizer updates them bit for bit like
// the full tensor. [Adafactor] needs full tensors.
func (p Param) Stretch(lo, hi int) Param {
	if lo == 0 && hi == len(p.Floats()) {
		return p
	}
	part := tensor.New(tensor.WithShape(hi-lo), tensor.WithBacking(p.Floats()[lo:hi:hi]))
	return Param{Name: p.Name, Value: part, Whole: p.Value.Shape(), First: lo}
}

// NewParams pairs names with tensors.
func NewParams(names []string, values []*tensor.Dense) []Param {
	params := make([]Param, len(names))
	for i, n := range names {
		params[i] = Param{Name: n, Value: values[i]}
	}
	return params
}

// Floats returns the elements, row-major, in place; one for a scalar.
func (p Param) Floats() []float32 { return p.Value.Float32s() }

// Gradients returns gradients in the order of the parameters.
func Gradients(params []Param, byName map[string]*tensor.Dense) []*tensor.Dense {
	grads := make([]*tensor.Dense, len(params))
	for i, p := range params {
		grads[i] = byName[p.Name]
	}
	return grads
}

// Check returns an error if an optimizer cannot update the parameters in place.
func Check(params []Param) error {
	if len(params) == 0 {
		return errors.New("the model has no trainable parameters")
	}
	seen := map[string]bool{}
	for _, p := range params {
		switch {
		case p.Value == nil || p.Value.Dtype() != tensor.Float32:
			return fmt.Errorf("parameter %s: the optimizer needs float32", p.Name)
		case p.Value.RequiresIterator():
			return fmt.Errorf("parameter %s: the optimizer needs contiguous values, not a view", p.Name)
		case seen[p.Name]:
			return fmt.Errorf("two parameters have the name %s", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

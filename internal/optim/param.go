// Package optim updates parameters by their gradients, step for step as torch does: AdamW (also with moments of 8
// bits), Adafactor and Lion, clipping by the norm, and learning-rate schedules.
//
// Tensors become [Param]s, in [ParamGroups] with an optimizer each. A training step takes the gradients' [Squares] (per
// block, so that shards give the same norm), clips by their [Root], asks the [Schedule] for a rate, and calls Update.
// State lists all tensors of a checkpoint.
package optim

import (
	"errors"
	"fmt"

	"gorgonia.org/tensor"
)

// Param is one trainable tensor, float32, updated in place by the optimizer. The name is that of the scorer directory
// or the checkpoint.
type Param struct {
	Name  string
	Value *tensor.Dense

	// Of a stretch of a tensor: the shape of the whole (nil: Value is the whole), and the index of its first
	// element there.
	Whole tensor.Shape
	First int
}

// Stretch is elements lo to hi-1 of a parameter, in place. The stretches of a tensor partition it. If each begins at
// a multiple of [Block], and ends there or at the tensor's end, an optimizer updates them bit for bit as the whole.
// [Adafactor] wants whole tensors.
func (p Param) Stretch(lo, hi int) Param {
	if lo == 0 && hi == len(p.Floats()) {
		return p
	}
	part := tensor.New(tensor.WithShape(hi-lo), tensor.WithBacking(p.Floats()[lo:hi:hi]))
	return Param{Name: p.Name, Value: part, Whole: p.Value.Shape(), First: lo}
}

// NewParams joins names and tensors.
func NewParams(names []string, values []*tensor.Dense) []Param {
	params := make([]Param, len(names))
	for i, n := range names {
		params[i] = Param{Name: n, Value: values[i]}
	}
	return params
}

// Floats gives the elements, row-major, in place; one for a scalar.
func (p Param) Floats() []float32 { return p.Value.Float32s() }

// Gradients puts the gradients of parameters into their order.
func Gradients(params []Param, byName map[string]*tensor.Dense) []*tensor.Dense {
	grads := make([]*tensor.Dense, len(params))
	for i, p := range params {
		grads[i] = byName[p.Name]
	}
	return grads
}

// Check makes sure that the parameters are what an optimizer can update in place.
func Check(params []Param) error {
	if len(params) == 0 {
		return errors.New("the model has no trainable parameters")
	}
	seen := map[string]bool{}
	for _, p := range params {
		switch {
		case p.Value == nil || p.Value.Dtype() != tensor.Float32:
			return fmt.Errorf("parameter %s: the optimizer wants float32", p.Name)
		case p.Value.RequiresIterator():
			return fmt.Errorf("parameter %s: the optimizer wants contiguous values, not a view", p.Name)
		case seen[p.Name]:
			return fmt.Errorf("two parameters have the name %s", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

package optimizer

import (
	"assay/trainer/checkpoint"
)

// Tensors lists the tensors of a checkpoint as far as they lie here; of the optimizer's state that may be a part.
func (o *Optimizer) Tensors() []checkpoint.Slice {
	var out []checkpoint.Slice
	for _, p := range o.Params {
		out = append(out, checkpoint.Slice{Name: "parameter/" + p.Name, Shape: p.Value.Shape(), Length: len(p.Floats()),
			Values: p.Floats()})
	}
	for _, s := range o.Groups.State() {
		out = append(out, checkpoint.Slice{
			Name:   s.Kind + "/" + o.owned[s.Param].Name,
			Shape:  s.Shape,
			Packed: s.Bytes != nil,
			First:  s.First,
			Length: len(s.Values) + len(s.Bytes),
			Values: s.Values,
			Bytes:  s.Bytes,
		})
	}
	return out
}

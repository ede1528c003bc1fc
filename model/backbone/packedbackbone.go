package backbone

import (
	"fmt"
	"strings"

	"assay/checkpoints"
	"assay/internal/quant"
	"assay/model/nn"
)

// declarePacked derives the packed layers of absent weights: the language model's linear layers, and also the tower's
// for bitsandbytes, which packs every layer that it is not told to skip.
func declarePacked(b Architecture, w *checkpoints.Weights, packing *quant.Config) {
	if packing == nil || !w.Absent() {
		return
	}
	for _, p := range b.Parameters() {
		layer := strings.HasPrefix(p.Name, b.Decoder().Key+"layers.") || packing.Everywhere() && b.VisionKey(p.Name)
		if layer && p.Role == nn.RoleWeight && len(p.Shape) == 2 && !packing.Skips(p.Name) {
			packing.Declare(w, p.Name, p.Shape[0], p.Shape[1])
		}
	}
}

// Unpacked returns an error that ends with what, the operation that is not possible, if the backbone has packed
// layers.
func (o *Backbone) Unpacked(what string) error {
	for _, name := range o.Weights.Names() {
		if o.Weights.Quantized(name) != nil {
			return fmt.Errorf("%s: the backbone is packed (%s is stored in few bits): %s", o.Dir, name, what)
		}
	}
	return nil
}

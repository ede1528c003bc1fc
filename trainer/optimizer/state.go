package optimizer

import (
	"fmt"
	"path/filepath"

	"assay/checkpoints"
	"assay/trainer/checkpoint"
)

// Restore copies a checkpoint's tensors into the parameters and the optimizer: those that lie here, of so many in all.
func (o *Optimizer) Restore(dir string, here []checkpoint.Slice, tensors int, updates int64) error {
	f, err := checkpoints.OpenFile(filepath.Join(dir, checkpoint.TensorFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range here {
		if err := here[i].Read(f); err != nil {
			return err
		}
	}
	if n := len(f.Names()); n != tensors {
		return fmt.Errorf("%s: it holds %d tensors, the model has %d parameters: it is of another model", f.Path(), n,
			len(o.Params))
	}
	o.Groups.SetUpdates(updates)
	return nil
}

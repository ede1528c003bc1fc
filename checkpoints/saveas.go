package checkpoints

import (
	"fmt"
	"os"
	"path/filepath"

	"gorgonia.org/tensor"
)

// SaveAs writes a copy of this checkpoint into dir, which must not exist, with all weights in one file. The tensors
// that are keys of changed, which may be aliases, get new values (float32, converted to the stored type); everything
// else is copied.
func (w *Weights) SaveAs(dir string, changed map[string]*tensor.Dense) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	return w.SaveInto(dir, changed)
}

// SaveInto is SaveAs for an existing, empty folder.
func (w *Weights) SaveInto(dir string, changed map[string]*tensor.Dense) error {
	if err := CopyCompanions(w.dir, dir); err != nil {
		return err
	}
	values := map[string]*tensor.Dense{}
	for name, t := range changed {
		info, ok := w.Info(name)
		if !ok {
			return fmt.Errorf("parameter %q is not in %s", name, w.dir)
		}
		values[info.Name] = t
	}
	var infos []TensorInfo
	if w.names != nil { // in the order of the new names
		for _, name := range w.Names() {
			info, _ := w.Info(name)
			infos = append(infos, info)
		}
	}
	for _, s := range w.shards {
		if w.names != nil {
			break
		}
		for _, name := range s.Names() {
			info, _ := s.Info(name)
			infos = append(infos, info)
		}
	}
	out, err := NewWriter(filepath.Join(dir, SingleFile), infos, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	for _, info := range infos {
		data, err := w.Bytes(info.Name)
		if t := values[info.Name]; t != nil && err == nil {
			data, err = AppendFloat32s(nil, info.Type, t.Float32s())
		}
		if err == nil {
			err = out.Write(info.Name, data)
		}
		if err != nil {
			out.Abort()
			return err
		}
	}
	return out.Close()
}

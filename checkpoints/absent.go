package checkpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"assay/onnx"
)

// OpenOrAbsent is OpenWeights, but for a directory without weights, or with shards missing, it returns Weights that
// are Absent and empty until tensors are declared.
func OpenOrAbsent(dir string) (*Weights, error) {
	w, err := OpenWeights(dir)
	if errors.Is(err, errNoWeights) || errors.Is(err, fs.ErrNotExist) {
		s := &Shard{
			SafetensorsFile: &SafetensorsFile{path: dir, header: &header{}, byName: map[string]int{}},
			Name:            SingleFile,
			location:        SingleFile,
		}
		return &Weights{
			dir:    dir,
			folder: dir,
			shards: []*Shard{s},
			stored: map[string]*Shard{},
			alias:  map[string]string{},
			absent: true,
			why:    err,
			partly: !errors.Is(err, errNoWeights) && anyShard(dir),
		}, nil
	}
	return w, err
}

// Absent reports whether only names, types and shapes are known: models can be built from such weights, but not run.
func (w *Weights) Absent() bool { return w.absent }

// Why returns the reason why weights are absent; nil if they are present.
func (w *Weights) Why() error { return w.why }

// Partly reports whether some shards of absent weights exist.
func (w *Weights) Partly() bool { return w.partly }

// anyShard reports whether a directory has any file of weights.
func anyShard(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	return err == nil && len(found) > 0
}

// Declare adds a tensor to absent weights.
func (w *Weights) Declare(name string, t onnx.DType, shape []int64) {
	s, size := w.shards[0], int64(t.Size())*onnx.Elements(shape)
	at := int64(0)
	if n := len(s.header.tensors); n > 0 {
		at = s.header.tensors[n-1].Offset + s.header.tensors[n-1].Length
	}
	s.byName[name] = len(s.header.tensors)
	s.header.tensors = append(s.header.tensors, TensorInfo{Name: name, Type: t, Shape: shape, Offset: at, Length: size})
	w.stored[name] = s
}

// Present returns an error if the weights are absent, for callers that need their values.
func (w *Weights) Present() error {
	if w.absent {
		return fmt.Errorf("%s only has a configuration: without weights a run can be planned (train --dry-run), but "+
			"nothing can run",
			w.dir)
	}
	return nil
}

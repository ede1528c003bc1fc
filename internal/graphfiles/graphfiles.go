// Package graphfiles writes ONNX graphs next to the weight files that they refer to.
package graphfiles

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/onnx"
)

// Write writes each graph as NAME.onnx into the folder dir, with the files of the checkpoint whose tensors they refer
// to, and returns the names of these files. Tensors that are computed on demand are written to packed.bin.
func Write(dir string, w *checkpoints.Weights, graphs []*onnx.Model) (weights []string, err error) {
	renamed, err := placeWeights(w, dir)
	if err != nil {
		return nil, err
	}
	weights = slices.Sorted(maps.Values(renamed))
	packed := packedFile{graphs: graphs}
	if err := packed.write(dir, renamed); err != nil {
		return nil, err
	} else if packed.size > 0 {
		weights = append(weights, packedName)
	}
	for _, m := range graphs {
		if err := writeGraph(m, filepath.Join(dir, m.Name+".onnx"), renamed); err != nil {
			return nil, err
		}
	}
	return weights, nil
}

// placeWeights puts the checkpoint's files next to the graphs: as hard links if the file system allows it, so that an
// 8B model is not stored twice, otherwise as copies. It returns the new name of every location.
func placeWeights(w *checkpoints.Weights, dir string) (map[string]string, error) {
	names := map[string]string{}
	for _, s := range w.Shards() {
		target := filepath.Join(dir, s.Name)
		if err := linkOrCopy(s.Path(), target); err != nil {
			return nil, err
		}
		names[s.Location()] = s.Name
	}
	return names, nil
}

func linkOrCopy(from, to string) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if os.Link(real, to) == nil {
		return nil
	}
	return atomicfile.Copy(real, to)
}

func writeGraph(m *onnx.Model, path string, location map[string]string) error {
	for i, t := range m.Initializers {
		if t.External == nil {
			continue
		}
		name, ok := location[t.External.Location]
		if !ok {
			return fmt.Errorf("%s: weight %q is in %q, which is not a file of the checkpoint", path, t.Name, t.External.Location)
		}
		moved := *t
		moved.External = &onnx.External{Location: name, Offset: t.External.Offset, Length: t.External.Length}
		m.Initializers[i] = &moved
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, data)
}

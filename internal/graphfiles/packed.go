package graphfiles

import (
	"io"
	"path/filepath"

	"assay/internal/atomicfile"
	"assay/onnx"
)

// packedName is the file of an export that holds the packed weights in the graphs' order, which differs from the
// checkpoint's.
const packedName = "packed.bin"

// packedFile writes the lazily built tensors of graphs to one file, and makes the graphs refer to it.
type packedFile struct {
	graphs []*onnx.Model
	size   int64
}

func (p *packedFile) write(dir string, locations map[string]string) error {
	var made []*onnx.Tensor
	at := map[string]*onnx.External{} // by key: graphs share tensors
	for _, m := range p.graphs {
		for i, t := range m.Initializers {
			if t.Lazy == nil {
				continue
			}
			e := at[t.Lazy.Key]
			if e == nil {
				e = &onnx.External{Location: packedName, Offset: p.size, Length: t.Count() * int64(t.Type.Size())}
				at[t.Lazy.Key] = e
				made = append(made, t)
				p.size += (e.Length + 63) &^ 63 // aligned
			}
			placed := *t
			placed.Lazy, placed.External = nil, e
			m.Initializers[i] = &placed
		}
	}
	if len(made) == 0 {
		return nil
	}
	locations[packedName] = packedName
	return atomicfile.Write(filepath.Join(dir, packedName), func(w io.Writer) error {
		for _, t := range made {
			data, err := t.Bytes()
			if err != nil {
				return err
			}
			padding := make([]byte, -len(data)&63)
			if _, err := w.Write(append(data, padding...)); err != nil {
				return err
			}
		}
		return nil
	})
}

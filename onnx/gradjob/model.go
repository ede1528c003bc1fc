package gradjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"assay/internal/atomicfile"
	"assay/internal/blocks"
	"assay/onnx"
)

// readModel reads and checks a model and the files of its weights, and returns their folder, with symbolic links
// resolved.
func readModel(path string) (*onnx.Model, string, error) {
	m, err := onnx.Read(path)
	if err != nil {
		return nil, "", err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err == nil {
		err = onnx.Sort(m)
	}
	if err == nil {
		err = errors.Join(onnx.Check(m), onnx.CheckExternal(m, folder))
	}
	if err == nil {
		err = loadNorms(m, folder)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return m, folder, nil
}

// loadNorms puts the weights of fused norms, which are small, into the model: their rule must see zeros.
func loadNorms(m *onnx.Model, folder string) error {
	for _, n := range m.Nodes {
		if n.Domain != onnx.FusedDomain || n.Op != "AddRMSNorm" || len(n.Inputs) < 3 {
			continue
		}
		t := m.Initializer(n.Inputs[2])
		if t == nil || t.External == nil {
			continue
		}
		var b bytes.Buffer
		e := t.External
		if err := copyRange(&b, filepath.Join(folder, e.Location), e.Offset, e.Length); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		t.Data, t.External = b.Bytes(), nil
	}
	return nil
}

// writeModel writes m, whose external weights are in folder, to path. In that folder it refers to them; elsewhere it
// first copies them into path + ".data".
func writeModel(ctx context.Context, m *onnx.Model, folder, path string) error {
	external := onnx.Externals(&m.Graph)
	there, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		there, err = filepath.Abs(there)
	}
	if err != nil {
		return err
	}
	if len(external) > 0 && there != folder {
		restore := make([]onnx.External, len(external))
		for i, t := range external {
			restore[i] = *t.External
		}
		defer func() { // the session that follows reads the weights from their original place
			for i, t := range external {
				*t.External = restore[i]
			}
		}()
		if err := copyWeights(ctx, external, folder, path+".data"); err != nil {
			return err
		}
	}
	data, err := m.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.WriteBytes(path, data)
}

// copyWeights writes the bytes of tensors one after the other, each at a multiple of 4,096 as mmap requires, and
// makes the tensors refer to the copy. Tensors with the same bytes share it.
func copyWeights(ctx context.Context, tensors []*onnx.Tensor, folder, path string) error {
	const align = 4096
	offset, places := int64(0), map[onnx.External]int64{}
	return atomicfile.Write(path, func(w io.Writer) error {
		for _, t := range tensors {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			from := *t.External
			place, done := places[from]
			if !done {
				gap := (align - offset%align) % align
				if _, err := w.Write(make([]byte, gap)); err != nil {
					return err
				}
				if err := copyRange(w, filepath.Join(folder, from.Location), from.Offset, from.Length); err != nil {
					return fmt.Errorf("tensor %q: %w", t.Name, err)
				}
				place = offset + gap
				places[from], offset = place, place+from.Length
			}
			*t.External = onnx.External{Location: filepath.Base(path), Offset: place, Length: from.Length}
		}
		return nil
	})
}

func copyRange(w io.Writer, path string, offset, length int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = blocks.Copy(w, io.NewSectionReader(f, offset, length))
	return err
}

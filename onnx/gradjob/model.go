package gradjob

import (
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

// readModel reads and checks a model and the files that its weights lie in, and returns their folder, free of symbolic
// links.
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
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return m, folder, nil
}

// writeModel writes m, whose external weights lie in folder, to path. Next to them it refers to them; elsewhere they
// are copied into path + ".data", which is complete before the model is.
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
		defer func() { // the session that follows reads the weights where they were
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

// copyWeights writes the bytes of tensors one after the other, each at a multiple of 4,096 as a mapping of the file
// wants, and makes the tensors refer to them. Tensors of the same bytes share the copy.
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

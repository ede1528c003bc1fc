package checkpoints

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"assay/internal/atomicfile"
)

// Writer writes a safetensors file of any size piece by piece. Its methods may be called from several goroutines.
type Writer struct {
	path string
	file *atomicfile.File

	mu      sync.Mutex
	tensors map[string]TensorInfo
	written map[string]int64 // bytes
}

// NewWriter starts a file with these tensors (Offset and Length are computed, not read) and metadata (nil: none).
// Nothing appears under path before Close succeeds.
func NewWriter(path string, tensors []TensorInfo, metadata map[string]string) (*Writer, error) {
	placed, front, err := layout(tensors, metadata)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, tensors: make(map[string]TensorInfo, len(placed)), written: map[string]int64{}}
	for _, t := range placed {
		w.tensors[t.Name] = t
	}
	if _, err := f.WriteAt(front, 0); err != nil {
		return nil, f.Finish(err)
	}
	return w, nil
}

// Write writes a full tensor.
func (w *Writer) Write(name string, data []byte) error {
	if t, ok := w.tensors[name]; ok && t.Length != int64(len(data)) {
		return fmt.Errorf("writing %s: tensor %q takes %d bytes, not %d", w.path, name, t.Length, len(data))
	}
	return w.WriteAt(name, data, 0)
}

// WriteAt writes a part of a tensor, starting at byte offset. Every byte must be written exactly once.
func (w *Writer) WriteAt(name string, data []byte, offset int64) error {
	t, ok := w.tensors[name]
	if !ok {
		return fmt.Errorf("writing %s: tensor %q was not passed to NewWriter", w.path, name)
	}
	if offset < 0 || int64(len(data)) > t.Length-offset {
		return fmt.Errorf("writing %s: tensor %q has %d bytes, not %d at %d", w.path, name, t.Length, len(data), offset)
	}
	if _, err := w.file.WriteAt(data, t.Offset+offset); err != nil {
		return fmt.Errorf("writing %s: tensor %q: %w", w.path, name, err)
	}
	w.mu.Lock()
	w.written[name] += int64(len(data))
	w.mu.Unlock()
	return nil
}

// Close checks that every tensor is complete, syncs the file and renames it to its final name; on failure nothing is
// left.
func (w *Writer) Close() error {
	var missing error
	for _, name := range slices.Sorted(maps.Keys(w.tensors)) {
		if want, got := w.tensors[name].Length, w.written[name]; got != want {
			missing = fmt.Errorf("tensor %q: %d of %d bytes were written", name, got, want)
			break
		}
	}
	return w.file.Finish(missing)
}

// Abort removes the temporary file and leaves path unchanged.
func (w *Writer) Abort() { _ = w.file.Finish(errors.New("given up")) }

// WriteFile writes tensors as the Python library does, byte for byte. Metadata may be nil; PyTorch's files have
// {"format": "pt"}.
func WriteFile(path string, tensors map[string]*tensor.Dense, metadata map[string]string) error {
	infos, err := infosOf(tensors)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	w, err := NewWriter(path, infos, metadata)
	if err != nil {
		return err
	}
	for name, d := range tensors {
		data, err := appendElements(nil, d)
		if err == nil {
			err = w.Write(name, data)
		}
		if err != nil {
			w.Abort()
			return err
		}
	}
	return w.Close()
}

// Marshal returns the bytes of the file that WriteFile would write.
func Marshal(tensors map[string]*tensor.Dense, metadata map[string]string) ([]byte, error) {
	infos, err := infosOf(tensors)
	if err != nil {
		return nil, err
	}
	placed, out, err := layout(infos, metadata)
	if err != nil {
		return nil, err
	}
	if n := len(placed); n > 0 {
		out = slices.Grow(out, int(placed[n-1].Offset+placed[n-1].Length)-len(out))
	}
	for _, t := range placed {
		if out, err = appendElements(out, tensors[t.Name]); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return out, nil
}

func infosOf(tensors map[string]*tensor.Dense) ([]TensorInfo, error) {
	infos := make([]TensorInfo, 0, len(tensors))
	for name, d := range tensors {
		t, err := storedType(d)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		shape := make([]int64, d.Dims())
		for i, n := range d.Shape() {
			shape[i] = int64(n)
		}
		infos = append(infos, TensorInfo{Name: name, Type: t, Shape: shape})
	}
	return infos, nil
}

package checkpoints

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"syscall"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// SafetensorsFile is one safetensors file, mapped into memory.
type SafetensorsFile struct {
	path   string
	id     string
	opened os.FileInfo
	data   []byte
	header *header
	byName map[string]int
}

// OpenFile maps a safetensors file and checks its whole header: lengths, types, shapes and byte ranges.
func OpenFile(path string) (*SafetensorsFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping outlives the descriptor
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	h, err := readHeader(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if st.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit into this machine's address space", path, st.Size())
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: mapping it into memory: %w", path, err)
	}
	file := &SafetensorsFile{
		path:   path,
		id:     identity(st),
		opened: st,
		data:   data,
		header: h,
		byName: make(map[string]int, len(h.tensors)),
	}
	for i, t := range h.tensors {
		file.byName[t.Name] = i
	}
	return file, nil
}

// identity returns a string that changes if the file is replaced or written to.
func identity(st os.FileInfo) string {
	s := st.Sys().(*syscall.Stat_t)
	return fmt.Sprint(s.Dev, s.Ino, s.Ctim, s.Size)
}

// ID identifies the file on this machine as it was when opened: it is different after the file is replaced or written
// to.
func (f *SafetensorsFile) ID() string { return f.id }

// contentState returns a string that changes if the file is replaced or its content changes, but not with a new link
// or mode.
func contentState(st os.FileInfo) string {
	s := st.Sys().(*syscall.Stat_t)
	return fmt.Sprint(s.Dev, s.Ino, s.Mtim, s.Size)
}

// Unchanged returns an error if the file was replaced or changed since it was opened: the mapping may mix old and new
// bytes.
func (f *SafetensorsFile) Unchanged() error {
	st, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("the weights in use no longer exist, open the model again: %w", err)
	}
	if contentState(st) != contentState(f.opened) {
		return fmt.Errorf("%s was changed while in use: open the model again", f.path)
	}
	return nil
}

// Overwritten returns an error if the file was written to since it was opened, so that the mapping has new bytes. If
// the file was replaced by another one, or removed, the mapping is unaffected.
func (f *SafetensorsFile) Overwritten() error {
	if st, err := os.Stat(f.path); err != nil || !os.SameFile(st, f.opened) {
		return nil
	}
	return f.Unchanged()
}

// Close unmaps the file; slices returned by Bytes must no longer be used.
func (f *SafetensorsFile) Close() error {
	if f.data == nil {
		return nil
	}
	err := syscall.Munmap(f.data)
	f.data = nil
	return err
}

// Forget releases the memory of the pages that were read; they are read again on access.
func (f *SafetensorsFile) Forget() {
	if len(f.data) > 0 {
		syscall.Madvise(f.data, syscall.MADV_DONTNEED) // a hint: it may be ignored
	}
}

// Path returns the path the file was opened by.
func (f *SafetensorsFile) Path() string { return f.path }

// Names returns the tensors' names in the order of their bytes.
func (f *SafetensorsFile) Names() []string {
	names := make([]string, len(f.header.tensors))
	for i, t := range f.header.tensors {
		names[i] = t.Name
	}
	return names
}

// Metadata returns a copy of the strings under __metadata__; nil if the file has none.
func (f *SafetensorsFile) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Info describes a tensor.
func (f *SafetensorsFile) Info(name string) (TensorInfo, bool) {
	i, ok := f.byName[name]
	if !ok {
		return TensorInfo{}, false
	}
	t := f.header.tensors[i]
	t.Shape = slices.Clone(t.Shape)
	return t, true
}

// Bytes returns the tensor's bytes in the mapped file, little-endian and row-major. They must not be modified, and
// not used after Close.
func (f *SafetensorsFile) Bytes(name string) ([]byte, error) {
	i, ok := f.byName[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: no tensor %q among its %d", f.path, name, len(f.byName))
	case f.data == nil:
		return nil, fmt.Errorf("%s: closed", f.path)
	}
	t := f.header.tensors[i]
	return f.data[t.Offset : t.Offset+t.Length : t.Offset+t.Length], nil
}

// Dense returns a copy of the tensor. float16 and bfloat16 become float32; every other type is unchanged. A tensor
// without elements is an error: a tensor.Dense cannot be empty.
func (f *SafetensorsFile) Dense(name string) (*tensor.Dense, error) {
	b, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	t := f.header.tensors[f.byName[name]]
	d, err := dense(t.Type, t.Shape, b)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", f.path, name, err)
	}
	return d, nil
}

// ReadFile returns copies of all tensors of a small file, by name, and its metadata.
func ReadFile(path string) (map[string]*tensor.Dense, map[string]string, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	out := make(map[string]*tensor.Dense, len(f.byName))
	for name := range f.byName {
		if out[name], err = f.Dense(name); err != nil {
			return nil, nil, err
		}
	}
	return out, f.Metadata(), nil
}

// Tensor returns a reference to the tensor's bytes in the file at location, relative to the folder that the model
// will run from.
func (t TensorInfo) Tensor(location string) *onnx.Tensor {
	return &onnx.Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape,
		External: &onnx.External{Location: location, Offset: t.Offset, Length: t.Length}}
}

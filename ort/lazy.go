package ort

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"assay/onnx"
)

// takeMade replaces the lazy tensors of a model (a copy of the caller's). Large ones become tensors of the pool, made
// once for all sessions of the process; small ones are replaced by their bytes.
func (l *lease) takeMade(m *onnx.Model, folder string) error {
	var initializers []*onnx.Tensor
	for i, t := range m.Initializers {
		if t.Lazy == nil {
			continue
		}
		if initializers == nil {
			initializers = append(initializers, m.Initializers...)
		}
		var err error
		if initializers[i], err = l.made(t, folder); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	if initializers != nil {
		m.Initializers = initializers
	}
	return nil
}

// made returns the initializer to declare instead of t.
func (l *lease) made(t *onnx.Tensor, folder string) (*onnx.Tensor, error) {
	length := t.Count() * int64(t.Type.Size())
	plain := *t
	plain.Lazy = nil
	if length < minShared {
		data, err := t.Bytes()
		plain.Data = data
		return &plain, err
	}
	var err error
	path := filepath.Join(folder, filepath.FromSlash(t.Lazy.Location))
	if plain.External, err = nowhere(path, t.Lazy.Location, length); err != nil {
		return nil, err
	}
	at := region{made: t.Lazy.Key, length: length}
	pool.Lock()
	defer pool.Unlock()
	w := pool.weights[at]
	if w == nil {
		if w, err = makeRegion(at, t); err != nil {
			return nil, err
		}
		pool.weights[at] = w
	}
	w.users++
	l.names, l.weights = append(l.names, t.Name), append(l.weights, w)
	return &plain, nil
}

// makeRegion allocates memory and fills it with a lazy tensor.
func makeRegion(at region, t *onnx.Tensor) (*weight, error) {
	pages, made, err := ownPages(at.length)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", at.length, err)
	}
	if err := t.Lazy.Fill(pages); err != nil {
		return nil, errors.Join(err, syscall.Munmap(pages))
	}
	value, err := tensorOver(pages, t.Shape, int(t.Type)) // the runtime numbers types as ONNX does
	if err != nil {
		return nil, errors.Join(err, syscall.Munmap(pages))
	}
	return &weight{region: at, pages: pages, value: value, evictable: made}, nil
}

// ownPages maps memory over an unlinked temporary file, whose pages the system may evict while they are unused: the
// runtime may have made its own copy. If there is no room for such a file, the memory is anonymous.
func ownPages(length int64) (pages []byte, evictable bool, err error) {
	if f, err := os.CreateTemp("", "assay-weights-*"); err == nil {
		defer f.Close()
		os.Remove(f.Name())
		if syscall.Fallocate(int(f.Fd()), 0, 0, length) == nil { // else a full disk would crash the process later
			pages, err = syscall.Mmap(int(f.Fd()), 0, int(length), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			if err == nil {
				return pages, true, nil
			}
		}
	}
	pages, err = syscall.Mmap(-1, 0, int(length), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	return pages, false, err
}

// forget releases the pages that can be read again: those of lazy tensors and, if the session has packed copies,
// those of all files.
func (l *lease) forget(packed bool) {
	if l == nil {
		return
	}
	for _, w := range l.weights {
		if w.evictable || packed && w.mapped {
			syscall.Madvise(w.pages, syscall.MADV_DONTNEED) // a hint
		}
	}
}

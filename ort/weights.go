package ort

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"assay/onnx"
)

// All CPU sessions of a process share one set of weights. By default ONNX Runtime maps a file of float32 weights once
// per session, and makes float32 copies of half-precision weights for each session. Here every tensor is mapped or
// widened once; sessions get the memory as initializers and hold it until they are closed.

// minShared is the minimum size in bytes of a shared tensor. Smaller ones are left to the runtime, which may fold
// them.
const minShared = 1 << 16

// region identifies bytes of one version of a file: a replaced or modified file has other regions.
type region struct {
	device, inode  uint64
	changed        syscall.Timespec
	offset, length int64
	widened        onnx.DType // from this type to float32; Undefined: the bytes as stored
	made           string     // key of a lazy tensor, which is in no file; see onnx.LazyTensor
}

// weight is an in-memory tensor that sessions share.
type weight struct {
	region region
	users  int
	pages  []byte // the mapping, unmapped at the end
	// evictable pages are in their own temporary file.
	evictable bool
	mapped    bool           // the pages are mapped from the checkpoint
	value     unsafe.Pointer // the runtime's view of it
}

var pool = struct {
	sync.Mutex
	weights map[region]*weight
}{weights: map[region]*weight{}}

// elements are ONNX Runtime's numbers of the types of shared tensors.
var elements = map[onnx.DType]int{onnx.Float: 1, onnx.Float16: 10, onnx.Double: 11, onnx.BFloat16: 16}

// lease is what one session holds of the pool.
type lease struct {
	names   []string
	weights []*weight
	device  deviceLease // on a CUDA device
}

// share replaces what the model (a copy of the caller's) reads from files below folder by tensors of the pool. These
// are large weights and, only if files is set, their casts from half precision to float32. Tensors that are made are
// the pool's on every device. The lease is to be returned after the session is closed.
func share(m *onnx.Model, folder string, files bool) (*lease, error) {
	l := &lease{}
	turned := turned(m)
	casts, read := halfCasts(m, turned)
	var initializers []*onnx.Tensor
	done := map[*onnx.Node]bool{}
	for _, t := range m.Initializers {
		e := t.External
		if !files || e == nil {
			initializers = append(initializers, t)
			continue
		}
		if turned[t.Name] || e.Length < minShared || e.Length != t.Count()*int64(t.Type.Size()) || elements[t.Type] == 0 {
			initializers = append(initializers, t)
			continue
		}
		path := filepath.Join(folder, filepath.FromSlash(e.Location))
		for _, c := range casts[t.Name] {
			wide, err := l.widen(path, t, c.Outputs[0])
			if err != nil {
				return nil, errors.Join(err, l.release())
			}
			initializers = append(initializers, wide)
			done[c] = true
		}
		if len(casts[t.Name]) < read[t.Name] || len(casts[t.Name]) == 0 {
			if err := l.take(path, t, t.Name, onnx.Undefined); err != nil {
				return nil, errors.Join(err, l.release())
			}
			initializers = append(initializers, t)
		}
	}
	m.Initializers = initializers
	m.Nodes = slices.DeleteFunc(slices.Clone(m.Nodes), func(n *onnx.Node) bool { return done[n] })
	if err := l.takeMade(m, folder); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// halfCasts returns the casts of half-precision initializers to float32, and how often each value is read. A cast
// that a constant expression reads is left to the runtime, which folds the expression.
func halfCasts(m *onnx.Model, turned map[string]bool) (casts map[string][]*onnx.Node, read map[string]int) {
	half, constant := map[string]bool{}, map[string]bool{"": true}
	for _, t := range m.Initializers {
		half[t.Name], constant[t.Name] = isHalf(t.Type), true
	}
	casts, read = map[string][]*onnx.Node{}, map[string]int{}
	folded := map[string]bool{}
	for _, o := range m.Outputs {
		read[o.Name]++
		folded[o.Name] = true
	}
	for _, n := range m.Nodes {
		all := true
		for _, x := range n.Reads() {
			read[x]++
			all = all && constant[x]
		}
		for _, x := range n.Reads() {
			folded[x] = folded[x] || all || turned[x] ||
				n.Op == "Conv" // the runtime reads a convolution's weights to repack them
		}
		for _, y := range n.Outputs {
			constant[y] = constant[y] || all
		}
	}
	for _, n := range m.Nodes {
		if n.Op == "Cast" && n.Domain == "" && half[n.Inputs[0]] && n.Attrs["to"] == int64(onnx.Float) &&
			!folded[n.Outputs[0]] {
			casts[n.Inputs[0]] = append(casts[n.Inputs[0]], n)
		}
	}
	return casts, read
}

// transposable are the operators through which the runtime moves a transposition of one input, transposing the others.
var transposable = strings.Fields("Add And BitShift Concat Div Equal Greater GreaterOrEqual Less LessOrEqual Max " +
	"Mean Min Mod Mul Or Pow PRelu Sub Sum Where Xor")

// turned returns names that include all constants that the runtime may transpose when a session opens. It does so under
// the constant's own name, by which the session would then get the pool's tensor, which is not transposed.
func turned(m *onnx.Model) map[string]bool {
	after, names := map[string]bool{}, map[string]bool{} // after a transposition
	for _, n := range m.Nodes {
		reads := n.Reads()
		// convolutions of some types are transposed to have channels last
		down := n.Op == "Transpose" || strings.Contains(n.Op, "Conv") ||
			slices.ContainsFunc(reads, func(x string) bool { return after[x] })
		for _, y := range n.Outputs {
			after[y] = down
		}
		for _, x := range reads {
			names[x] = names[x] || down && slices.Contains(transposable, n.Op)
		}
	}
	return names
}

// widen declares a float32 initializer instead of a cast of t.
func (l *lease) widen(path string, t *onnx.Tensor, name string) (_ *onnx.Tensor, err error) {
	if err := l.take(path, t, name, t.Type); err != nil {
		return nil, err
	}
	wide := &onnx.Tensor{Name: name, Type: onnx.Float, Shape: t.Shape}
	wide.External, err = nowhere(path, t.External.Location, 4*t.Count())
	return wide, err
}

// nowhere returns bytes past the end of a file, at a path and as a model names it: if the runtime read them instead of
// the pool's, it would fail.
func nowhere(path, location string, length int64) (*onnx.External, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &onnx.External{Location: location, Offset: info.Size(), Length: length}, nil
}

// take leases the pool's tensor for t, creating it if needed, under its name in the session.
func (l *lease) take(path string, t *onnx.Tensor, name string, widened onnx.DType) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	e, stat := t.External, info.Sys().(*syscall.Stat_t)
	at := region{
		device:  stat.Dev,
		inode:   stat.Ino,
		changed: stat.Ctim,
		offset:  e.Offset,
		length:  e.Length,
		widened: widened,
	}
	pool.Lock()
	defer pool.Unlock()
	w := pool.weights[at]
	if w == nil {
		if w, err = mapRegion(f, at, t); err != nil {
			return fmt.Errorf("tensor %q of %s: %w", t.Name, path, err)
		}
		pool.weights[at] = w
	}
	w.users++
	l.names, l.weights = append(l.names, name), append(l.weights, w)
	return nil
}

// mapTensor maps a tensor's bytes in a file: the last ones of pages.
func mapTensor(f *os.File, t *onnx.Tensor) (pages, data []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	e := t.External
	if e.Offset < 0 || e.Offset > info.Size()-e.Length {
		return nil, nil, fmt.Errorf("%d bytes at offset %d of %d: the file is cut short", e.Length, e.Offset, info.Size())
	}
	skip := e.Offset % int64(os.Getpagesize())
	pages, err = syscall.Mmap(int(f.Fd()), e.Offset-skip, int(skip+e.Length), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map it into memory: %w", err)
	}
	return pages, pages[skip:], nil
}

// mapRegion maps a region of a file, or widens it into newly allocated memory.
func mapRegion(f *os.File, at region, t *onnx.Tensor) (w *weight, err error) {
	pages, data, err := mapTensor(f, t)
	if err != nil {
		return nil, err
	}
	typ := t.Type
	if at.widened != onnx.Undefined {
		wide, err := syscall.Mmap(-1, 0, int(4*t.Count()), syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("allocate %d bytes to widen it to float32: %w", 4*t.Count(), err),
				syscall.Munmap(pages))
		}
		castInto(wide, onnx.Float, data, at.widened)
		if err := syscall.Munmap(pages); err != nil {
			return nil, err
		}
		pages, data, typ = wide, wide, onnx.Float
	}
	value, err := tensorOver(data, t.Shape, elements[typ])
	if err != nil {
		return nil, errors.Join(err, syscall.Munmap(pages))
	}
	return &weight{region: at, pages: pages, value: value, mapped: at.widened == onnx.Undefined}, nil
}

// addTo makes a session use the leased tensors.
func (l *lease) addTo(so *onnxruntime.SessionOptions, d device) error {
	for _, name := range slices.Sorted(maps.Keys(l.device)) {
		if err := addInitializer(so, name, l.device[name].view.value, false); err != nil {
			return fmt.Errorf("initializer %q: %w", name, err)
		}
	}
	for i, w := range l.weights {
		if err := addInitializer(so, l.names[i], w.value, d != cpu); err != nil {
			return fmt.Errorf("initializer %q: %w", l.names[i], err)
		}
	}
	return nil
}

// release returns the tensors; tensors that no session uses any more are freed.
func (l *lease) release() error {
	if l == nil {
		return nil
	}
	pool.Lock()
	defer pool.Unlock()
	errs := []error{l.device.release()}
	for _, w := range l.weights {
		if w.users--; w.users == 0 {
			delete(pool.weights, w.region)
			releaseValue(w.value)
			errs = append(errs, syscall.Munmap(w.pages))
		}
	}
	l.names, l.weights = nil, nil
	return errors.Join(errs...)
}

package ort

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"assay/internal/workers"
	"assay/onnx"
)

// All sessions on a CUDA device share one set of weights: large tensors that a model reads from files, lazy ones, and
// what it computes only from these by casts and by joining rows (of q, k and v; of gate and up). By default ONNX
// Runtime computes and copies them for each session.

// deviceWeight is a tensor in a device's memory that sessions share.
type deviceWeight struct {
	key    string
	users  int
	memory *Memory
	view   *View
}

var devicePool = struct {
	sync.Mutex
	weights map[string]*deviceWeight
}{weights: map[string]*deviceWeight{}}

// deviceLease is what one session holds of the pool, by name in the session.
type deviceLease map[string]*deviceWeight

// joinedWeight is a tensor made of rows of others.
type joinedWeight struct {
	typ   onnx.DType
	shape []int64
	parts []weightPart
}

// weightPart is a stored tensor that is cast to other types, one after the other.
type weightPart struct {
	*onnx.Tensor
	casts []onnx.DType
}

// constants are the values of a model that depend on no input.
type constants struct {
	*onnx.Model
	stored  map[string]*onnx.Tensor
	made    map[string]*onnx.Node // by a node
	folded  map[string]bool       // constants that the runtime reads to compute others
	varying map[string]bool       // constants that are read with values that depend on inputs, or are outputs
}

func constantsOf(m *onnx.Model) *constants {
	c := &constants{m, map[string]*onnx.Tensor{}, map[string]*onnx.Node{}, map[string]bool{}, map[string]bool{}}
	constant := map[string]bool{"": true}
	for _, t := range m.Initializers {
		c.stored[t.Name], constant[t.Name] = t, true
	}
	for _, n := range m.Nodes {
		reads := n.Reads()
		all := true
		for _, x := range reads {
			all = all && constant[x]
		}
		for _, x := range reads {
			c.folded[x] = c.folded[x] || all || n.Op == "Conv"
			c.varying[x] = c.varying[x] || !all
		}
		for _, y := range n.Outputs {
			constant[y] = all || y == ""
		}
		if all {
			c.made[n.Outputs[0]] = n
		}
	}
	for _, o := range m.Outputs {
		c.varying[o.Name] = true
	}
	return c
}

// joined describes a constant that is stored, or computed from stored ones by Cast and by Concat of rows; nil: it is
// something else.
func (c *constants) joined(name string) *joinedWeight {
	if t := c.stored[name]; t != nil {
		if !loadable(t) {
			return nil
		}
		return &joinedWeight{t.Type, t.Shape, []weightPart{{Tensor: t}}}
	}
	n := c.made[name]
	if n == nil || n.Domain != "" || n.Op != "Cast" && n.Op != "Concat" {
		return nil
	}
	var w *joinedWeight
	for _, x := range n.Inputs {
		part := c.joined(x)
		switch {
		case part == nil:
			return nil
		case n.Op == "Cast":
			to := onnx.DType(n.Int("to", 0))
			if !isNumber(to) || !isNumber(part.typ) {
				return nil
			}
			w = &joinedWeight{typ: to, shape: part.shape}
			for _, p := range part.parts {
				w.parts = append(w.parts, weightPart{p.Tensor, append(slices.Clone(p.casts), to)})
			}
		case w == nil:
			w = &joinedWeight{part.typ, slices.Clone(part.shape), part.parts}
		default:
			w.shape[0] += part.shape[0]
			w.parts = append(slices.Clone(w.parts), part.parts...)
		}
	}
	if axis := n.Int("axis", 0); n.Op == "Concat" && axis != 0 && axis != -int64(len(w.shape)) {
		return nil
	}
	return w
}

// loadable reports whether a stored tensor can be copied to a device. The runtime refuses those with a wrong length.
func loadable(t *onnx.Tensor) bool {
	known := isNumber(t.Type) || t.Type == onnx.Uint8 // bytes: packed weights
	return known && len(t.Shape) > 0 && (t.External == nil || t.External.Length == t.Count()*int64(t.Type.Size()))
}

// isNumber reports whether tensors of a type can be cast to others.
func isNumber(t onnx.DType) bool { return t == onnx.Float || isHalf(t) }

func (w *joinedWeight) bytes() int64 { return onnx.Elements(w.shape) * int64(w.typ.Size()) }

// location returns a file of the tensor's parts; "": they are all in memory.
func (w *joinedWeight) location() string {
	for _, p := range w.parts {
		switch {
		case p.External != nil:
			return p.External.Location
		case p.Lazy != nil:
			return p.Lazy.Location
		}
	}
	return ""
}

// shareOn replaces weights of a model (a copy of the caller's) by tensors of a device's pool. The lease is to be
// returned after the session is closed.
func shareOn(d device, m *onnx.Model, folder string) (l deviceLease, err error) {
	l = deviceLease{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.release())
		}
	}()
	c := constantsOf(m)
	declared := map[string]*onnx.Tensor{}
	turned := turned(m)
	for name, varying := range c.varying {
		w := c.joined(name)
		if !varying || turned[name] || w == nil || w.bytes() < minShared || w.location() == "" {
			continue
		}
		stored := c.stored[name] != nil && c.stored[name].External != nil
		if !stored && c.folded[name] {
			continue
		}
		if l[name], err = takeOn(d, w, folder); err != nil {
			return l, fmt.Errorf("tensor %q: %w", name, err)
		}
		if !stored {
			t := &onnx.Tensor{Name: name, Type: w.typ, Shape: w.shape}
			path := filepath.Join(folder, filepath.FromSlash(w.location()))
			if t.External, err = nowhere(path, w.location(), w.bytes()); err != nil {
				return l, err
			}
			declared[name] = t
		}
	}
	c.declare(declared)
	return l, nil
}

// declare makes computed and lazy values initializers of the model, and removes what is no longer read.
func (c *constants) declare(values map[string]*onnx.Tensor) {
	var nodes []*onnx.Node
	read := map[string]bool{}
	for _, o := range c.Outputs {
		read[o.Name] = true
	}
	for _, n := range slices.Backward(c.Nodes) {
		y := n.Outputs[0]
		if values[y] != nil || c.made[y] == n && (n.Op == "Cast" || n.Op == "Concat") && !read[y] {
			continue
		}
		for _, x := range n.Reads() {
			read[x] = true
		}
		nodes = append(nodes, n)
	}
	slices.Reverse(nodes)
	var initializers []*onnx.Tensor
	for _, t := range c.Initializers {
		if values[t.Name] == nil && (read[t.Name] || t.External == nil && t.Lazy == nil) {
			initializers = append(initializers, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		initializers = append(initializers, values[name])
	}
	c.Nodes, c.Initializers = nodes, initializers
}

// takeOn leases the pool's tensor, copying it to the device if needed.
func takeOn(d device, w *joinedWeight, folder string) (*deviceWeight, error) {
	key, err := w.key(d, folder)
	if err != nil {
		return nil, err
	}
	devicePool.Lock()
	defer devicePool.Unlock()
	have := devicePool.weights[key]
	if have == nil {
		memory, err := NewMemory(d.String(), w.bytes())
		if err != nil {
			return nil, err
		}
		view, err := memory.View(0, w.typ, w.shape...)
		if err == nil {
			err = w.write(memory, folder)
		}
		if err != nil {
			if view != nil {
				view.Free()
			}
			return nil, errors.Join(err, memory.Close())
		}
		have = &deviceWeight{key: key, memory: memory, view: view}
		devicePool.weights[key] = have
	}
	have.users++
	return have, nil
}

// key identifies a tensor on a device, and the versions of the files that it is read from.
func (w *joinedWeight) key(d device, folder string) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, d, w.typ, w.shape)
	for _, p := range w.parts {
		switch {
		case p.Lazy != nil:
			fmt.Fprintf(&b, " %q", p.Lazy.Key)
		case p.External != nil:
			info, err := os.Stat(filepath.Join(folder, filepath.FromSlash(p.External.Location)))
			if err != nil {
				return "", err
			}
			s := info.Sys().(*syscall.Stat_t)
			fmt.Fprint(&b, " ", s.Dev, s.Ino, s.Ctim, p.External.Offset, p.External.Length)
		default:
			data, err := p.Bytes()
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(data))
		}
		fmt.Fprint(&b, p.Type, p.casts)
	}
	return b.String(), nil
}

// write copies the tensor to memory.
func (w *joinedWeight) write(to *Memory, folder string) error {
	at := int64(0)
	for _, p := range w.parts {
		data, release, err := p.open(folder)
		if err != nil {
			return err
		}
		const numbers = 1 << 22 // converted at once
		size := int64(p.Type.Size())
		for len(data) > 0 && err == nil {
			part := data[:min(int64(len(data)), numbers*size)]
			data = data[len(part):]
			typ := p.Type
			for _, t := range p.casts {
				if typ != t {
					cast := make([]byte, len(part)/typ.Size()*t.Size())
					castInto(cast, t, part, typ)
					part, typ = cast, t
				}
			}
			err = to.WriteBytes(at, part)
			at += int64(len(part))
		}
		if err = errors.Join(err, release()); err != nil {
			return err
		}
	}
	return nil
}

// open returns the stored bytes.
func (p weightPart) open(folder string) (data []byte, release func() error, err error) {
	release = func() error { return nil }
	switch {
	case p.Lazy != nil:
		data = make([]byte, p.Count()*int64(p.Type.Size()))
		return data, release, p.Lazy.Fill(data)
	case p.External == nil:
		data, err = p.Bytes()
		return data, release, err
	}
	f, err := os.Open(filepath.Join(folder, filepath.FromSlash(p.External.Location)))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	pages, data, err := mapTensor(f, p.Tensor)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return data, func() error { return syscall.Munmap(pages) }, nil
}

// castInto casts numbers as the runtime's Cast does: to the nearest, ties to even. They are little-endian.
func castInto(out []byte, to onnx.DType, from []byte, typ onnx.DType) {
	size, into := typ.Size(), to.Size()
	n := len(from) / size
	const part = 1 << 18
	workers.Do((n+part-1)/part, func(i int) {
		for k := i * part; k < min(n, (i+1)*part); k++ {
			var v float32
			switch x := from[k*size:]; typ {
			case onnx.Float:
				v = math.Float32frombits(binary.LittleEndian.Uint32(x))
			case onnx.Float16:
				v = onnx.Float16Value(binary.LittleEndian.Uint16(x))
			default:
				v = onnx.BFloat16Value(binary.LittleEndian.Uint16(x))
			}
			switch y := out[k*into:]; to {
			case onnx.Float:
				binary.LittleEndian.PutUint32(y, math.Float32bits(v))
			case onnx.Float16:
				binary.LittleEndian.PutUint16(y, onnx.Float16Bits(v))
			default:
				binary.LittleEndian.PutUint16(y, onnx.BFloat16Bits(v))
			}
		}
	})
}

// weightsOn returns the bytes of a device's weights.
func weightsOn(d device) (bytes int64) {
	devicePool.Lock()
	defer devicePool.Unlock()
	for _, w := range devicePool.weights {
		if w.memory.device == d {
			bytes += w.memory.bytes
		}
	}
	return bytes
}

// release returns the tensors; tensors that no session uses any more are freed.
func (l deviceLease) release() error {
	devicePool.Lock()
	defer devicePool.Unlock()
	var errs []error
	for name, w := range l {
		if w == nil {
			continue
		}
		if w.users--; w.users == 0 {
			delete(devicePool.weights, w.key)
			w.view.Free()
			errs = append(errs, w.memory.Close())
		}
		delete(l, name)
	}
	return errors.Join(errs...)
}

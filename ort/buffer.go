package ort

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// Alignment is the alignment of a [Buffer]'s views in elements: 256 bytes, as of CUDA's allocations.
const Alignment = 64

// ferried is the number of elements copied to or from a device at a time: 64 MiB, for which the device needs another
// 64 MiB meanwhile.
const ferried = 16 << 20

// Buffer is float32 device memory that outlives the runs of sessions. Sessions of the same device read and write its
// views in place. It is not safe for concurrent use.
type Buffer struct {
	ferry *Session // copies between host and device
	memory
	size  int64
	views []*View // to be freed
}

// View is a tensor in a part of a buffer's memory.
type View struct {
	onnxruntime.Value // nil: only the handle is used
	internals         onnxruntime.ValueInternalData
	value             unsafe.Pointer
	typ               onnx.DType
	shape             []int64
}

// GetInternals returns the runtime's value to the binding.
func (v *View) GetInternals() *onnxruntime.ValueInternalData { return &v.internals }

// Destroy does nothing: a view outlives runs.
func (v *View) Destroy() error { return nil }

// Views are inputs and outputs of a run, by name, that are in buffers. A view may be both if the operator that
// computes the output can work in place.
type Views struct{ In, Out map[string]*View }

// NewBuffer allocates n elements on a device: "cpu" or "cuda:N". They are uninitialized.
func NewBuffer(on string, n int64, o CUDAOptions) (*Buffer, error) {
	b := onnx.NewBuilder("copy", 21)
	b.Output("y", b.Op("Identity", b.Input("x", onnx.Float, onnx.Dims("n"))), onnx.Float, onnx.Dims("n"))
	o.Arena = "requested" // the arena never grows
	s, err := Open(b.M, Options{Device: on, LowMemory: true, CUDA: o})
	if err != nil {
		return nil, err
	}
	d, err := devices(s.device)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	m, err := allocate(s.s, d[0], n)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("device %s: %d bytes: %w", s.device, 4*n, err), s.Close())
	}
	return &Buffer{ferry: s, memory: *m, size: n}, nil
}

// View makes a tensor over the elements starting at at, a multiple of [Alignment].
func (b *Buffer) View(at int64, shape ...int64) (*View, error) {
	v, err := b.newView(at, shape)
	if err == nil {
		b.views = append(b.views, v)
	}
	return v, err
}

func (b *Buffer) newView(at int64, shape []int64) (*View, error) {
	n := onnx.Elements(shape)
	if len(shape) == 0 || n <= 0 || at < 0 || at%Alignment != 0 || at > b.size-n {
		return nil, fmt.Errorf("a tensor of shape %v at element %d of %d", shape, at, b.size)
	}
	value, err := b.memory.view(at, shape)
	if err != nil {
		return nil, err
	}
	v := &View{value: value, typ: onnx.Float, shape: slices.Clone(shape)}
	if v.internals, err = valueOf(value); err != nil {
		releaseValue(value)
		return nil, err
	}
	return v, nil
}

// Write copies values into the buffer, starting at element at.
func (b *Buffer) Write(ctx context.Context, at int64, values []float32) error {
	return b.each(at, values, func(v *View, part *tensor.Dense) error {
		_, err := b.ferry.RunWith(ctx, map[string]*tensor.Dense{"x": part}, nil, Views{Out: map[string]*View{"y": v}})
		return err
	})
}

// Read copies elements out of the buffer, starting at element at.
func (b *Buffer) Read(ctx context.Context, at int64, into []float32) error {
	return b.each(at, into, func(v *View, part *tensor.Dense) error {
		_, err := b.ferry.RunWith(ctx, nil, map[string]*tensor.Dense{"y": part}, Views{In: map[string]*View{"x": v}})
		return err
	})
}

// each calls f for views of successive parts of the buffer and the values that belong to them.
func (b *Buffer) each(at int64, values []float32, f func(v *View, part *tensor.Dense) error) error {
	for part := range slices.Chunk(values, ferried) {
		v, err := b.newView(at, []int64{int64(len(part))})
		if err != nil {
			return err
		}
		err = f(v, tensor.New(tensor.WithShape(len(part)), tensor.WithBacking(part)))
		releaseValue(v.value)
		if err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

// Close frees the memory. No run may use it afterwards.
func (b *Buffer) Close() error {
	if b == nil || b.ferry == nil {
		return nil
	}
	for _, v := range b.views {
		releaseValue(v.value)
	}
	b.memory.free()
	err := b.ferry.Close()
	b.ferry, b.views = nil, nil
	return err
}

// checkView checks a view against the declared input or output.
func (p port) checkView(v *View) error {
	ok := p.typ == v.typ && p.inner == p.name && p.ranked && len(p.shape) == len(v.shape)
	for i := range v.shape {
		ok = ok && (!p.shape[i].Known() || p.shape[i].Size == v.shape[i])
	}
	if !ok {
		return fmt.Errorf("%q (%v %s) cannot be a tensor of %v of shape %v on the device", p.name, p.typ, p.dims(), v.typ,
			v.shape)
	}
	return nil
}

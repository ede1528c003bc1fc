package ort

/*
#include <stddef.h>
#include <stdint.h>

// See api.go for the table of functions.
enum { BOUND_TENSOR_WITH_DATA = 49, BOUND_CREATE_MEMORY_INFO = 68, BOUND_RELEASE_MEMORY_INFO = 94 };

// api_bound makes a tensor over memory of a device: a CUDA device by its number, or the CPU by -1. It returns a status.
static void *api_bound(void **api, int device, uintptr_t data, size_t bytes, const int64_t *shape, size_t rank,
		int type, void **value) {
	void *memory = NULL;
	void *status = ((void *(*)(const char *, int, int, int, void **))api[BOUND_CREATE_MEMORY_INFO])(
		device < 0 ? "Cpu" : "Cuda", 0, device < 0 ? 0 : device, 0, &memory);
	if (status) return status;
	status = ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))api[BOUND_TENSOR_WITH_DATA])(
		memory, (void *)data, bytes, shape, rank, type, value);
	((void (*)(void *))api[BOUND_RELEASE_MEMORY_INFO])(memory);
	return status;
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// Bound is a value that lies in memory of a device, row-major from the byte At on.
type Bound struct {
	In    *Memory
	At    int64
	Type  onnx.DType
	Shape []int64
}

// boundValue is the runtime's view of it. The embedded interface is nil: it has methods whose types only the binding can
// name, and which a run does not call.
type boundValue struct {
	onnxruntime.Value
	internals onnxruntime.ValueInternalData
}

// GetInternals is what a run reads.
func (v *boundValue) GetInternals() *onnxruntime.ValueInternalData { return &v.internals }

// Destroy frees the view, not the memory.
func (v *boundValue) Destroy() error {
	at := (*unsafe.Pointer)(unsafe.Pointer(&v.internals))
	if *at != nil {
		releaseValue(*at)
		*at = nil
	}
	return nil
}

// value makes the runtime's view.
func (b Bound) value() (onnxruntime.Value, error) {
	t := reflect.TypeFor[onnxruntime.ValueInternalData]()
	if t.NumField() != 1 || t.Field(0).Type.Kind() != reflect.Pointer {
		return nil, errors.New(
			"the Go binding's ValueInternalData is laid out otherwise than in version 1.35: ort/bound.go must follow")
	}
	bytes := int64(b.Type.Size())
	for _, d := range b.Shape {
		bytes *= d
	}
	if bytes <= 0 || len(b.Shape) == 0 || b.At < 0 || b.At > b.In.bytes-bytes {
		return nil, fmt.Errorf("%v %v from byte %d on does not lie in memory of %d", b.Type, b.Shape, b.At, b.In.bytes)
	}
	table, err := api()
	if err != nil {
		return nil, err
	}
	v := &boundValue{}
	status := C.api_bound(table, C.int(b.In.device), C.uintptr_t(b.In.at+uintptr(b.At)), C.size_t(bytes),
		(*C.int64_t)(unsafe.Pointer(&b.Shape[0])), C.size_t(len(b.Shape)), C.int(b.Type),
		(*unsafe.Pointer)(unsafe.Pointer(&v.internals)))
	if err := failedStatus(table, status); err != nil {
		return nil, err
	}
	return v, nil
}

// RunBound is Run with values that lie in memory of a device: of inputs, and of outputs, which are not among the
// results, then. Their names are those of [Options].Bound. An output may lie where an input does if the operator that
// makes it can work in place.
func (s *Session) RunBound(
	ctx context.Context,
	in map[string]*tensor.Dense,
	bound map[string]Bound,
) (map[string]*tensor.Dense, error) {
	out, err := s.run(ctx, in, nil, Views{}, bound)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", s.name, err)
	}
	runtime.KeepAlive(bound)
	return out, nil
}

// bound returns the view of a port's value.
func (p port) view(bound map[string]Bound) (onnxruntime.Value, error) {
	b, ok := bound[p.name]
	switch {
	case !ok:
		return nil, fmt.Errorf("a %v %s in memory of a device is missing", p.typ, p.dims())
	case b.Type != p.typ:
		return nil, fmt.Errorf("it lies in memory as %v, want %v", b.Type, p.typ)
	case len(b.Shape) != len(p.shape):
		return nil, fmt.Errorf("it lies in memory as %v, want %s", b.Shape, p.dims())
	}
	for i, d := range p.shape {
		if d.Known() && d.Size != b.Shape[i] {
			return nil, fmt.Errorf("it lies in memory as %v, want %s", b.Shape, p.dims())
		}
	}
	return b.value()
}

// checkBound finds names that no port has, which is bound.
func (s *Session) checkBound(bound map[string]Bound) error {
	known := map[string]bool{}
	for _, p := range slices.Concat(s.inputs, s.outputs) {
		known[p.name] = known[p.name] || p.bound
	}
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		if !known[name] {
			return fmt.Errorf("%q is no value that was declared to lie in memory of a device", name)
		}
	}
	return nil
}

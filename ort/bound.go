package ort

/*
#include <stddef.h>
#include <stdint.h>

// See api.go for the table of functions.
enum { BOUND_TENSOR_WITH_DATA = 49, BOUND_CREATE_MEMORY_INFO = 68, BOUND_RELEASE_MEMORY_INFO = 94 };

// api_bound makes a tensor over the memory of a CUDA device, given by its number, or of the CPU (-1). It returns a
// status.
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
	"fmt"
	"slices"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"assay/onnx"
)

// View is a tensor in a part of a [Memory].
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

// Views are inputs and outputs of a run, by name, that are in device memory. A view may be both if the operator that
// computes the output can work in place.
type Views struct{ In, Out map[string]*View }

// View makes a row-major tensor over the memory, starting at byte at. It must be freed before the memory is closed.
func (m *Memory) View(at int64, typ onnx.DType, shape ...int64) (*View, error) {
	bytes := int64(typ.Size()) * onnx.Elements(shape)
	if bytes <= 0 || len(shape) == 0 || at < 0 || at > m.bytes-bytes {
		return nil, fmt.Errorf("%v %v at byte %d does not fit in memory of %d bytes", typ, shape, at, m.bytes)
	}
	table, err := api()
	if err != nil {
		return nil, err
	}
	v := &View{typ: typ, shape: slices.Clone(shape)}
	status := C.api_bound(table, C.int(m.device), C.uintptr_t(m.at+uintptr(at)), C.size_t(bytes),
		(*C.int64_t)(unsafe.Pointer(&shape[0])), C.size_t(len(shape)), C.int(typ), &v.value)
	if err := failedStatus(table, status); err != nil {
		return nil, err
	}
	if v.internals, err = valueOf(v.value); err != nil {
		v.Free()
	}
	return v, err
}

// Free frees a view of a [Memory], not the memory.
func (v *View) Free() {
	releaseValue(v.value)
	v.value = nil
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

package ort

import "unsafe"

// HostBuffer is host memory that runs read inputs from. For a CUDA device it is pinned, which makes copies to
// the device several times as fast.
type HostBuffer struct {
	values []float32
	on     device
	locked uintptr // address of pinned memory; 0: the memory is Go's
}

// NewHostBuffer allocates memory for n numbers that are copied to a device, "cpu" or "cuda:N". If the system refuses
// to pin that much, it is ordinary memory.
func NewHostBuffer(device string, n int) *HostBuffer {
	if on, ok := cudaDevice(device); ok && n > 0 {
		if at, err := cudaTakeHost(on, 4*int64(n)); err == nil {
			return &HostBuffer{values: unsafe.Slice((*float32)(hostPointer(at)), n), on: on, locked: at}
		}
	}
	return &HostBuffer{values: make([]float32, n)}
}

// hostPointer converts an address of C memory, which Go's garbage collector does not track.
func hostPointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// Values returns the memory. It is uninitialized.
func (b *HostBuffer) Values() []float32 { return b.values }

// Bytes returns the memory as bytes.
func (b *HostBuffer) Bytes() []byte { return Bytes(b.values) }

// Close frees the memory. Nothing may use it afterwards. Closing twice is fine.
func (b *HostBuffer) Close() error {
	at := b.locked
	b.values, b.locked = nil, 0
	if at == 0 {
		return nil
	}
	return cudaGiveHost(b.on, at)
}

package ort

import "unsafe"

// HostBuffer is float32 memory of the host that runs read inputs from. For a CUDA device it is page-locked: copies to
// the device are several times as fast.
type HostBuffer struct {
	values []float32
	on     device
	locked uintptr // where page-locked memory begins; 0: it is Go's
}

// NewHostBuffer takes memory for n numbers that go to a device, "cpu" or "cuda:N". The system may refuse to lock so
// many pages: then it is ordinary memory.
func NewHostBuffer(device string, n int) *HostBuffer {
	if on, ok := cudaDevice(device); ok && n > 0 {
		if at, err := cudaTakeHost(on, 4*int64(n)); err == nil {
			return &HostBuffer{values: unsafe.Slice((*float32)(hostPointer(at)), n), on: on, locked: at}
		}
	}
	return &HostBuffer{values: make([]float32, n)}
}

// hostPointer is C's memory, which Go's collector does not look at.
func hostPointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// Values is the memory. What is in it is not known.
func (b *HostBuffer) Values() []float32 { return b.values }

// Close gives the memory back. Nothing may use it any more. Closing twice is fine.
func (b *HostBuffer) Close() error {
	at := b.locked
	b.values, b.locked = nil, 0
	if at == 0 {
		return nil
	}
	return cudaGiveHost(b.on, at)
}

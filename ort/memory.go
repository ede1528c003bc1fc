package ort

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Memory is device memory for inputs and outputs of runs, which are read and written in place, without copies. It is
// zeroed.
type Memory struct {
	device device
	bytes  int64
	at     uintptr // device address, which may be invalid on the CPU
	host   []byte  // the same on the CPU
}

// NewMemory allocates memory of "cpu" or "cuda:N". On the CPU the system commits pages as they are first written.
func NewMemory(name string, bytes int64) (*Memory, error) {
	found, err := devices(name)
	if err == nil && (len(found) != 1 || bytes <= 0) {
		err = fmt.Errorf("%d bytes of %q: want a positive number of bytes of one device", bytes, name)
	}
	if err != nil {
		return nil, err
	}
	m := &Memory{device: found[0], bytes: bytes}
	if m.device == cpu {
		m.host, err = syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		if err == nil {
			m.at = uintptr(unsafe.Pointer(&m.host[0]))
		}
	} else {
		m.at, err = cudaTake(m.device, bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%d bytes of %v: %w", bytes, m.device, err)
	}
	return m, nil
}

// Bytes returns the size of the memory.
func (m *Memory) Bytes() int64 { return m.bytes }

// Host returns the memory itself on the CPU, else nil.
func (m *Memory) Host() []byte { return m.host }

// Close frees the memory. Nothing may use it afterwards. Closing twice is fine.
func (m *Memory) Close() error {
	if m == nil || m.at == 0 {
		return nil
	}
	at, host := m.at, m.host
	m.at, m.host, m.bytes = 0, nil, 0
	if m.device == cpu {
		return syscall.Munmap(host)
	}
	return cudaGive(m.device, at)
}

// Write copies values to the memory, starting at byte at.
func (m *Memory) Write(at int64, values []float32) error {
	return m.WriteBytes(at, Bytes(values))
}

// WriteBytes is Write for numbers of any type, in the machine's order.
func (m *Memory) WriteBytes(at int64, values []byte) error {
	if err := m.transfers(at, int64(len(values))); err != nil || len(values) == 0 {
		return err
	}
	if m.device != cpu {
		return cudaWrite(m.device, m.at+uintptr(at), values)
	}
	copy(m.host[at:], values)
	return nil
}

// Read copies numbers out of the memory, starting at byte at.
func (m *Memory) Read(at int64, into []float32) error {
	if err := m.transfers(at, 4*int64(len(into))); err != nil || len(into) == 0 {
		return err
	}
	if m.device != cpu {
		return cudaRead(m.device, into, m.at+uintptr(at))
	}
	copy(Bytes(into), m.host[at:])
	return nil
}

// transfers checks a range of the memory that is to be written or read.
func (m *Memory) transfers(at, n int64) error {
	if at < 0 || at > m.bytes-n {
		return fmt.Errorf("%d bytes at byte %d do not fit in memory of %d bytes", n, at, m.bytes)
	}
	return nil
}

// Bytes returns the bytes of numbers, not a copy.
func Bytes(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// Numbers returns the numbers in bytes of the machine's order, not a copy. The address must be aligned.
func Numbers[T float32 | uint16](raw []byte) []T {
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/int(unsafe.Sizeof(v)))
}

// Blocks are equally spaced blocks in memory, in bytes.
type Blocks struct {
	In       *Memory
	At, Step int64 // offset of the first one, and distance between two
}

// holds reports whether count blocks of length bytes are within the memory.
func (b Blocks) holds(length int64, count int) bool {
	return b.At >= 0 && b.Step >= length && b.At+int64(count-1)*b.Step+length <= b.In.bytes
}

// CopyBlocks copies count blocks of length bytes within a device. Both may be in the same memory, but must not
// overlap.
func CopyBlocks(to, from Blocks, length int64, count int) error {
	switch {
	case length == 0 || count == 0:
		return nil
	case length < 0 || count < 0 || !to.holds(length, count) || !from.holds(length, count):
		return fmt.Errorf("%d blocks of %d bytes do not fit in memory of %d and %d bytes", count, length, to.In.bytes,
			from.In.bytes)
	case to.In.device != from.In.device:
		return errors.New("blocks are on different devices")
	case to.In.device != cpu:
		return cudaCopy(to.In.device, to.In.at+uintptr(to.At), to.Step, from.In.at+uintptr(from.At), from.Step, length, count)
	}
	for i := range int64(count) {
		t, f := to.At+i*to.Step, from.At+i*from.Step
		copy(to.In.host[t:t+length], from.In.host[f:f+length])
	}
	return nil
}

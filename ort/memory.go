package ort

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Memory is memory of a device in which values of runs lie: runs read and write them there, and nothing is copied. It
// begins as zeros.
type Memory struct {
	device device
	bytes  int64
	at     uintptr // of the device; it may mean nothing to the processor
	host   []byte  // the same on the CPU
}

// NewMemory takes memory of "cpu" or "cuda:N". On the CPU the system gives it as it is first written to.
func NewMemory(name string, bytes int64) (*Memory, error) {
	found, err := devices(name)
	if err == nil && (len(found) != 1 || bytes <= 0) {
		err = fmt.Errorf("%d bytes of %q: a number of bytes of one device is wanted", bytes, name)
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

// Bytes is the size of the memory.
func (m *Memory) Bytes() int64 { return m.bytes }

// Host is the memory itself on the CPU, else nil.
func (m *Memory) Host() []byte { return m.host }

// Close gives the memory back. Nothing may use it any more. Closing twice is fine.
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

// Blocks are places in memory at equal distances, in bytes.
type Blocks struct {
	In       *Memory
	At, Step int64 // of the first one, and from one to the next
}

// holds reports whether so many blocks of a length are within the memory.
func (b Blocks) holds(length int64, count int) bool {
	return b.At >= 0 && b.Step >= length && b.At+int64(count-1)*b.Step+length <= b.In.bytes
}

// CopyBlocks copies so many blocks of a length in bytes within a device. Both may lie in the same memory, but not on
// one another.
func CopyBlocks(to, from Blocks, length int64, count int) error {
	switch {
	case length == 0 || count == 0:
		return nil
	case length < 0 || count < 0 || !to.holds(length, count) || !from.holds(length, count):
		return fmt.Errorf("%d blocks of %d bytes do not lie in memory of %d and %d", count, length, to.In.bytes,
			from.In.bytes)
	case to.In.device != from.In.device:
		return errors.New("blocks of two devices")
	case to.In.device != cpu:
		return cudaCopy(to.In.device, to.In.at+uintptr(to.At), to.Step, from.In.at+uintptr(from.At), from.Step, length, count)
	}
	for i := range int64(count) {
		t, f := to.At+i*to.Step, from.At+i*from.Step
		copy(to.In.host[t:t+length], from.In.host[f:f+length])
	}
	return nil
}

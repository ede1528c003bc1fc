package ort

/*
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Functions of CUDA's runtime library, which the provider has loaded or will load. It is not linked, so that the same
// binary runs on machines without CUDA.
static struct {
	int (*set_device)(int);
	int (*malloc)(void **, size_t);
	int (*free)(void *);
	int (*host_alloc)(void **, size_t, unsigned);
	int (*free_host)(void *);
	int (*memset)(void *, int, size_t);
	int (*memcpy)(void *, const void *, size_t, int);
	int (*memcpy_2d)(void *, size_t, const void *, size_t, size_t, size_t, int);
	int (*synchronize)(void *);
	int (*mem_get_info)(size_t *, size_t *);
	int (*attribute)(int *, int, int);
	int (*get_last_error)(void);
	const char *(*error_string)(int);
} cudart;

// cudart_open finds the library: the one already loaded in the process, else the first that can be loaded.
static const char *cudart_open(void) {
	static const char *names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.14", "libcudart.so.11.0"};
	void *library = NULL;
	for (int load = 0; load < 2 && !library; load++)
		for (int i = 0; i < 4 && !library; i++)
			library = dlopen(names[i], RTLD_NOW | (load ? 0 : RTLD_NOLOAD));
	if (!library) return "libcudart.so was not found in the library path";
	struct { const char *name; void *to; } wanted[] = {
		{"cudaSetDevice", &cudart.set_device}, {"cudaMalloc", &cudart.malloc}, {"cudaFree", &cudart.free},
		{"cudaHostAlloc", &cudart.host_alloc}, {"cudaFreeHost", &cudart.free_host},
		{"cudaMemset", &cudart.memset}, {"cudaMemcpy", &cudart.memcpy}, {"cudaMemcpy2D", &cudart.memcpy_2d},
		{"cudaStreamSynchronize", &cudart.synchronize}, {"cudaMemGetInfo", &cudart.mem_get_info},
		{"cudaDeviceGetAttribute", &cudart.attribute},
		{"cudaGetLastError", &cudart.get_last_error}, {"cudaGetErrorString", &cudart.error_string},
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (!(*(void **)wanted[i].to = dlsym(library, wanted[i].name))) return wanted[i].name;
	return NULL;
}

// cudart_failed returns the message of an error. CUDA keeps the last one; it is cleared so that the runtime does not
// take it for its own.
static const char *cudart_failed(int error) {
	if (!error) return NULL;
	cudart.get_last_error();
	return cudart.error_string(error);
}

static const char *cudart_take(int device, size_t bytes, uintptr_t *at) {
	void *p = NULL;
	int e = cudart.set_device(device);
	if (!e) e = cudart.malloc(&p, bytes);
	if (!e) e = cudart.memset(p, 0, bytes);
	if (!e) e = cudart.synchronize(NULL);
	if (e && p) cudart.free(p);
	*at = (uintptr_t)p;
	return cudart_failed(e);
}

static const char *cudart_give(int device, uintptr_t at) {
	int e = cudart.set_device(device);
	if (!e) e = cudart.free((void *)at);
	return cudart_failed(e);
}

static const char *cudart_take_host(int device, size_t bytes, uintptr_t *at) {
	void *p = NULL;
	int e = cudart.set_device(device);
	if (!e) e = cudart.host_alloc(&p, bytes, 1); // for all devices
	*at = (uintptr_t)p;
	return cudart_failed(e);
}

static const char *cudart_give_host(int device, uintptr_t at) {
	int e = cudart.set_device(device); // else the call may create a context on another device
	if (!e) e = cudart.free_host((void *)at);
	return cudart_failed(e);
}

// Copies may be asynchronous, and the runtime's streams do not wait for them. They are in the default stream: waiting
// for it does not wait for runs in progress.
static const char *cudart_copy(int device, uintptr_t to, size_t to_step, uintptr_t from, size_t from_step,
		size_t length, size_t count) {
	int e = cudart.set_device(device);
	if (!e) e = cudart.memcpy_2d((void *)to, to_step, (const void *)from, from_step, length, count, 3);
	if (!e) e = cudart.synchronize(NULL);
	return cudart_failed(e);
}

static const char *cudart_write(int device, uintptr_t to, const void *from, size_t bytes) {
	int e = cudart.set_device(device);
	if (!e) e = cudart.memcpy((void *)to, from, bytes, 1);
	if (!e) e = cudart.synchronize(NULL);
	return cudart_failed(e);
}

static const char *cudart_read(int device, void *to, uintptr_t from, size_t bytes) {
	int e = cudart.set_device(device);
	if (!e) e = cudart.memcpy(to, (const void *)from, bytes, 2);
	return cudart_failed(e);
}

static const char *cudart_memory(int device, size_t *free, size_t *total) {
	int e = cudart.set_device(device);
	if (!e) e = cudart.mem_get_info(free, total);
	return cudart_failed(e);
}

static const char *cudart_capability(int device, int *major, int *minor) {
	int e = cudart.attribute(major, 75, device);
	if (!e) e = cudart.attribute(minor, 76, device);
	return cudart_failed(e);
}
*/
import "C"

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// cudart loads CUDA's runtime library, once.
var cudart = sync.OnceValue(func() error {
	defer keepSignals()()
	if message := C.cudart_open(); message != nil {
		return errors.New("CUDA's runtime library: " + C.GoString(message))
	}
	return nil
})

// onCUDA calls the library. The current device is a property of the thread.
func onCUDA(f func() *C.char) error {
	if err := cudart(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if message := f(); message != nil {
		return errors.New(C.GoString(message))
	}
	return nil
}

func cudaTake(d device, bytes int64) (uintptr, error) {
	defer keepSignals()() // the first call creates the device's context
	var at C.uintptr_t
	err := onCUDA(func() *C.char { return C.cudart_take(C.int(d), C.size_t(bytes), &at) })
	return uintptr(at), err
}

func cudaTakeHost(d device, bytes int64) (uintptr, error) {
	defer keepSignals()() // as above
	var at C.uintptr_t
	err := onCUDA(func() *C.char { return C.cudart_take_host(C.int(d), C.size_t(bytes), &at) })
	return uintptr(at), err
}

func cudaGiveHost(d device, at uintptr) error {
	return onCUDA(func() *C.char { return C.cudart_give_host(C.int(d), C.uintptr_t(at)) })
}

func cudaCapability(d device) (major, minor int, err error) {
	var a, b C.int
	err = onCUDA(func() *C.char { return C.cudart_capability(C.int(d), &a, &b) })
	return int(a), int(b), err
}

func cudaGive(d device, at uintptr) error {
	return onCUDA(func() *C.char { return C.cudart_give(C.int(d), C.uintptr_t(at)) })
}

func cudaCopy(d device, to uintptr, toStep int64, from uintptr, fromStep, length int64, count int) error {
	return onCUDA(func() *C.char {
		return C.cudart_copy(C.int(d), C.uintptr_t(to), C.size_t(toStep), C.uintptr_t(from), C.size_t(fromStep),
			C.size_t(length), C.size_t(count))
	})
}

func cudaWrite(d device, to uintptr, from []byte) error {
	return onCUDA(func() *C.char {
		return C.cudart_write(C.int(d), C.uintptr_t(to), unsafe.Pointer(&from[0]), C.size_t(len(from)))
	})
}

func cudaRead(d device, to []float32, from uintptr) error {
	return onCUDA(func() *C.char {
		return C.cudart_read(C.int(d), unsafe.Pointer(&to[0]), C.uintptr_t(from), C.size_t(4*len(to)))
	})
}

// FreeMemory returns the free and the total memory of a CUDA device in bytes. Unlike [Devices] it needs no build tag:
// it asks CUDA's runtime library, which the provider needs as well.
func FreeMemory(name string) (free, total int64, err error) {
	found, err := devices(name)
	if err != nil {
		return 0, 0, err
	}
	if len(found) != 1 || found[0] == cpu {
		return 0, 0, errors.New(name + " is not a CUDA device")
	}
	return cudaMemory(found[0])
}

func cudaMemory(d device) (free, total int64, err error) {
	defer keepSignals()() // as above
	var f, t C.size_t
	err = onCUDA(func() *C.char { return C.cudart_memory(C.int(d), &f, &t) })
	return int64(f), int64(t), err
}

// Package codecs decodes JPEG with libjpeg-turbo, WebP with libwebp and zlib streams with libdeflate, which are
// loaded at run time: from a wheel in the program's Python environment (Pillow's, or Assay's own), next to the
// program, or from the system. Package data reads the headers first, and uses Go's packages if a library is absent.
//
// A library is used only if it decodes the small pictures in selftest/ to Pillow's bytes. So all accepted versions
// produce the same pixels, and the version need not be recorded anywhere. libjpeg-turbo passes since version 2.1; the
// IJG's own libjpeg does not.
package codecs

/*
#cgo CFLAGS: -O3
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "codecs.h"
*/
import "C"

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"assay/internal/library"
)

// Go, as the value of [JPEGEnv], [WebPEnv] or [DeflateEnv], selects Go's packages for the format.
const Go = "go"

// A format describes a library and how to find it.
type format struct {
	name     string // of the library
	env      string // environment variable with the path of the library, or [Go]
	packages string // folder of the wheel below site-packages
	files    []string
	symbols  []string
	ending   string                                   // of the files in selftest/
	pixel    func(Header) int                         // bytes per pixel
	decoders []func(functions unsafe.Pointer) decoder // one for each ABI of the library
}

// A decoder fills pixels, three or four bytes each, row by row, from a file whose header has been read.
type decoder func(ctx context.Context, raw []byte, h Header, pixels []byte) error

// Header holds the size and channels from the header of a file.
type Header struct {
	Width, Height int
	Channels      int // in a JPEG file: 1, 3 or 4; of the decoded pixels of a WebP file: 3, or 4 with alpha
}

// A loaded library, or why there is none.
type loaded struct {
	path      string
	functions unsafe.Pointer // of the library, in the order of symbols
	decode    decoder
	err       error
}

//go:embed selftest
var selftest embed.FS

// load returns the first library found that decodes to Pillow's pixels.
func (f format) load() loaded {
	named := os.Getenv(f.env)
	if named == Go {
		return loaded{err: errors.New(f.env + "=" + Go)}
	}
	candidates := []string{named}
	if named == "" {
		candidates = f.candidates()
	}
	failures := []string{f.name + " was not found"}
	for _, path := range candidates {
		functions, err := f.open(path)
		if err != nil {
			failures = append(failures, err.Error())
			continue
		}
		for _, d := range f.decoders {
			decode := d(functions)
			if err = f.test(decode); err == nil {
				return loaded{path, functions, decode, nil}
			}
		}
		C.free(functions)
		failures = append(failures, fmt.Sprintf("%s: %v", path, err))
	}
	if len(failures) > 1 {
		failures = failures[1:]
	}
	return loaded{err: errors.New(strings.Join(failures, "; "))}
}

func (f format) candidates() (paths []string) {
	for _, folder := range library.Folders(f.packages) {
		for _, name := range f.files {
			found, _ := filepath.Glob(filepath.Join(folder, name))
			if len(found) > 0 {
				paths = append(paths, found[0]) // a link and what it points to are the same library
			}
		}
	}
	return paths
}

// open returns the library's functions.
func (f format) open(path string) (functions unsafe.Pointer, err error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	runtime.LockOSThread() // dlerror's text is per thread
	defer runtime.UnlockOSThread()
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	functions = C.calloc(C.size_t(len(f.symbols)), C.size_t(unsafe.Sizeof(handle)))
	for i, s := range f.symbols {
		symbol := C.CString(s)
		at := C.dlsym(handle, symbol)
		C.free(unsafe.Pointer(symbol))
		if at == nil {
			C.free(functions)
			C.dlclose(handle)
			return nil, fmt.Errorf("%s: symbol %s not found", path, s)
		}
		unsafe.Slice((*unsafe.Pointer)(functions), len(f.symbols))[i] = at
	}
	return functions, nil
}

// test decodes the pictures in selftest/, which are named NAME-WIDTHxHEIGHTxCHANNELS-DIGEST.ENDING
// (tools/oracle/codecs.py).
func (f format) test(decode decoder) error {
	files, err := selftest.ReadDir("selftest")
	if err != nil {
		return err
	}
	for _, file := range files {
		parts := strings.Split(strings.TrimSuffix(file.Name(), filepath.Ext(file.Name())), "-")
		if filepath.Ext(file.Name()) != "."+f.ending || len(parts) != 3 {
			continue
		}
		var h Header
		if _, err := fmt.Sscanf(parts[1], "%dx%dx%d", &h.Width, &h.Height, &h.Channels); err != nil {
			return err
		}
		raw, err := selftest.ReadFile("selftest/" + file.Name())
		if err != nil {
			return err
		}
		pixels := make([]byte, h.Width*h.Height*f.pixel(h))
		if err := decode(context.Background(), raw, h, pixels); err != nil {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
		if sum := sha256.Sum256(pixels); hex.EncodeToString(sum[:8]) != parts[2] {
			return fmt.Errorf("%s: it decodes to other pixels than Pillow", parts[0])
		}
	}
	return nil
}

// decoderOf wraps a C decoder, which stops when the context is done.
func decoderOf(decode func(*C.codec_picture) C.int) decoder {
	return func(ctx context.Context, raw []byte, h Header, pixels []byte) error {
		return call(ctx, raw, h, pixels, decode)
	}
}

func call(ctx context.Context, raw []byte, h Header, pixels []byte, decode func(*C.codec_picture) C.int) error {
	if len(raw) == 0 || len(pixels) == 0 {
		return io.ErrUnexpectedEOF
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var stop atomic.Int32
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, p := range []any{&raw[0], &pixels[0], &stop} {
		pin.Pin(p)
	}
	defer context.AfterFunc(ctx, func() { stop.Store(1) })()
	p := C.codec_picture{
		raw: (*C.uint8_t)(&raw[0]), length: C.size_t(len(raw)),
		width: C.int(h.Width), height: C.int(h.Height), channels: C.int(h.Channels),
		pixels: (*C.uint8_t)(&pixels[0]), stop: (*C.int32_t)(unsafe.Pointer(&stop)),
	}
	switch decode(&p) {
	case C.CODEC_OK:
		return nil
	case C.CODEC_TRUNCATED:
		return io.ErrUnexpectedEOF
	case C.CODEC_STOPPED:
		return context.Cause(ctx)
	}
	if text := C.GoString(&p.message[0]); text != "" {
		return errors.New(text)
	}
	return errors.New("invalid data")
}

package codecs

/*
#include "codecs.h"
*/
import "C"

import (
	"bytes"
	"io"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zlib"
)

// zlibNames are as in zlib_functions.
var zlibNames = []string{"inflateInit2_", "inflate", "inflateEnd"}

// zlibFunctions are the system's, or nil. Valid streams have one meaning, so that any version will do.
var zlibFunctions = sync.OnceValue(func() *C.zlib_functions {
	functions, err := open("libz.so.1", zlibNames)
	if err != nil {
		return nil
	}
	return (*C.zlib_functions)(functions)
})

// A ZlibReader decompresses a zlib stream (RFC 1950) that is in memory as a whole: by the system's zlib, and by a
// package of Go where there is none. The latter also decides what a damaged stream gives, and whether it is one.
type ZlibReader struct {
	in     []byte
	at     int // in `in`, of what follows
	stream *C.zlib_stream
	buf    []byte // decompressed at once, more than a row of a picture
	ready  []byte // in buf, what Read returns next
	read   int64  // bytes that were decompressed
	ended  bool   // all is in ready
	source *bytes.Reader
	slow   io.Reader // of source, in place of the stream
	err    error
}

// NewZlibReader returns a reader of a stream, which is to be closed.
func NewZlibReader(stream []byte) *ZlibReader {
	r := &ZlibReader{in: stream}
	if f := zlibFunctions(); f != nil && len(stream) > 0 {
		if r.stream = C.zlib_new(f); r.stream != nil {
			r.buf = make([]byte, 1<<16)
			return r
		}
	}
	r.fallBack()
	return r
}

// fallBack has Go's package read the stream from its beginning up to where we are.
func (r *ZlibReader) fallBack() {
	r.Close()
	r.source = bytes.NewReader(r.in)
	slow, err := zlib.NewReader(r.source)
	if err == nil {
		_, err = io.CopyN(io.Discard, slow, r.read)
	}
	r.slow, r.err = slow, err
}

// Read returns io.EOF only for a stream with the right checksum.
func (r *ZlibReader) Read(p []byte) (int, error) {
	if len(r.ready) == 0 && r.slow == nil && r.err == nil {
		r.fill()
	}
	switch {
	case len(r.ready) > 0:
		n := copy(p, r.ready)
		r.ready = r.ready[n:]
		return n, nil
	case r.err != nil:
		return 0, r.err
	}
	return r.slow.Read(p)
}

// fill decompresses some more.
func (r *ZlibReader) fill() {
	for len(r.ready) == 0 && r.err == nil {
		if r.ended {
			r.err = io.EOF
			return
		}
		status := C.int(-1)
		taken, made := C.size_t(len(r.in)-r.at), C.size_t(len(r.buf))
		if taken > 0 {
			status = C.zlib_read(zlibFunctions(), r.stream, (*C.uint8_t)(unsafe.Pointer(&r.in[r.at])), &taken,
				(*C.uint8_t)(unsafe.Pointer(&r.buf[0])), &made)
		}
		if status < 0 { // it may have given bytes, which are read again
			r.fallBack()
			return
		}
		r.at += int(taken)
		r.read += int64(made)
		r.ready, r.ended = r.buf[:made], status == 1
	}
}

// Len returns the number of bytes behind the stream, once Read has returned io.EOF.
func (r *ZlibReader) Len() int {
	if r.source != nil {
		return r.source.Len()
	}
	return len(r.in) - r.at
}

// Close frees memory. It may be called again.
func (r *ZlibReader) Close() {
	if r.stream != nil {
		C.zlib_free(zlibFunctions(), r.stream)
		r.stream = nil
	}
}

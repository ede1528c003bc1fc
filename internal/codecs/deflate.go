package codecs

/*
#include "codecs.h"
*/
import "C"

import (
	"context"
	"sync"
	"unsafe"
)

// DeflateEnv is the environment variable with the path of libdeflate's library, or [Go].
const DeflateEnv = "ASSAY_LIBDEFLATE"

var deflate = sync.OnceValue(format{
	name: "libdeflate", env: DeflateEnv, packages: "assay_reward", ending: "zlib",
	files: []string{"libdeflate.so.0"},
	symbols: []string{ // as in deflate_functions
		"libdeflate_alloc_decompressor", "libdeflate_zlib_decompress_ex", "libdeflate_free_decompressor",
	},
	pixel: func(h Header) int { return h.Channels },
	decoders: []func(unsafe.Pointer) decoder{func(f unsafe.Pointer) decoder {
		return decoderOf(func(p *C.codec_picture) C.int { return C.zlib_decode((*C.deflate_functions)(f), p) })
	}},
}.load)

// Deflate returns the path of libdeflate's library, or the reason why Go's package reads zlib streams.
func Deflate() (path string, err error) { return deflate().path, deflate().err }

// Inflate fills into, which is smaller than 2 GiB, from a zlib stream of exactly that length. ctx is only checked at
// the start. Deflate must have found a library.
func Inflate(ctx context.Context, packed, into []byte) error {
	return deflate().decode(ctx, packed, Header{len(into), 1, 1}, into)
}

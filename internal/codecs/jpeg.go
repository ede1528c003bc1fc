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

// JPEGEnv is the environment variable with the path of libjpeg-turbo's library, or [Go].
const JPEGEnv = "ASSAY_LIBJPEG"

var jpeg = sync.OnceValue(format{
	name: "libjpeg-turbo", env: JPEGEnv, packages: "pillow.libs", ending: "jpg",
	files: []string{"libjpeg-*.so.62*", "libjpeg.so.62*", "libjpeg.so.8*"},
	symbols: []string{ // as in jpeg_functions
		"jpeg_std_error", "jpeg_CreateDecompress", "jpeg_read_header", "jpeg_start_decompress", "jpeg_read_scanlines",
		"jpeg_finish_decompress", "jpeg_destroy_decompress", "jpeg_resync_to_restart",
	},
	pixel: func(Header) int { return 3 },
	decoders: []func(unsafe.Pointer) decoder{ // a library rejects calls with the other ABI
		func(f unsafe.Pointer) decoder {
			return decoderOf(func(p *C.codec_picture) C.int { return C.jpeg80_decode((*C.jpeg_functions)(f), p) })
		},
		func(f unsafe.Pointer) decoder {
			return decoderOf(func(p *C.codec_picture) C.int { return C.jpeg62_decode((*C.jpeg_functions)(f), p) })
		},
	},
}.load)

// JPEG returns the path of libjpeg-turbo's library, or the reason why Go's package decodes JPEG.
func JPEG() (path string, err error) { return jpeg().path, jpeg().err }

// DecodeJPEG decodes a file to RGB as Pillow does, which assumes that CMYK is inverted. JPEG must have found a
// library. The error for a truncated file is io.ErrUnexpectedEOF.
func DecodeJPEG(ctx context.Context, raw []byte, h Header, pixels []byte) error {
	return jpeg().decode(ctx, raw, h, pixels)
}

package codecs

/*
#include "codecs.h"
*/
import "C"

import (
	"context"
	"errors"
	"sync"
	"unsafe"
)

// WebPEnv is the environment variable with the path of libwebp's library, or [Go].
const WebPEnv = "ASSAY_LIBWEBP"

var webp = sync.OnceValue(format{
	name: "libwebp", env: WebPEnv, packages: "pillow.libs", ending: "webp",
	files:   []string{"libwebp-*.so.7*", "libwebp.so.7*", "libwebp.so.6*"},
	symbols: []string{"WebPGetFeaturesInternal", "WebPINewRGB", "WebPIUpdate", "WebPIDelete"}, // as in webp_functions
	pixel:   func(h Header) int { return h.Channels },
	decoders: []func(unsafe.Pointer) decoder{func(f unsafe.Pointer) decoder {
		return decoderOf(func(p *C.codec_picture) C.int { return C.webp_decode((*C.webp_functions)(f), p) })
	}},
}.load)

// WebP returns the path of libwebp's library, or the reason why Go's package decodes WebP.
func WebP() (path string, err error) { return webp().path, webp().err }

// WebPHeader reads the header of a still picture. WebP must have found a library.
func WebPHeader(raw []byte) (Header, error) {
	var width, height C.int
	alpha := C.int(-1)
	if len(raw) > 0 {
		alpha = C.webp_alpha((*C.webp_functions)(webp().functions), (*C.uint8_t)(&raw[0]), C.size_t(len(raw)), &width,
			&height)
	}
	if alpha < 0 {
		return Header{}, errors.New("invalid header")
	}
	return Header{int(width), int(height), 3 + int(alpha)}, nil
}

// DecodeWebP decodes a still picture to RGB, or to non-premultiplied RGBA, according to h.Channels. WebP must have
// found a library.
func DecodeWebP(ctx context.Context, raw []byte, h Header, pixels []byte) error {
	return webp().decode(ctx, raw, h, pixels)
}

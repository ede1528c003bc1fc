#include "codecs.h"

// zlib_decode fills the pixels from a complete zlib stream with nothing after it. Unlike zlib, libdeflate accepts
// codes that no encoder writes, such as length 286, if the checksum matches.
int zlib_decode(const deflate_functions *f, codec_picture *p) {
	size_t size = (size_t)p->width * p->height * p->channels, used;
	void *decoder = f->new();
	if (!decoder) return CODEC_FAILED;
	int result = f->zlib(decoder, p->raw, p->length, p->pixels, size, &used, NULL); // NULL: size bytes or failure
	f->delete(decoder);
	return result == 0 && used == p->length ? CODEC_OK : CODEC_FAILED;
}

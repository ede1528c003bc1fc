#include "codecs.h"

// zlib_decode fills the pixels from a whole zlib stream with nothing behind it. Of what zlib refuses, libdeflate takes
// codes that no encoder writes, such as length 286, if the checksum fits.
int zlib_decode(const deflate_functions *f, codec_picture *p) {
	size_t size = (size_t)p->width * p->height * p->channels, used;
	void *decoder = f->new();
	if (!decoder) return CODEC_FAILED;
	int result = f->zlib(decoder, p->raw, p->length, p->pixels, size, &used, NULL); // NULL: all of size, or it fails
	f->delete(decoder);
	return result == 0 && used == p->length ? CODEC_OK : CODEC_FAILED;
}

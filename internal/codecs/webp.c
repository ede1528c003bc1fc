#include "codecs.h"

enum { WEBP_ABI = 0x0200, WEBP_RGB = 0, WEBP_RGBA = 1, WEBP_OK = 0, WEBP_SUSPENDED = 5 };

// webp_alpha reads a file's size, and returns 1 if it has alpha, 0 if not, -1 if the header is broken.
int webp_alpha(const webp_functions *f, const uint8_t *raw, size_t length, int *width, int *height) {
	struct { int width, height, alpha, animation, format; uint32_t pad[5]; } info;
	if (f->features(raw, length, &info, WEBP_ABI)) return -1;
	*width = info.width;
	*height = info.height;
	return info.alpha != 0;
}

// webp_decode decodes a file in steps of a sixteenth, or of 64 KiB if that is more, between which it can be stopped.
// Even for damaged data, memory grows only with the size of the picture, which the caller has checked.
int webp_decode(const webp_functions *f, codec_picture *p) {
	int stride = p->channels * p->width;
	void *decoder = f->new(p->channels == 4 ? WEBP_RGBA : WEBP_RGB, p->pixels, (size_t)stride * p->height, stride);
	if (!decoder) return CODEC_FAILED;
	size_t step = p->length / 16 < 1 << 16 ? 1 << 16 : p->length / 16;
	int result = CODEC_TRUNCATED;
	for (size_t n = 0; n < p->length && result == CODEC_TRUNCATED;) {
		n = p->length - n < step ? p->length : n + step;
		if (codec_stopped(p)) {
			result = CODEC_STOPPED;
			break;
		}
		int status = f->update(decoder, p->raw, n);
		if (status == WEBP_OK) result = CODEC_OK;
		else if (status != WEBP_SUSPENDED) result = CODEC_FAILED;
	}
	f->delete(decoder);
	return result;
}

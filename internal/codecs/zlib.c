#include <stdlib.h>
#include "codecs.h"

enum { ZLIB_END = 1, ZLIB_HEADER_BITS = 15 };

// zlib_new returns a stream to decompress, or NULL.
zlib_stream *zlib_new(const zlib_functions *f) {
	zlib_stream *s = calloc(1, sizeof *s);
	if (s && f->init(s, ZLIB_HEADER_BITS, "1.2.3", sizeof *s)) { // the library checks version and size of the structure
		free(s);
		return NULL;
	}
	return s;
}

void zlib_free(const zlib_functions *f, zlib_stream *s) {
	f->end(s);
	free(s);
}

// zlib_read decompresses some of in to out. It returns 1 at the end of the stream, whose checksum was right, 0 if there
// is more, and -1 if the stream is damaged or cut.
int zlib_read(const zlib_functions *f, zlib_stream *s, const uint8_t *in, size_t *in_length, uint8_t *out, size_t *out_length) {
	const size_t most = 1 << 30;
	unsigned given = *in_length < most ? *in_length : most, room = *out_length < most ? *out_length : most;
	s->next_in = in;
	s->avail_in = given;
	s->next_out = out;
	s->avail_out = room;
	int status = f->inflate(s, 0);
	*in_length = given - s->avail_in;
	*out_length = room - s->avail_out;
	s->next_in = NULL;
	s->next_out = NULL;
	return status == ZLIB_END ? 1 : status == 0 ? 0 : -1;
}

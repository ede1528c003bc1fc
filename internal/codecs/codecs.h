#include <stddef.h>
#include <stdint.h>

// Return values of the decoders of this package.
enum { CODEC_OK, CODEC_FAILED, CODEC_TRUNCATED, CODEC_STOPPED };

// A codec_picture is a file and the memory for its pixels, with the size from its header.
typedef struct {
	const uint8_t *raw;
	size_t length;
	int width, height;
	int channels;       // of the file: 1, 3 or 4
	uint8_t *pixels;    // three bytes each, four with alpha
	const int32_t *stop; // not 0: stop as soon as possible
	char message[256];  // why it failed
} codec_picture;

// jpeg_functions are libjpeg's functions, in the order of the symbols in jpeg.go. Their types depend on the ABI
// version.
typedef struct {
	void *std_error, *create, *read_header, *start, *read_scanlines, *finish, *destroy, *resync;
} jpeg_functions;

int jpeg62_decode(const jpeg_functions *f, codec_picture *p);
int jpeg80_decode(const jpeg_functions *f, codec_picture *p);

// webp_functions are libwebp's functions, in the order of the symbols in webp.go.
typedef struct {
	int (*features)(const uint8_t *, size_t, void *, int);
	void *(*new)(int, uint8_t *, size_t, int);
	int (*update)(void *, const uint8_t *, size_t);
	void (*delete)(void *);
} webp_functions;

int webp_alpha(const webp_functions *f, const uint8_t *raw, size_t length, int *width, int *height);
int webp_decode(const webp_functions *f, codec_picture *p);

// deflate_functions are libdeflate's functions, in the order of the symbols in deflate.go.
typedef struct {
	void *(*new)(void);
	int (*zlib)(void *, const void *, size_t, void *, size_t, size_t *, size_t *);
	void (*delete)(void *);
} deflate_functions;

int zlib_decode(const deflate_functions *f, codec_picture *p);

static inline int codec_stopped(const codec_picture *p) { return __atomic_load_n(p->stop, __ATOMIC_RELAXED) != 0; }

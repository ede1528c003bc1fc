// What jpeglib.h asks of a build of libjpeg-turbo. JPEG_LIB_VERSION, the version of its binary interface, is defined by
// the file that includes it.
#define LIBJPEG_TURBO_VERSION 2.1.5
#define BITS_IN_JSAMPLE 8
#define C_ARITH_CODING_SUPPORTED 1
#define D_ARITH_CODING_SUPPORTED 1
#define MEM_SRCDST_SUPPORTED 1
#define WITH_SIMD 1

#define JPEG_LIB_VERSION 62 // Debian's and Pillow's
#define JPEG_DECODE jpeg62_decode
#include "jpegdecode.h"

#define JPEG_LIB_VERSION 80 // Ubuntu's
#define JPEG_DECODE jpeg80_decode
#include "jpegdecode.h"

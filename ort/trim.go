package ort

/*
// glibc keeps small freed chunks. Other C libraries have no such call.
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static void assay_trim(void) { malloc_trim(0); }
#else
static void assay_trim(void) {}
#endif
*/
import "C"

import "runtime/debug"

// TrimMemory returns free memory of Go and of the C library to the system.
func TrimMemory() {
	debug.FreeOSMemory()
	C.assay_trim()
}

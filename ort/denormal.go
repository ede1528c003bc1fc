package ort

/*
// Numbers below 1.2e-38 count as zeros (flush to zero, denormals are zeros): bits 15 and 6 of MXCSR. The runtime does
// it on x86 only.
#if defined(__x86_64__)
#include <xmmintrin.h>
static void assay_zero_denormals(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
static unsigned assay_float_mode(void) { return _mm_getcsr(); }
static void assay_set_float_mode(unsigned mode) { _mm_setcsr(mode); }
#else
static void assay_zero_denormals(void) {}
static unsigned assay_float_mode(void) { return 0; }
static void assay_set_float_mode(unsigned mode) {}
#endif
*/
import "C"

import "runtime"

// zeroDenormals is the runtime's option for the threads of a session. It does not apply to the calling thread: see
// withoutDenormals and keepFloatMode.
const zeroDenormals = "session.set_denormal_as_zero"

// withoutDenormals calls a function with flush-to-zero set on its thread, as on a session's own threads. The softmax
// of masked scores produces denormals, and the CPU is a hundred times slower on each (docs/decisions/denormals.md).
func withoutDenormals(f func() error) error {
	return keepFloatMode(func() error {
		C.assay_zero_denormals()
		return f()
	})
}

// keepFloatMode restores the calling thread's floating-point mode after f, because Go code runs on it as well.
// Functions that create sessions need it too: the runtime sets the mode of the thread that creates the first session.
func keepFloatMode(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer C.assay_set_float_mode(C.assay_float_mode())
	return f()
}

package ort

/*
#include <signal.h>
#include <string.h>

// struct sigaction as plain words, opaque to Go: the pointers in it (sa_restorer is not always set) are not Go
// pointers.
typedef struct { unsigned long words[sizeof(struct sigaction) / sizeof(unsigned long)]; } assay_action;

static struct sigaction assay_of(const assay_action *a) {
	struct sigaction s;
	memcpy(&s, a, sizeof s);
	return s;
}
static int assay_get(int s, assay_action *a) { return sigaction(s, 0, (struct sigaction *)a); }
static int assay_put(int s, const assay_action *a) { return sigaction(s, (const struct sigaction *)a, 0); }
static int assay_handled(const assay_action *a) {
	return assay_of(a).sa_handler != SIG_DFL && assay_of(a).sa_handler != SIG_IGN;
}
static int assay_same(const assay_action *a, const assay_action *b) {
	return assay_of(a).sa_handler == assay_of(b).sa_handler;
}
static int assay_onstack(const assay_action *a) { return (assay_of(a).sa_flags & SA_ONSTACK) != 0; }
static void assay_set_onstack(assay_action *a) {
	struct sigaction s = assay_of(a);
	s.sa_flags |= SA_ONSTACK;
	memcpy(a, &s, sizeof s);
}
*/
import "C"

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const signals = 65 // one more than the largest

// keepSignals records the signal handlers. Call the returned function after loading a library that may have installed
// its own, as CUDA's do. It restores the handlers of SIGINT and SIGTERM, which save a run's state, and of SIGURG,
// with which Go preempts goroutines. Other handlers get SA_ONSTACK, which package os/signal requires. A signal that
// arrives in between goes to the library's handler. mend returns the number of handlers that it changed.
func keepSignals() (mend func() int) {
	var before [signals]C.assay_action
	var known [signals]bool
	for s := 1; s < signals; s++ {
		known[s] = C.assay_get(C.int(s), &before[s]) == 0
	}
	return func() (mended int) {
		for s := 1; s < signals; s++ {
			var now C.assay_action
			if !known[s] || C.assay_get(C.int(s), &now) != 0 || C.assay_handled(&now) == 0 {
				continue
			}
			ours := C.assay_handled(&before[s]) != 0 && C.assay_onstack(&before[s]) != 0
			switch {
			case ours && C.assay_same(&before[s], &now) == 0 && needed(syscall.Signal(s)):
				now = before[s]
			case C.assay_onstack(&now) == 0:
				C.assay_set_onstack(&now)
			default:
				continue
			}
			if C.assay_put(C.int(s), &now) == 0 {
				mended++
				if s == int(syscall.SIGURG) {
					defer repeatSIGURG()
				}
			}
		}
		return mended
	}
}

// needed reports whether Go's own handler of a signal must be in place.
func needed(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGURG
}

// repeatSIGURG sends SIGURG to each thread: Go does not send another one while one is pending, and the library's
// handler may have swallowed it.
func repeatSIGURG() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // only goroutines that never call functions depend on it
	}
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			unix.Tgkill(os.Getpid(), id, unix.SIGURG) // fails if the thread has ended, which is fine
		}
	}
}

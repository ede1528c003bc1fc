package ort

/*
#include <signal.h>
#include <string.h>

// How a signal is handled, in the few words that Go needs. To Go it has no pointers: those that the kernel writes
// into it (sa_restorer is not always set) are not Go's.
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

// keepSignals remembers how signals are handled. What it returns is to be called when a library has been loaded that
// may have taken handlers for itself, as CUDA's do. The handlers of an interrupt and of SIGTERM, which save a run's
// state, are put back. So is that of SIGURG, by which Go stops a goroutine that does not stop by itself. The others get
// SA_ONSTACK, which package os/signal demands of every handler. A signal that comes in between meets the library's
// handler. mend gives the number of handlers that were mended.
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

// repeatSIGURG sends one to each thread: Go sends a thread no other while it waits for the answer to one, and the
// library's handler may have swallowed that.
func repeatSIGURG() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // no goroutine that calls functions depends on it
	}
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			unix.Tgkill(os.Getpid(), id, unix.SIGURG) // a thread that has ended needs none
		}
	}
}

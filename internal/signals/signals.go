// Package signals handles Ctrl-C and SIGTERM from the start of a process, before Go's runtime and its packages are
// initialised.
//
// Without signal.Notify, Go lets these signals kill the process. The first process of a container cannot be killed
// like this: Go then exits with code 2. That is the exit code of wrong usage, after which an orchestrator such as
// Kubernetes does not retry.
package signals

/*
#include <signal.h>
#include <unistd.h>

enum { interrupted = 3 }; // exit.Interrupted: nothing was started

// Go calls this handler for a signal without signal.Notify, because it was installed before Go's own.
static void early(int s) { _exit(interrupted); }

// listen runs before Go's runtime starts and its packages are initialised.
__attribute__((constructor)) static void listen(void) {
	int both[] = {SIGINT, SIGTERM};
	for (int i = 0; i < 2; i++) {
		struct sigaction a;
		if (sigaction(both[i], 0, &a) == 0 && a.sa_handler == SIG_DFL) { // keep what nohup and the like have set
			a.sa_handler = early;
			a.sa_flags = SA_ONSTACK;
			sigaction(both[i], &a, 0);
		}
	}
}

// end lets a signal kill the process. A container's first process survives that: it exits with the code that a shell
// would report.
static void end(int s) {
	sigset_t one;
	signal(s, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, s);
	pthread_sigmask(SIG_UNBLOCK, &one, 0);
	raise(s);
	_exit(128 + s);
}
*/
import "C"

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that the first Ctrl-C or SIGTERM cancels. The second one kills the process. Before
// Context is called, the first one ends the process with exit code 3.
func Context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan os.Signal, 2)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-told
		cancel()
		s, _ := (<-told).(syscall.Signal)
		C.end(C.int(s))
	}()
	return ctx
}

// Package ptrace runs programs and stops them at system calls on files, sockets and the clock, so that tests can
// observe calls or change them. It works on Linux on amd64, and needs neither strace nor privileges.
package ptrace

import (
	"context"
	"os"
	"time"
)

// becomeArg makes this program install a seccomp filter that stops at calls, and exec another program.
const becomeArg = "-become-traced"

// Become must be called first in main or TestMain of a program that calls [Program.Run]. It returns unless the
// program was started by Run, in which case it execs the traced program.
func Become() {
	if len(os.Args) > 2 && os.Args[1] == becomeArg {
		become(os.Args[2:])
	}
}

// Program is a program to trace.
type Program struct {
	Args, Env []string      // Args starts with the program's path
	Life      time.Duration // after this time it is killed with all its descendants; 0: never

	Call func(tid int) // called when a thread is about to make a call
	Exec func(tid int) // called when a program is about to start; may be nil
}

// Run runs the program until it exits. code is -1 if a signal killed it; said is its output.
func (p *Program) Run(ctx context.Context) (code int, said string, err error) { return p.run(ctx) }

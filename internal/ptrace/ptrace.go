// Package ptrace runs programs and stops them at their calls on files, addresses and the clock. It is for Linux on
// amd64, and needs neither strace nor rights.
package ptrace

import (
	"context"
	"os"
	"time"
)

// becomeArg makes this program install a filter that stops at calls, and become another.
const becomeArg = "-become-traced"

// Become is to be called first in main or TestMain of a program that calls [Program.Run]. It returns unless the program
// was started by Run, to become the one that is traced.
func Become() {
	if len(os.Args) > 2 && os.Args[1] == becomeArg {
		become(os.Args[2:])
	}
}

// Program is what runs.
type Program struct {
	Args, Env []string      // with the program's path first
	Life      time.Duration // after which it is killed, and all that it started; 0: never

	Call func(tid int) // sees a thread that is about to make a call
	Exec func(tid int) // sees a program that is about to begin; nil: nothing does
}

// Run runs the program to its end. code is -1 if a signal ended it; said is its output.
func (p *Program) Run(ctx context.Context) (code int, said string, err error) { return p.run(ctx) }

package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// asked is a storage request that failed, permanently or temporarily.
type asked struct{ passing bool }

func (a asked) Error() string   { return "no answer" }
func (a asked) Temporary() bool { return a.passing }
func (a asked) Unwrap() error   { return syscall.ECONNREFUSED }

// TestCode: a mistake of the user (2) fails again in the same way; a failure of the machine (1) may not.
func TestCode(t *testing.T) {
	reading := func(number syscall.Errno) error {
		return fmt.Errorf("reading it: %w", &fs.PathError{Op: "read", Path: "run.yaml", Err: number})
	}
	for want, list := range map[int][]error{
		Done: {nil, Usage(nil), Named(nil)},
		Failed: {errors.New("x"), Usage(context.Canceled), reading(syscall.ENOENT), Usage(reading(syscall.EIO)),
			Usage(reading(syscall.EMFILE)), Usage(errors.Join(errors.New("x"), reading(syscall.ENOSPC))),
			Usage(reading(syscall.ENOTCONN)), Usage(fmt.Errorf("so: %w", asked{true})), Named(reading(syscall.EIO)),
			Named(reading(syscall.EACCES)), Named(errors.New("x")), Named(asked{true})},
		Wrong: {Usagef("x"), fmt.Errorf("so: %w", Usagef("x")), Reported(Usagef("x")), Usage(reading(syscall.ENOENT)),
			Usage(reading(syscall.EACCES)), Usage(reading(syscall.EISDIR)), Usage(asked{false}),
			Named(reading(syscall.ENOENT)), Named(fmt.Errorf("so: %w", reading(syscall.ENOTDIR)))},
		Interrupted: {ErrInterrupted, Usage(fmt.Errorf("so: %w", ErrInterrupted))},
	} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			for _, err := range list {
				if got := Code(err); got != want {
					t.Errorf("%v: exit code %d, want %d", err, got, want)
				}
			}
		})
	}
}

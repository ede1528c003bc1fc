// Package exit defines the commands' exit codes and errors that carry one. Libraries mark an error as a usage error,
// as already reported, or as reported by another process, without depending on the commands; internal/cli turns the
// error into an exit code with [Code].
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
)

// The exit codes of every command.
const (
	Done        = 0 // all went well
	Failed      = 1 // something went wrong
	Wrong       = 2 // wrong usage or configuration: nothing was started, and the same command fails again
	Interrupted = 3 // stopped by the user, state saved
)

// ErrInterrupted is returned (wrapped, with the location of the state) by a command that was interrupted and can be
// resumed.
var ErrInterrupted = errors.New("interrupted, state saved")

type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Usage marks err as the user's: wrong usage or configuration, exit code 2. Several problems are one errors.Join, or
// as an error with a method Problems() []string; --json lists them one by one.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// Usagef is Usage of a formatted error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Named marks the error of opening a file that the user named, before any work starts. If the file does not exist,
// the mistake is the user's (docs/commands.md says why, although a file may also be late). If it exists and cannot be
// opened, that may be the machine's fault, and the error stays as it is.
func Named(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Usage(err)
	}
	return err
}

type reported struct{ error }

func (e *reported) Unwrap() error { return e.error }

// Reported marks an error that the command's printed result already contains (failed rows of a batch): with --json
// nothing more is printed, so that stdout holds one document. The exit code is that of err.
func Reported(err error) error {
	if err == nil {
		return nil
	}
	return &reported{err}
}

type elsewhere struct{ error }

func (e *elsewhere) Unwrap() error { return e.error }

// Elsewhere marks an error that another process of the same job reports to the user: this one prints nothing. The
// exit code is that of err.
func Elsewhere(err error) error {
	if err == nil {
		return nil
	}
	return &elsewhere{err}
}

// IsElsewhere reports whether err went through Elsewhere.
func IsElsewhere(err error) bool {
	var e *elsewhere
	return errors.As(err, &e)
}

// IsReported reports whether err went through Reported.
func IsReported(err error) bool {
	var e *reported
	return errors.As(err, &e)
}

// Code returns the exit code of a command that ended with err.
func Code(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrInterrupted):
		return Interrupted
	case errors.As(err, &usage) && !errors.Is(err, context.Canceled) && !failing(err):
		return Wrong
	}
	return Failed
}

// passing are errors of calls that may succeed later, or on another machine.
var passing = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE,
	syscall.ENOMEM, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOTCONN, syscall.EHOSTDOWN}

// failing reports whether the machine or object storage failed: the user's input was not read, and may be correct.
func failing(err error) bool {
	var number syscall.Errno
	if errors.As(err, &number) && slices.Contains(passing, number) {
		return true
	}
	var storage interface{ Temporary() bool } // internal/remote's errors
	return errors.As(err, &storage) && storage.Temporary()
}

// Problems returns the individual problems of an error that holds several, nil for any other error.
func Problems(err error) []string {
	for err != nil {
		switch e := err.(type) {
		case interface{ Problems() []string }:
			return e.Problems()
		case interface{ Unwrap() []error }:
			var list []string
			for _, p := range e.Unwrap() {
				list = append(list, p.Error())
			}
			return list
		}
		err = errors.Unwrap(err)
	}
	return nil
}

// Join joins an error with an error of the cleanup, and returns a single one as it is. (errors.Join would hide its
// list of problems.)
func Join(err, second error) error {
	if err == nil || second == nil {
		return cmp.Or(err, second)
	}
	return errors.Join(err, second)
}

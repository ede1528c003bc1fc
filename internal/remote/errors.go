package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"
)

// kind is what is wrong with a request.
type kind int

const (
	final     kind = iota // it would be refused again
	missing               // there is no such object
	exists                // it was to be made, and is there
	forbidden             // these credentials may not do it
	passing               // it may go well another time
)

// Error is a request to object storage that failed.
type Error struct {
	Doing string // "reading", "writing"
	Name  string // of the object
	Err   error
	kind  kind
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Doing, e.Name, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Is makes a missing object fs.ErrNotExist, and one that is there already fs.ErrExist.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.kind == missing
	case fs.ErrExist:
		return e.kind == exists
	case errFailed:
		return e.kind == passing || errors.Is(e.Err, context.Canceled)
	}
	return false
}

// Temporary reports whether the storage failed, and not the request.
func (e *Error) Temporary() bool { return e.kind == passing }

// IsMissing reports whether an error says that there is no such object.
func IsMissing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.kind == missing
}

// Failed reports whether an error says that object storage failed after all attempts, or that a request was given up:
// nothing is known of what was asked for.
func Failed(err error) bool { return errors.Is(err, errFailed) }

var errFailed = errors.New("object storage failed")

// attempts at a request, at most. The last one begins within so long of the first failure.
const (
	attempts = 6
	window   = 30 * time.Second
)

// FirstPause is that behind the first attempt; each is twice the one before. Tests have less time.
var FirstPause = time.Second

// patience bounds one attempt, of at most a few MiB.
const patience = 2 * time.Minute

// retry does a request, again where it failed for a reason that may pass. do returns an *Error.
func retry(ctx context.Context, doing, name string, do func(context.Context) error) error {
	pause, failed := FirstPause, time.Time{}
	for n := 1; ; n++ {
		one, cancel := context.WithTimeout(ctx, patience)
		err := do(one)
		cancel()
		var e *Error
		if err == nil {
			return nil
		}
		if !errors.As(err, &e) {
			e = &Error{Err: err}
		}
		e.Doing, e.Name = doing, name
		if ctx.Err() != nil {
			return &Error{Doing: doing, Name: name, Err: context.Cause(ctx)}
		}
		if e.kind != passing {
			return e
		}
		if n == 1 {
			failed = time.Now()
		}
		left := window - time.Since(failed) // drivers try again by themselves, which takes time, too
		if n == attempts || left <= 0 {
			e.Err = fmt.Errorf("%w (after %d attempts)", e.Err, n)
			return e
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, pause-rand.N(pause/4))): // not all workers at the same moment
		}
		pause *= 2
	}
}

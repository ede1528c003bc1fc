package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"
)

// kind is the kind of failure of a request.
type kind int

const (
	final     kind = iota // it would fail again
	missing               // there is no such object
	exists                // it should be created, but exists
	forbidden             // the credentials do not permit it
	passing               // it may succeed later
)

// Error is a failed request to object storage.
type Error struct {
	Doing string // "reading", "writing"
	Name  string // name of the object
	Err   error
	kind  kind
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Doing, e.Name, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Is makes a missing object match fs.ErrNotExist, and one that already exists fs.ErrExist.
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

// Temporary reports whether the storage failed, rather than the request.
func (e *Error) Temporary() bool { return e.kind == passing }

// IsMissing reports whether an error means that there is no such object.
func IsMissing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.kind == missing
}

// Failed reports whether an error means that object storage failed after all attempts, or that a request was
// canceled, so that nothing is known about the requested object.
func Failed(err error) bool { return errors.Is(err, errFailed) }

var errFailed = errors.New("object storage failed")

// attempts is the maximum number of attempts at a request. The last one starts within window of the first failure.
const (
	attempts = 6
	window   = 30 * time.Second
)

// FirstPause is the pause after the first attempt; each pause is twice the previous one. Tests shorten it.
var FirstPause = time.Second

// patience is the timeout of one attempt, which transfers at most a few MiB.
const patience = 2 * time.Minute

// retry sends a request, and repeats it after temporary failures. do returns an *Error.
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
		left := window - time.Since(failed) // drivers also retry by themselves, which takes time
		if n == attempts || left <= 0 {
			e.Err = fmt.Errorf("%w (after %d attempts)", e.Err, n)
			return e
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, pause-rand.N(pause/4))): // so that workers do not retry at the same moment
		}
		pause *= 2
	}
}

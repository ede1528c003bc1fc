// Package filelock gives one process at a time exclusive access to a file or folder that it writes.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// patience is how long to wait for a held lock. A killed process keeps its locks until its memory is freed, which
// takes seconds after a model of billions of parameters was loaded, and it may be restarted at once.
const patience = 3 * time.Second

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Take opens or creates the file at path, and locks it until it is closed or the process ends, for whatever reason.
// If another process keeps the lock for three seconds, the error is ErrHeld. On a file system without locks the file
// is not locked.
func Take(path string) (*os.File, error) { return take(path, patience) }

func take(path string, patience time.Duration) (*os.File, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 100) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		held := errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
		if !held && IsNamed(f, path) { // not one that its holder removed before we got the lock
			return f, nil
		}
		f.Close()
		if held && time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w", path, ErrHeld)
		}
	}
}

// IsNamed reports whether path still names this open file.
func IsNamed(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

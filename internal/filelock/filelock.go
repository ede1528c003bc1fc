// Package filelock keeps a second process out of what one process makes.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// patience is how long a file may still be held. A killed process keeps its locks until its memory is given back, which
// takes seconds where a model of billions of parameters was loaded. Who starts it again at once would be refused.
const patience = 3 * time.Second

// ErrHeld says that another process has the lock.
var ErrHeld = errors.New("another process has it")

// Take opens the file at path, or makes it, and locks it until it is closed or the process ends, in whatever way. If
// another process keeps the lock for three seconds the error is ErrHeld. A file system without locks goes without.
func Take(path string) (*os.File, error) { return take(path, patience) }

func take(path string, patience time.Duration) (*os.File, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 100) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		held := errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
		if !held && IsNamed(f, path) { // not the one that its holder removed before the lock was had
			return f, nil
		}
		f.Close()
		if held && time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w", path, ErrHeld)
		}
	}
}

// IsNamed reports whether the file of that path is still this open one.
func IsNamed(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

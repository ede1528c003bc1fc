package journal

import (
	"errors"
	"fmt"
	"os"
)

// File is a file that is only ever appended to, and that goes on after an interrupt at a size which is known to be
// good.
type File struct {
	file *os.File
	size int64
}

// ErrShort says that a file has fewer bytes than it is to go on after: somebody changed it.
var ErrShort = errors.New("the file is too short")

// OpenFile creates the file at path, or cuts an existing one back to size bytes, so that nothing is there twice. It
// returns an error that wraps ErrShort if the file has fewer.
func OpenFile(path string, size int64) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		err = fmt.Errorf("%s has %d bytes, %d were expected: %w", path, info.Size(), size, ErrShort)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f, size}, nil
}

// Size is the number of bytes that were written whole.
func (f *File) Size() int64 { return f.size }

// Write appends p. What a failed write leaves is written over by the next.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.WriteAt(p, f.size)
	if err == nil {
		f.size += int64(n)
	}
	return n, err
}

// Sync makes what was written survive a loss of power.
func (f *File) Sync() error { return f.file.Sync() }

// Close closes the file and leaves it.
func (f *File) Close() error { return f.file.Close() }

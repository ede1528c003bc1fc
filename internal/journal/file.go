package journal

import (
	"errors"
	"fmt"
	"os"
)

// File is an append-only file that resumes at a size which is known to be good.
type File struct {
	file *os.File
	size int64
}

// ErrShort: a file has fewer bytes than it had, so somebody changed it.
var ErrShort = errors.New("the file is too short")

// OpenFile creates the file at path, or truncates an existing one to size bytes. The error wraps ErrShort if the file
// has fewer.
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

// Size is the number of bytes that were completely written.
func (f *File) Size() int64 { return f.size }

// Write appends p. The next write overwrites what a failed one left.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.WriteAt(p, f.size)
	if err == nil {
		f.size += int64(n)
	}
	return n, err
}

// Sync flushes the file to disk.
func (f *File) Sync() error { return f.file.Sync() }

// Close closes the file and leaves it.
func (f *File) Close() error { return f.file.Close() }

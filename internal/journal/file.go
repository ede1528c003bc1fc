package journal

import (
	"errors"
	"fmt"
	"os"
)

// File is an append-only file that resumes at a size that is known to be good.
type File struct {
	file *os.File
	size int64
}

// ErrShort: a file has fewer bytes than were written to it, so something else changed it.
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
		err = fmt.Errorf("%s has %d bytes, want %d: %w", path, info.Size(), size, ErrShort)
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

// Write appends p. After a failed write, the next one overwrites its remains.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.WriteAt(p, f.size)
	if err == nil {
		f.size += int64(n)
	}
	return n, err
}

// Sync flushes the file to disk.
func (f *File) Sync() error { return f.file.Sync() }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

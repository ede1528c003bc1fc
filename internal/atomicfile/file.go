// Package atomicfile writes files and folders that are complete or absent, whenever the process or the machine stops.
// Each is written to a temporary next to it, synced, and renamed to its final name; then the parent folder is synced.
package atomicfile

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"assay/internal/filelock"
)

// Write writes a file that is complete or absent. If anything fails, path is as it was before and the temporary is
// removed.
func Write(path string, write func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	return f.Finish(err)
}

// WriteBytes is Write of raw.
func WriteBytes(path string, raw []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

// Copy copies one file; to is complete or as it was before.
func Copy(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return Write(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// File is a temporary file that gets its final name when it is finished.
type File struct {
	*os.File
	path string // final
}

// Create opens a temporary file in the folder of path. Its name depends on path only, and it is locked while its
// process runs, so the leftover of a killed process is reused. If another process holds the file, a new one gets a
// unique name.
func Create(path string) (*File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	for range 8 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", path, err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && filelock.IsNamed(f, name) { // not one that was renamed to path before we got the lock
			if err := f.Truncate(0); err != nil {
				f.Close()
				return nil, fmt.Errorf("writing %s: %w", path, err)
			}
			return &File{f, path}, nil
		}
		f.Close()
		if err != nil { // in use, or a file system without locks
			break
		}
	}
	f, err := os.OpenFile(temporary(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return &File{f, path}, nil
}

// temporary returns a unique hidden name next to path.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:10]+".tmp")
}

// Finish syncs and closes the file and gives it its final name. If err is not nil or one of these steps fails, the
// temporary is removed instead, and the error is returned.
func (f *File) Finish(err error) error {
	if err == nil {
		err = f.Sync()
	}
	if err == nil { // while the lock is held
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return SyncDir(filepath.Dir(f.path))
}

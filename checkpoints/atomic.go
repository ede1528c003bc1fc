package checkpoints

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// WriteAtomic writes a file that is complete or absent: into a temporary beside it, synced, renamed over path, the folder
// synced. If anything fails, path is as it was before and the temporary is removed.
func WriteAtomic(path string, write func(io.Writer) error) error {
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	return finish(f, path, err)
}

// createBeside opens a temporary file in the folder of path. It has one name for each path, and is locked as long as its process
// lives: what a killed process left is used again. Where the file is in use, a new one gets a name of its own.
func createBeside(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	for range 8 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", path, err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isNamed(f, name) { // not the one that was renamed to path before the lock was had
			if err := f.Truncate(0); err != nil {
				f.Close()
				return nil, fmt.Errorf("writing %s: %w", path, err)
			}
			return f, nil
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
	return f, nil
}

// isNamed tells whether an open file still has the name.
func isNamed(f *os.File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(mine, there)
}

func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:10]+".tmp")
}

// finish gives the temporary f its final name, or removes it if err or a step of its own fails.
func finish(f *os.File, path string, err error) error {
	if err == nil {
		err = f.Sync()
	}
	if err == nil { // before the lock is given back
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes the entries of a folder (new names, renamed files) survive a loss of power.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}

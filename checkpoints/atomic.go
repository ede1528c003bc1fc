package checkpoints

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// createBeside opens a new temporary file in the folder of path. (os.CreateTemp would make it private to the user.)
func createBeside(path string) (*os.File, error) {
	f, err := os.OpenFile(temporary(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return f, nil
}

func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:10]+".tmp")
}

// finish gives the temporary f its final name, or removes it if err or a step of its own fails.
func finish(f *os.File, path string, err error) error {
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
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

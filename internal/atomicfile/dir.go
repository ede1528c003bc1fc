package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"assay/internal/filelock"
)

// WriteDir creates the folder dir, complete or not at all: write fills a hidden sibling, its files are synced, and it
// is renamed last. An existing folder is an error unless it is empty; an empty one is replaced.
func WriteDir(dir string, write func(tmp string) error) error {
	if err := Vacant(dir); err != nil {
		return err
	}
	return ReplaceDir(dir, func(tmp string) error {
		if err := write(tmp); err != nil {
			return err
		}
		return Vacant(dir) // another process may have created it first
	})
}

// Vacant returns the error of WriteDir if it would refuse dir: the folder exists and is not empty, or a file has its
// name.
func Vacant(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%s: a file has that name, want a new folder", dir)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s exists already and is not empty: choose another name, or remove it", dir)
	}
	return nil
}

// ReplaceDir is WriteDir for a folder that may exist: it is removed once the new one is complete.
func ReplaceDir(dir string, write func(tmp string) error) error {
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	if err := RemoveLeftovers(filepath.Dir(dir), QuoteGlob(filepath.Base(dir))); err != nil {
		return err
	}
	return PlaceDir(dir, func(tmp string) error {
		if err := write(tmp); err != nil {
			return err
		}
		return syncTree(tmp)
	})
}

// PlaceDir renames a temporary folder, which fill has filled and synced, to dir, and replaces what dir was before. If
// fill fails, the temporary folder is removed.
func PlaceDir(dir string, fill func(tmp string) error) (err error) {
	tmp, lock, err := staging(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	if err := fill(tmp); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		if err := RemoveDir(dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// staging creates an empty hidden folder next to dir. It stays locked while this process runs, so that others do not
// take it for a leftover.
func staging(dir string) (tmp string, lock *os.File, err error) {
	for range 8 {
		tmp = temporary(dir)
		if err := os.Mkdir(tmp, 0o777); err != nil {
			return "", nil, err
		}
		lock, err = os.Open(tmp)
		if errors.Is(err, fs.ErrNotExist) { // another process has just removed it as a leftover
			continue
		} else if err != nil {
			return "", nil, errors.Join(err, os.Remove(tmp))
		}
		if lockDir(lock) && filelock.IsNamed(lock, tmp) {
			return tmp, lock, nil
		}
		lock.Close()
	}
	return "", nil, fmt.Errorf("writing %s: other processes remove its temporary folders: run one at a time", dir)
}

// lockDir locks a folder and reports whether no other process holds its lock. On a file system without locks it is
// true.
func lockDir(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// RemoveDir removes a folder. It is renamed first, so that no half-removed folder has its name.
func RemoveDir(dir string) error {
	tmp := temporary(dir)
	if err := os.Rename(dir, tmp); err != nil {
		return err
	}
	return os.RemoveAll(tmp)
}

// RemoveLeftovers removes the temporary folders that killed processes left in root, of folders whose names match the
// pattern.
func RemoveLeftovers(root, pattern string) error {
	old, err := filepath.Glob(filepath.Join(QuoteGlob(root), "."+pattern+".??????????.tmp"))
	for _, dir := range old {
		err = errors.Join(err, removeLeftover(dir))
	}
	return err
}

// removeLeftover removes a temporary folder unless a process is still filling it.
func removeLeftover(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer f.Close()
		if !lockDir(f) {
			return nil
		}
	}
	return os.RemoveAll(dir)
}

// QuoteGlob returns the pattern of filepath.Glob that matches only path.
func QuoteGlob(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// SyncDir makes the entries of a folder (new names, renamed files) survive a power failure.
func SyncDir(dir string) error {
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

// syncTree makes a folder, and all files and folders below it, survive a power failure.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 { // synced with its folder; its target is not ours
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

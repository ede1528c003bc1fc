package checkpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteDir makes the folder dir, complete or not at all: write fills a hidden sibling, its files are synced, and it gets
// its name last. A folder that is there already is an error; an empty one is replaced.
func WriteDir(dir string, write func(tmp string) error) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s exists already and is not empty: choose another name, or remove it", dir)
	}
	return ReplaceDir(dir, write)
}

// ReplaceDir is WriteDir for a folder that may exist: it is removed once the new one is complete.
func ReplaceDir(dir string, write func(tmp string) error) error {
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	if err := removeLeftovers(filepath.Dir(dir), globQuote(filepath.Base(dir))); err != nil {
		return err
	}
	return place(dir, func(tmp string) error {
		if err := write(tmp); err != nil {
			return err
		}
		return syncTree(tmp)
	})
}

// place gives a folder that fill has filled and synced its name, instead of what bears it. What fill leaves behind when it fails
// is removed.
func place(dir string, fill func(tmp string) error) (err error) {
	tmp := leftover(dir)
	if err := os.Mkdir(tmp, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	if err := fill(tmp); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		if err := discard(dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// Location is the shard's path below Weights.Folder, as external tensors name it.
func (s *Shard) Location() string { return s.location }

package atomicfile

import (
	"errors"
	"path/filepath"
)

// From returns path relative to a folder, with forward slashes. A file stores it to refer to another file, so that
// both can be moved together. The result is absolute if there is no relative path.
func From(folder, path string) (string, error) {
	base, err1 := filepath.Abs(folder)
	to, err2 := filepath.Abs(path)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(base, to); err == nil {
		to = rel
	}
	return filepath.ToSlash(to), nil
}

package atomicfile

import (
	"errors"
	"path/filepath"
)

// From names a path as seen from a folder, with forward slashes: what a file says of another one, so that both can be
// moved together. The path is absolute where no way leads there.
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

package atomicfile

import (
	"os"
	"path/filepath"
)

// Same reports whether two paths lead to one file, also through links. If a file does not exist yet, the absolute
// paths are compared.
func Same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	if err1 == nil && err2 == nil {
		return os.SameFile(x, y)
	}
	pathA, err1 := filepath.Abs(a)
	pathB, err2 := filepath.Abs(b)
	return err1 == nil && err2 == nil && pathA == pathB
}

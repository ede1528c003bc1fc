package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"

	"assay/internal/filelock"
)

// Lock keeps a second process out of a run directory.
func Lock(out string) (unlock func(), err error) {
	f, err := filelock.Take(filepath.Join(out, ".lock"))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("another process trains in %s: wait for it, or choose another out", out)
	case err != nil:
		return nil, fmt.Errorf("the run directory %s: %w", out, err)
	}
	return func() { f.Close() }, nil
}

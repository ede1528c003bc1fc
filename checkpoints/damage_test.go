package checkpoints

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/fuzzing"
)

// TestDamage: a checkpoint with a damaged byte is not used: the one before it is.
func TestDamage(t *testing.T) {
	root := t.TempDir()
	const size = 3000
	for step := int64(1); step <= 2; step++ {
		if err := Save(root, step, 0, writeState(step, size)); err != nil {
			t.Fatal(err)
		}
	}
	newest := filepath.Join(root, "step-2")
	files := []string{filepath.Join(newest, "a.bin"), filepath.Join(newest, "sub", "b.bin"),
		filepath.Join(newest, manifestName)}
	fuzzing.Damage(t, 1000, files, func() (bool, error) {
		dir, step, err := Latest(root)
		if filepath.Base(dir) != stepName(step) || step < 1 || (err == nil) != (step == 2) {
			return false, fmt.Errorf("step %d in %q: %w", step, dir, err)
		}
		for _, name := range []string{"a.bin", "sub/b.bin"} {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Equal(raw, bytes.Repeat([]byte{byte(step)}, size)) {
				return false, fmt.Errorf("%s of step %d is used: %v", name, step, err)
			}
		}
		return err != nil, nil
	})
}

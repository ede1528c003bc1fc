package shards

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"assay/internal/fuzzing"
)

// TestDamage: shards with a damaged byte, in results, manifest or plan, are never merged to wrong results.
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out.shards")
	if _, err := open(t, dir, 3).Do(context.Background(), Ref{Count: 3}, do(func(int) {})); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json*"))
	if err != nil || len(files) != 7 {
		t.Fatalf("manifests: got %q, %v, want 7 files", files, err)
	}
	fuzzing.Damage(t, 1000, files, func() (bool, error) {
		w, err := Reopen[result](dir, "test", rows)
		if err != nil {
			return true, nil
		}
		got, err := w.merge()
		if err != nil {
			return true, nil
		}
		for i, r := range got {
			if len(got) != rows || r != value(i) {
				return false, fmt.Errorf("row %d of %d is %+v", i, len(got), r)
			}
		}
		return false, nil
	})
}

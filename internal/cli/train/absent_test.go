package train

import (
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
)

// TestAbsent: a missing file on the command line is a usage error, as in a configuration (docs/commands.md).
func TestAbsent(t *testing.T) {
	gone, out := filepath.Join(t.TempDir(), "gone"), filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{
		{"--config", gone},
		{"export", "--scorer", gone, "--out", out},
		{"export", "--backbone", gone, "--out", out},
		{"merge", "--scorer", gone, "--out", out},
		{"quantize", "--backbone", gone, "--out", out},
	} {
		if code, _, stderr := call(t, args...); code != exit.Wrong || !strings.Contains(stderr, "no such file") {
			t.Errorf("train %v: exit code %d, want %d: %s", args, code, exit.Wrong, stderr)
		}
	}
}

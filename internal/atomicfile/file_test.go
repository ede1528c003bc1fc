package atomicfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestKilledWritersLeaveNothing: the next writer of a path reuses the leftover of a killed process, and concurrent
// writers do not disturb each other.
func TestKilledWritersLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	f, err := Create(path)
	if err == nil {
		_, err = f.WriteString(strings.Repeat("half", 1000))
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close() // as a kill does
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			if err := Write(path, func(w io.Writer) error {
				_, err := fmt.Fprint(w, strings.Repeat(fmt.Sprintf("%02d", i), 50_000))
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 100_000 || strings.Count(string(text), string(text[:2])) < 50_000 {
		t.Errorf("got %d bytes, %v, want 100000 of one writer", len(text), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("folder: got %v, %v, want one entry", left, err)
	}
}

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestFileGoesOnAtItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	write := func(size int64, text string) int64 {
		t.Helper()
		f, err := OpenFile(path, size)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
		return f.Size()
	}
	size := write(0, "one\n")
	write(size, "lost by a crash\n")
	if n := write(size, "two\n"); n != 8 {
		t.Errorf("the size is %d", n)
	}
	if text, err := os.ReadFile(path); string(text) != "one\ntwo\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := OpenFile(path, 9); !errors.Is(err, ErrShort) {
		t.Errorf("a file that lacks bytes: %v", err)
	}
}

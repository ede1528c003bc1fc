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
		t.Errorf("got size %d, want 8", n)
	}
	if text, err := os.ReadFile(path); string(text) != "one\ntwo\n" {
		t.Errorf("got %q, %v, want %q", text, err, "one\ntwo\n")
	}
	if _, err := OpenFile(path, 9); !errors.Is(err, ErrShort) {
		t.Errorf("a file that lacks bytes: got error %v, want %v", err, ErrShort)
	}
}

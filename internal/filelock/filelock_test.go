package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take(path, 20*time.Millisecond); !errors.Is(err, ErrHeld) {
		t.Fatalf("taking a held file: got error %v, want %v", err, ErrHeld)
	}
	time.AfterFunc(50*time.Millisecond, func() { first.Close() }) // as a process that is ending gives it back
	second, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// Somebody who waits for a file that its holder removes in the end has a file that nobody else opens.
func TestTakeRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() {
		os.Remove(path)
		first.Close()
	})
	second, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := take(path, 20*time.Millisecond); !errors.Is(err, ErrHeld) {
		t.Errorf("taking a file that another has: got error %v, want %v", err, ErrHeld)
	}
}

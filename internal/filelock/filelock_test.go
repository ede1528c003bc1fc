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
	time.AfterFunc(50*time.Millisecond, func() { first.Close() }) // as an exiting process releases it
	second, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// A waiter whose file the holder removes must not end up with the lock of a removed file.
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

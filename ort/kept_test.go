package ort

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"assay/onnx"
)

// TestMain turns off the cache of closed sessions, which make test enables: tests here measure what closing frees.
func TestMain(m *testing.M) {
	os.Unsetenv(KeepEnv)
	os.Exit(m.Run())
}

// TestClosedSessionsAreKept opens a graph again. The runtime's session is reused if graph, options and files are
// unchanged, and the cache does not exceed its size.
func TestClosedSessionsAreKept(t *testing.T) {
	t.Setenv(KeepEnv, "2")
	t.Cleanup(func() { // nothing is left for other tests
		t.Setenv(KeepEnv, "0")
		for _, s := range kept.sessions {
			if err := s.free(); err != nil {
				t.Error(err)
			}
		}
		kept.sessions = nil
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "model.safetensors")
	w := weightFile(t, file, onnx.Float, numbers())
	var want []float32
	use := func(o Options) (inner any) {
		t.Helper()
		o.Folder = dir
		s, err := Open(product(w), o)
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, s)
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		inner = s.s
		for range 2 { // closing twice is fine
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Run(context.Background(), nil); err == nil {
			t.Errorf("a closed session: got error %v, want one", err)
		}
		return inner
	}
	first := use(Options{})
	if use(Options{}) != first {
		t.Error("got a new session, want the cached one")
	}
	low := use(Options{LowMemory: true})
	if low == first {
		t.Error("other options: got the same session, want another")
	}
	if use(Options{Threads: 1}) == first || len(kept.sessions) != 2 {
		t.Errorf("%d sessions are kept, want 2", len(kept.sessions))
	}
	if use(Options{LowMemory: true}) != low {
		t.Error("got a new session, want the newer cached one")
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(file, later, later); err != nil { // as if the file had changed
		t.Fatal(err)
	}
	if use(Options{LowMemory: true}) == low {
		t.Error("a changed file: got the cached session, want another")
	}
}

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

// TestMain: make test keeps closed sessions; here tests see what closing frees.
func TestMain(m *testing.M) {
	os.Unsetenv(KeepEnv)
	os.Exit(m.Run())
}

// TestClosedSessionsAreKept opens a graph again. The runtime's session is the same one as long as graph, options and
// files are the same, and at most as many stay as were asked for.
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
		t.Error("got a new session, want the one that was kept")
	}
	low := use(Options{LowMemory: true})
	if low == first {
		t.Error("other options: got the same session, want another")
	}
	if use(Options{Threads: 1}) == first || len(kept.sessions) != 2 {
		t.Errorf("%d sessions are kept, want 2", len(kept.sessions))
	}
	if use(Options{LowMemory: true}) != low {
		t.Error("got a new session, want the younger one that was kept")
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(file, later, later); err != nil { // which changes the file for all that anybody knows
		t.Fatal(err)
	}
	if use(Options{LowMemory: true}) == low {
		t.Error("a file that changed: got the session that was kept, want another")
	}
}

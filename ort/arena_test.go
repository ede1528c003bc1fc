package ort

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestSessionsShareTheArena: sessions that run in turn use the same memory for their values, 128 MB here. The second
// one allocates nothing; a session with its own arena does.
func TestSessionsShareTheArena(t *testing.T) {
	const side = 4096
	b := onnx.NewBuilder("large values", 21)
	x := b.Input("x", onnx.Float, onnx.Dims("n", 1))
	y := b.Op("MatMul", x, b.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0}}, x)) // [n, n]: 64 MB
	y = b.Op("Add", b.Op("Exp", y), b.Op("Sin", y))
	b.Output("y", b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, y), onnx.Float, nil)
	grown := func(o Options) int {
		t.Helper()
		s := openTest(t, b.M, o)
		before := resident(t)
		runTest(t, s, map[string]*tensor.Dense{"x": floats([]int{side, 1}, make([]float32, side)...)})
		return resident(t) - before
	}
	first := grown(Options{LowMemory: true})
	if next := grown(Options{LowMemory: true}); next > 16 {
		t.Errorf("the second session: got %d MB, want at most 16; the first took %d", next, first)
	}
	if own := grown(Options{}); own < 100 {
		t.Errorf("a session with its own arena: got %d MB, want at least 100, or this test measures nothing", own)
	}
}

// TestDeviceArena: the sessions of a CUDA device have one arena, which the first one creates and the last one removes.
// After one of several is closed, the next run returns its memory. A session that exceeds their limit is not opened.
// `make stub` runs the real ones.
func TestDeviceArena(t *testing.T) {
	var got []string
	register := deviceArenas.register
	t.Cleanup(func() { deviceArenas.register = register })
	deviceArenas.register = func(d device, open bool, limit, first int64) error {
		got = append(got, fmt.Sprint(d, open, limit, first>>20))
		if limit == 13 {
			return errors.New("no memory")
		}
		return nil
	}
	join := func(d device, limit int64) *deviceArena {
		t.Helper()
		a, err := joinArena(d, limit)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	leave := func(a *deviceArena) {
		t.Helper()
		if err := a.leave(); err != nil {
			t.Error(err)
		}
	}
	if _, err := joinArena(0, 13); err == nil {
		t.Error("an arena without memory was created")
	}
	a, b, other := join(0, 1000), join(0, 1000), join(1, 0)
	if c := join(0, 0); a != b || a != c || a == other {
		t.Errorf("got arenas %p, %p and %p on device 0 and %p on device 1, want one each", a, b, c, other)
	}
	if _, err := joinArena(1, 1000); err == nil || !strings.Contains(err.Error(), CUDAEnv+"=memory_limit=1000") {
		t.Errorf("a limit where a session without one is open: got error %v", err)
	}
	if a.shrinks() {
		t.Error("a run shrinks the arena, but no session was closed")
	}
	leave(a)
	if first, second := a.shrinks(), a.shrinks(); !first || second {
		t.Errorf("after a session was closed the next run shrinks the arena: got %v, the one after it %v", first, second)
	}
	for bytes, over := range map[int64]bool{1000: false, 1001: true} {
		if err := a.within(bytes); (err != nil) != over || over && !strings.Contains(err.Error(), "memory_limit, 1000") {
			t.Errorf("%d bytes of 1000: got error %v, want one: %v", bytes, err, over)
		}
		if err := other.within(bytes); err != nil {
			t.Errorf("%d bytes without a limit: got error %v", bytes, err)
		}
	}
	full := errors.New("Available memory of 0 is smaller than requested bytes of 256")
	for err, explained := range map[error]bool{full: true, errors.New("another"): false} {
		if got := a.refused(err); !errors.Is(got, err) || strings.Contains(got.Error(), "memory_limit") != explained {
			t.Errorf("a run fails with %q: got %q, want memory_limit in it: %v", err, got, explained)
		}
	}
	if got := other.refused(full); got != full {
		t.Errorf("a run without a limit: got error %q, want %q", got, full)
	}
	leave(a)
	leave(other)
	leave(a)
	leave(join(0, 0))
	for _, bytes := range []int64{5 << 20, 2047 << 20, 2048 << 20, 10000 << 20} {
		ReserveArena("cuda:0", bytes)
		leave(join(0, 0))
	}
	ReserveArena("cuda:0", 1<<30)
	leave(join(0, 1<<30))
	want := []string{"cuda:0 true 13 1", "cuda:0 true 1000 1", "cuda:1 true 0 1", "cuda:1 false 0 0", "cuda:0 false 0 0",
		"cuda:0 true 0 1", "cuda:0 false 0 0",
		"cuda:0 true 0 5", "cuda:0 false 0 0", "cuda:0 true 0 2047", "cuda:0 false 0 0", // reserved
		"cuda:0 true 0 1024", "cuda:0 false 0 0", "cuda:0 true 0 1808", "cuda:0 false 0 0",
		"cuda:0 true 1073741824 1", "cuda:0 false 0 0"}
	if !slices.Equal(got, want) {
		t.Errorf("arenas: got\n%v, want\n%v", got, want)
	}
}

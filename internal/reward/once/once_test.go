package once

import (
	"context"
	"errors"
	"testing"
	"time"
)

// do is a request: it reports its result, and whether it did the work.
func do(t *testing.T, c *Cache[string], id string, digest byte, result string, size int64, keep bool) (string, bool) {
	t.Helper()
	call, first, err := c.Begin(id, Digest{digest})
	if err != nil {
		t.Fatal(err)
	}
	if first {
		c.End(call, result, size, keep)
	}
	got, err := call.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got, first
}

// TestRetries: work is done once per id, unless its result must not be kept or has been dropped.
func TestRetries(t *testing.T) {
	now := time.Now()
	c := New[string](3*(overhead+100), time.Minute)
	c.now = func() time.Time { return now }
	expect := func(what, id, result string, size int64, keep bool, want string, works bool) {
		t.Helper()
		if got, first := do(t, c, id, 1, result, size, keep); got != want || first != works {
			t.Errorf("%s: got %q (done: %v), want %q (%v)", what, got, first, want, works)
		}
	}
	expect("new", "a", "one", 100, true, "one", true)
	expect("again", "a", "two", 100, true, "one", false)
	if _, _, err := c.Begin("a", Digest{2}); !errors.Is(err, ErrOther) {
		t.Errorf("another body: got %v, want %v", err, ErrOther)
	}
	expect("busy", "b", "busy", 100, false, "busy", true)
	expect("no longer busy", "b", "done", 100, true, "done", true)
	expect("too large to keep", "large", "x", 1<<20, true, "x", true)
	expect("too large, again", "large", "y", 1<<20, true, "y", true)
	expect("a third one", "c", "c", 100, true, "c", true)
	expect("a fourth one, which replaces the oldest", "d", "d", 100, true, "d", true)
	if n, bytes := c.Held(); n != 3 || bytes != 3*(overhead+100) {
		t.Errorf("got %d results of %d bytes, want 3 of %d", n, bytes, 3*(overhead+100))
	}
	expect("the oldest", "a", "three", 100, true, "three", true)
	now = now.Add(time.Minute)
	expect("too old", "d", "new", 100, true, "new", true)
	if n, _ := c.Held(); n != 1 {
		t.Errorf("got %d results after a minute, want 1", n)
	}
}

// TestWaiting: a request that arrives while the work is in progress gets its result, and one that leaves does not
// stop the work.
func TestWaiting(t *testing.T) {
	c := New[string](1<<20, time.Minute)
	call, first, err := c.Begin("a", Digest{})
	if !first || err != nil {
		t.Fatal(first, err)
	}
	again, first, err := c.Begin("a", Digest{})
	if first || err != nil || again != call {
		t.Fatalf("got first %v, error %v", first, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := call.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that left: got %v", err)
	}
	go c.End(call, "done", 4, false)
	if got, err := again.Wait(t.Context()); got != "done" || err != nil {
		t.Errorf("got %q, %v, want done", got, err)
	}
}

package exec

import (
	"testing"

	"assay/ort"
)

// TestStaging: a buffer that is large enough is reused; if too many are free, the smallest is freed.
func TestStaging(t *testing.T) {
	s := &staging{net: &Network{Plan: Plan{Device: "cpu"}}}
	take := func(n int) *ort.HostBuffer {
		t.Helper()
		b := s.take(n)
		if len(b.Values()) < n {
			t.Fatalf("got room for %d numbers, want %d", len(b.Values()), n)
		}
		return b
	}
	small, large, other := take(10), take(100), take(50)
	for _, b := range []*ort.HostBuffer{small, large, other} {
		s.give(b)
	}
	if small.Values() != nil {
		t.Error("the smallest of three buffers was kept")
	}
	if got := take(40); got != other {
		t.Errorf("got a buffer of %d for 40 numbers, want the smallest that is large enough", len(got.Values()))
	}
	if got := take(40); got != large {
		t.Errorf("got a buffer of %d for 40 numbers, want the other free one", len(got.Values()))
	}
	s.give(large)
	if err := s.close(); err != nil || large.Values() != nil {
		t.Errorf("closing: got error %v, %d numbers left", err, len(large.Values()))
	}
	if s.give(other); other.Values() != nil || len(s.free) > 0 {
		t.Errorf("after closing, %d numbers are left, and %d buffers are free, want none", len(other.Values()), len(s.free))
	}
}

package exec

import (
	"slices"
	"testing"

	"assay/model/backbone"
	"assay/model/batch"
	"assay/ort"
)

// TestStaging: a buffer that is large enough is reused; if too many are free, the smallest is freed.
func TestStaging(t *testing.T) {
	s := &staging{net: &Network{Plan: Plan{Device: "cpu"}}}
	take := func(n int) *ort.HostBuffer {
		t.Helper()
		b := s.take(n)
		if len(b.Bytes()) < n {
			t.Fatalf("got room for %d bytes, want %d", len(b.Bytes()), n)
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

// TestStage: features that were joined ahead are those of the next batch of the same pictures in the same order; other
// batches between do not change that. Nothing is joined ahead while features are missing.
func TestStage(t *testing.T) {
	s := &staging{net: &Network{Plan: Plan{Device: "cpu"}}}
	sessions := &Sessions{staging: s}
	a, b := &backbone.Picture{Features: []byte{1, 2}}, &backbone.Picture{Features: []byte{3}}
	join := func(want []byte, pictures ...*backbone.Picture) *byte {
		t.Helper()
		all, done := s.features(pictures)
		defer done()
		if !slices.Equal(all, want) {
			t.Errorf("got features %v, want %v", all, want)
		}
		return &all[0]
	}
	stage := func(pictures ...*backbone.Picture) { sessions.Stage(&batch.Inputs{Pictures: pictures}) }
	stage(a, b)
	ahead := &s.ahead.all[0]
	if got := join([]byte{3, 1, 2}, b, a); got == ahead {
		t.Error("pictures in another order took the features that were joined ahead")
	}
	if got := join([]byte{1, 2, 3}, a, b); got != ahead || s.ahead != nil {
		t.Errorf("got features at %p, want those joined ahead, at %p, once", got, ahead)
	}
	if stage(a, &backbone.Picture{}); s.ahead != nil {
		t.Errorf("got %v ahead of pictures without features, want nothing", s.ahead.all)
	}
	stage(a)
	stage(b)
	if join([]byte{3}, b); s.ahead != nil {
		t.Error("features of an earlier batch were kept")
	}
	stage(a)
	if err := s.close(); err != nil || s.ahead != nil || len(s.free) > 0 {
		t.Errorf("closing: got error %v, %v ahead, %d free buffers, want none", err, s.ahead, len(s.free))
	}
}

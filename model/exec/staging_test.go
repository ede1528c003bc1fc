package exec

import (
	"slices"
	"testing"

	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
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

// narrow is a family whose features are single numbers.
type narrow struct{ backbone.Architecture }

func (narrow) Decoder() *nn.Decoder { return &nn.Decoder{TextConfig: nn.TextConfig{Hidden: 1}} }

// stagingOn returns sessions whose graphs are for a GPU and run on a device.
func stagingOn(device string) *Sessions {
	n := &Network{Backbone: &backbone.Backbone{Architecture: narrow{}}, DType: "float16",
		Plan: Plan{Device: "cuda:0", RunDevice: device, Stages: true}}
	return &Sessions{net: n, staging: &staging{net: n}}
}

// step is what a step gets for pictures: the features that it uploads itself, or those on the device.
func step(t *testing.T, s *Sessions, pictures ...*backbone.Picture) (feeds []uint16, view *ort.View, done func()) {
	t.Helper()
	in, views, done, err := s.StepFeeds(&batch.Inputs{Pictures: pictures})
	if err != nil {
		t.Fatal(err)
	}
	if x := in[nn.InFeatures]; x != nil {
		feeds = x.Data().([]uint16)
	}
	return feeds, views[nn.InFeatures], done
}

// TestStage: features that were uploaded ahead are those of the next step over the same pictures in the same order;
// other steps between do not change that. Nothing is uploaded while features are missing, and nothing over the features
// of the step that runs. There is room for two steps, which is used again.
func TestStage(t *testing.T) {
	s := stagingOn("cpu")
	a, b := &backbone.Picture{Features: []byte{1, 0, 2, 0}}, &backbone.Picture{Features: []byte{3, 0}}
	stage := func(pictures ...*backbone.Picture) { s.Stage(&batch.Inputs{Pictures: pictures}) }
	expect := func(what string, staged bool, want []uint16, pictures ...*backbone.Picture) {
		t.Helper()
		lent := s.staging.lent
		feeds, view, done := step(t, s, pictures...)
		if done(); staged != (view != nil) {
			t.Errorf("%s: got a view %v, want one: %t", what, view, staged)
		}
		if staged { // it is the memory that was given back last
			room := s.staging.room[len(s.staging.room)-1]
			feeds = ort.Numbers[uint16](room.Host()[:2*len(want)])
			lent--
		}
		if !slices.Equal(feeds, want) || s.staging.lent != lent {
			t.Errorf("%s: got features %v, %d lent; want %v, %d", what, feeds, s.staging.lent, want, lent)
		}
	}
	stage(a, b)
	expect("pictures in another order", false, []uint16{3, 1, 2}, b, a)
	expect("the same pictures", true, []uint16{1, 2, 3}, a, b)
	expect("the same pictures again", false, []uint16{1, 2, 3}, a, b)
	for _, none := range [][]*backbone.Picture{{}, {a, {}}} {
		if stage(none...); s.staging.ahead != nil {
			t.Errorf("%d pictures without features: got %v ahead, want nothing", len(none), s.staging.ahead)
		}
	}
	stage(a)
	stage(b)
	expect("pictures of an earlier batch", false, []uint16{1, 2}, a)
	expect("pictures of the last batch", true, []uint16{3}, b)

	stage(a, b)
	_, running, done := step(t, s, a, b)
	if stage(b); running == nil || s.staging.lent != rooms {
		t.Errorf("got a view %v, and %d rooms lent, want one and %d", running, s.staging.lent, rooms)
	}
	stage(b, b)
	expect("a third batch while a step runs", false, []uint16{3, 3}, b, b)
	if done(); s.staging.lent != 0 {
		t.Errorf("got %d rooms lent, want none", s.staging.lent)
	}
	expectRoom(t, s.staging, []uint16{1, 2, 3})

	stage(a)
	_, _, done = step(t, s, a)
	stage(b)
	if err := s.staging.close(); err != nil || s.staging.ahead != nil || len(s.staging.free) > 0 || s.staging.lent != 1 {
		t.Errorf("closing: got error %v, %v ahead, %d free buffers, %d lent; want none, and the one of the step", err,
			s.staging.ahead, len(s.staging.free), s.staging.lent)
	}
	done()
	if stage(a); len(s.staging.room) > 0 || s.staging.ahead != nil || s.staging.lent != 0 {
		t.Errorf("a step that ended and one that was staged after closing left memory: %v, %d lent, %v", s.staging.room,
			s.staging.lent, s.staging.ahead)
	}
}

// expectRoom: what a step read is still there, in one of the two rooms, and a batch that does not fit frees one.
func expectRoom(t *testing.T, s *staging, want []uint16) {
	t.Helper()
	holds := func(m *ort.Memory) bool {
		return slices.Equal(ort.Numbers[uint16](m.Host()[:2*len(want)]), want)
	}
	if len(s.room) != rooms || !slices.ContainsFunc(s.room, holds) {
		t.Fatalf("got %d rooms, want %d, and in one of them %v", len(s.room), rooms, want)
	}
	before := s.room[rooms-1]
	v, done, err := s.upload(make([]byte, 1000))
	if err != nil || v == nil || before.Bytes() != 0 || len(s.room) != rooms-1 {
		t.Fatalf("got %v, %v; the room before has %d bytes, and %d are free; want one that is large enough instead of it",
			v, err, before.Bytes(), len(s.room))
	}
	done()
	if last := s.room[rooms-1]; last.Bytes() != 1000+1000/8 {
		t.Errorf("got room for %d bytes, want an eighth more than 1000", last.Bytes())
	}
}

// TestStageWithoutMemory: if features cannot be uploaded, they are joined ahead as feeds.
func TestStageWithoutMemory(t *testing.T) {
	s := stagingOn("cuda:999")
	a := &backbone.Picture{Features: []byte{1, 0, 2, 0}}
	s.Stage(&batch.Inputs{Pictures: []*backbone.Picture{a}})
	if s.staging.ahead == nil || s.staging.lent != 0 {
		t.Fatalf("got %v ahead, %d lent; want feeds", s.staging.ahead, s.staging.lent)
	}
	feeds, view, done := step(t, s, a)
	if view != nil || !slices.Equal(feeds, []uint16{1, 2}) {
		t.Errorf("got %v and a view %v, want feeds 1, 2", feeds, view)
	}
	done()
	if err := s.staging.close(); err != nil {
		t.Error(err)
	}
}

// TestStagedBytes: a plan counts the features of two steps, with the pictures of all passes, where they are staged.
func TestStagedBytes(t *testing.T) {
	n := stagingOn("cpu").net
	pass := &batch.Sample{Pictures: []*backbone.Picture{{Tokens: 100}}}
	one := &batch.Sample{Pictures: []*backbone.Picture{{Tokens: 300}, {Tokens: 400}}, Rest: []*batch.Sample{pass}}
	if got, want := n.stagedBytes(one, 2), int64(2*(2*800*2)*9/8); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	for _, c := range []struct {
		stages, tower bool
		device        string
		want          bool
	}{{true, false, "cuda:0", true}, {false, false, "cuda:0", false}, {true, true, "cuda:0", false},
		{true, false, "cpu", false}} {
		n.Plan = Plan{Stages: c.stages, trainsVision: c.tower, Device: c.device}
		if got := n.Stages(); got != c.want {
			t.Errorf("%+v: got %t, want %t", c, got, c.want)
		}
	}
}

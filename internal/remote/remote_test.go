package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ folder, name, want string }{
		{"/data", "a/b.png", "/data/a/b.png"},
		{"/data", "/x/b.png", "/x/b.png"},
		{"s3://bucket/edits", "a b?.png", "s3://bucket/edits/a b?.png"},
		{"s3://bucket/edits", "../b.png", "s3://bucket/b.png"},
		{"s3://bucket", "b.png", "s3://bucket/b.png"},
		{"s3://bucket/edits", "gs://other/b.png", "gs://other/b.png"},
		{"s3://bucket/edits", "/local/b.png", "/local/b.png"},
	} {
		t.Run(c.folder+" "+c.name, func(t *testing.T) {
			if got := Join(c.folder, c.name); got != c.want {
				t.Errorf("%s and %s: %s, want %s", c.folder, c.name, got, c.want)
			}
		})
	}
	for name, want := range map[string]string{"s3://b/x/y.png": "s3://b/x", "s3://b/y.png": "s3://b", "/a/b": "/a"} {
		t.Run(name, func(t *testing.T) {
			if got := Dir(name); got != want {
				t.Errorf("the folder of %s: %s, want %s", name, got, want)
			}
		})
	}
	for name, want := range map[string]string{
		"s3://":                  "want s3://bucket/key",
		"s3://bucket":            "names a folder",
		"s3://bucket/x/":         "names a folder",
		"s3://bucket/x//y":       "not a path",
		"s3://bucket//y":         "not a path", // pictures next to it would be looked up elsewhere
		"s3://bucket/../y":       "not a path",
		"s3://bucket?region=x/y": "want s3://bucket/key",
		"file://x/y":             "three slashes",
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := split(name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		})
	}
}

// memory is a bucket that fails on demand.
type memory struct {
	objects map[string][]byte
	time    time.Time
	fail    func() error // called for every request; nil: never fails
	asked   int          // number of ranges requested
	bytes   int          // read
}

func (m *memory) err() error {
	if m.fail == nil {
		return nil
	}
	return m.fail()
}

func (m *memory) stat(_ context.Context, key string) (Info, error) {
	raw, ok := m.objects[key]
	if !ok {
		return Info{}, &Error{Err: errors.New("there is no such object"), kind: missing}
	}
	return Info{Size: int64(len(raw)), ModTime: m.time, Version: "v"}, m.err()
}

func (m *memory) read(ctx context.Context, key string, from, most int64) (Range, error) {
	info, err := m.stat(ctx, key)
	if err != nil {
		return Range{}, err
	}
	info.Version = ""
	part := m.objects[key][from:min(from+most, info.Size)]
	m.asked, m.bytes = m.asked+1, m.bytes+len(part)
	return Range{part, info}, nil
}

func (m *memory) write(_ context.Context, key string, o writing) error {
	if _, ok := m.objects[key]; ok && o.fresh {
		return &Error{Err: errors.New("it is there"), kind: exists}
	}
	var b bytes.Buffer
	if err := o.fill(&b); err != nil {
		return err
	}
	m.objects[key] = b.Bytes()
	return m.err()
}

func (m *memory) remove(_ context.Context, key string) error { delete(m.objects, key); return m.err() }

// pauseLess shortens the pauses between attempts.
func pauseLess(t *testing.T, first time.Duration) {
	pause := FirstPause
	FirstPause = first
	t.Cleanup(func() { FirstPause = pause })
}

func newMemory(t *testing.T, bucket string) *memory {
	m := &memory{objects: map[string][]byte{}, time: time.Unix(1, 0)}
	buckets.Lock()
	defer buckets.Unlock()
	buckets.open[bucket] = m
	pauseLess(t, time.Millisecond)
	return m
}

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i>>8*13)
	}
	return out
}

// TestRanges: an object can be read in any order, blocks that were read before come from memory, and sequential reads
// use larger requests.
func TestRanges(t *testing.T) {
	m := newMemory(t, "s3://ranges")
	want := pattern(20*blockBytes + 17)
	m.objects["a/b"] = want
	f, err := Open(context.Background(), "s3://ranges/a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := Size(f); err != nil || n != int64(len(want)) || f.Name() != "s3://ranges/a/b" {
		t.Errorf("got size %d, %v, name %s, want %d, s3://ranges/a/b", n, err, f.Name(), len(want))
	}
	for _, at := range []int{len(want) - 5, 3, 5*blockBytes - 2, len(want) - 5} {
		got := make([]byte, 5)
		if _, err := f.ReadAt(got, int64(at)); err != nil || !bytes.Equal(got, want[at:at+5]) {
			t.Errorf("at %d: got %v, %v, want %v", at, got, err, want[at:at+5])
		}
	}
	if m.bytes > 11*blockBytes+17 { // the two blocks around 5 MiB are read in order
		t.Errorf("got %d requests for %d bytes, want at most %d", m.asked, m.bytes, 11*blockBytes+17)
	}
	if n, err := f.ReadAt(make([]byte, 5), int64(len(want))-2); n != 2 || err != io.EOF {
		t.Errorf("at the end: got %d bytes, %v, want 2, %v", n, err, io.EOF)
	}
	m.asked = 0
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) || m.asked > 5 {
		t.Errorf("in order: got %d bytes by %d requests, %v, want %d by at most 5", len(got), m.asked, err, len(want))
	}
	if got, err := ReadAll(context.Background(), "s3://ranges/a/b", 1<<30); err != nil || !bytes.Equal(got, want) {
		t.Errorf("ReadAll: got %d bytes, %v, want %d", len(got), err, len(want))
	}
	if _, err := ReadAll(context.Background(), "s3://ranges/a/b", 1000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: got error %v, want %v", err, ErrTooLarge)
	}
	if _, err := Open(context.Background(), "s3://ranges/x"); !errors.Is(err, fs.ErrNotExist) || Failed(err) ||
		!strings.Contains(err.Error(), "s3://ranges/x") {
		t.Errorf("no such object: got error %v, want %v with its name, and not a failure of the storage", err, fs.ErrNotExist)
	}
}

// TestFaults: temporary failures are not visible, a permanent one is reported as different from a refusal, and an
// object that changes while it is read is an error.
func TestFaults(t *testing.T) {
	m := newMemory(t, "s3://faults")
	want := pattern(3 * blockBytes)
	m.objects["x"] = want
	n := 0
	m.fail = func() error {
		if n++; n%3 != 0 {
			return &Error{Err: errors.New("503 slow down"), kind: passing}
		}
		return nil
	}
	f, err := Open(context.Background(), "s3://faults/x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
	if err := Put(context.Background(), "s3://faults/y", want, false); err != nil || !bytes.Equal(m.objects["y"], want) {
		t.Errorf("Put: got %d bytes, %v, want %d", len(m.objects["y"]), err, len(want))
	}
	m.fail = func() error { return &Error{Err: errors.New("503 slow down"), kind: passing} }
	_, err = Stat(context.Background(), "s3://faults/x")
	var e *Error
	if !Failed(errors.Join(errors.New("other"), err)) || !errors.As(err, &e) || !e.Temporary() ||
		!strings.Contains(err.Error(), "6 attempts") {
		t.Errorf("storage that always fails: got error %v, want a temporary failure after 6 attempts", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.fail = func() error { cancel(); return &Error{Err: errors.New("503"), kind: passing} }
	if _, err := Stat(ctx, "s3://faults/x"); !errors.Is(err, context.Canceled) || !Failed(err) {
		t.Errorf("Stat with a context that has ended: got error %v, want %v as a failure of the storage", err,
			context.Canceled)
	}
	m.fail = nil
	if f, err = Open(context.Background(), "s3://faults/x"); err != nil {
		t.Fatal(err)
	}
	m.time = time.Unix(2, 0)
	if _, err := io.ReadAll(f); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("an object that changed: got error %v, want one with %q", err, "changed")
	}
}

// TestRemove: an object is removed, and a missing one is not an error.
func TestRemove(t *testing.T) {
	m := newMemory(t, "s3://removed")
	m.objects["a"] = []byte("x")
	for range 2 {
		if err := Remove(context.Background(), "s3://removed/a"); err != nil || len(m.objects) != 0 {
			t.Fatalf("Remove: got error %v, objects %v, want none", err, m.objects)
		}
	}
}

package data

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"testing"
)

// TestInflated: streams that are too long for their content for libdeflate are read piece by piece.
func TestInflated(t *testing.T) {
	if err := noLibdeflate(); err != nil {
		t.Skip(err)
	}
	const size = 1000
	want := bytes.Repeat([]byte{7}, size)
	for _, flushes := range []int{0, 10, 300} { // empty blocks, of 5 bytes
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		for range flushes {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, whole := inflatesWhole(packed.Len(), size), packed.Len() <= size+size/1000+1024; got != whole {
			t.Errorf("%d packed bytes of %d: got %v for all at once, want %v", packed.Len(), size, got, whole)
		}
		for what, raw := range map[string][]byte{"the stream": packed.Bytes(), "more": append(packed.Bytes(), 0)} {
			r, err := inflated(context.Background(), raw, size)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(r)
			}
			if ok := what == "the stream"; (err == nil) != ok || ok && !bytes.Equal(got, want) {
				t.Errorf("%d flushes, %s: got %d bytes and error %v, want %d and an error only of more", flushes, what, len(got),
					err, size)
			}
		}
	}
	if inflatesWhole(wholePacked+1, wholeInflated) || inflatesWhole(1, wholeInflated+1) {
		t.Errorf("got large streams at once, want them piece by piece")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := inflated(ctx, []byte{0}, size); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: got error %v, want %v", err, context.Canceled)
	}
}

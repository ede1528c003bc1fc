package codecs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// needs skips a test if a library is absent: make setup fetches them.
func needs(t *testing.T, find func() (string, error)) {
	t.Helper()
	if _, err := find(); err != nil {
		t.Skip(err)
	}
}

// pictures returns the files in selftest/ with an extension, and their headers.
func pictures(t *testing.T, ending string) map[string]Header {
	t.Helper()
	files, err := selftest.ReadDir("selftest")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Header{}
	for _, f := range files {
		var h Header
		if filepath.Ext(f.Name()) != "."+ending {
			continue
		}
		if _, err := fmt.Sscanf(strings.Split(f.Name(), "-")[1], "%dx%dx%d", &h.Width, &h.Height, &h.Channels); err != nil {
			t.Fatal(err)
		}
		out["selftest/"+f.Name()] = h
	}
	if len(out) < 3 {
		t.Fatalf("got %d files of %s, want at least 3", len(out), ending)
	}
	return out
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := selftest.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestTruncated: no prefix of a file is a picture.
func TestTruncated(t *testing.T) {
	for _, c := range []struct {
		ending string
		find   func() (string, error)
		decode decoder
	}{{"jpg", JPEG, DecodeJPEG}, {"webp", WebP, DecodeWebP}, {"zlib", Deflate, inflate}} {
		t.Run(c.ending, func(t *testing.T) {
			needs(t, c.find)
			for name, h := range pictures(t, c.ending) {
				raw, pixels := read(t, name), make([]byte, h.Width*h.Height*4)
				for n := range len(raw) - 2 {
					if err := c.decode(context.Background(), raw[:n], h, pixels); err == nil {
						t.Errorf("%d of %d bytes of %s: got no error, want one", n, len(raw), name)
					}
				}
			}
		})
	}
}

func inflate(ctx context.Context, raw []byte, h Header, pixels []byte) error {
	return Inflate(ctx, raw, pixels[:h.Width*h.Height*h.Channels])
}

// TestInflate: a stream of the wrong length, with trailing bytes or with a wrong checksum is an error.
func TestInflate(t *testing.T) {
	needs(t, Deflate)
	for name, h := range pictures(t, "zlib") {
		raw, size := read(t, name), h.Width*h.Height*h.Channels
		wrong := bytes.Clone(raw)
		wrong[len(wrong)-1] ^= 1
		for what, c := range map[string]struct {
			raw  []byte
			size int
			ok   bool
		}{
			"whole": {raw, size, true}, "less asked for": {raw, size - 1, false}, "more asked for": {raw, size + 1, false},
			"a byte behind": {append(bytes.Clone(raw), 0), size, false}, "checksum": {wrong, size, false},
			"nothing": {nil, size, false},
		} {
			if err := Inflate(context.Background(), c.raw, make([]byte, c.size)); (err == nil) != c.ok {
				t.Errorf("%s, %s: got error %v, want it to be right: %v", name, what, err, c.ok)
			}
		}
	}
}

// TestDamagedJPEG: libjpeg warns about damaged data and continues; here it is an error.
func TestDamagedJPEG(t *testing.T) {
	needs(t, JPEG)
	for name, h := range pictures(t, "jpg") {
		raw, pixels := read(t, name), make([]byte, h.Width*h.Height*3)
		short := append(bytes.Clone(raw[:len(raw)*3/4]), 0xff, 0xd9) // an early end of the picture
		if err := DecodeJPEG(context.Background(), short, h, pixels); err == nil || err.Error() == "invalid data" {
			t.Errorf("%s ends early: got error %v, want libjpeg's", name, err)
		}
		h.Width--
		if err := DecodeJPEG(context.Background(), raw, h, pixels); err == nil {
			t.Errorf("%s is decoded with another size: got no error, want one", name)
		}
	}
}

func TestUnusableLibrary(t *testing.T) {
	wrong := func(context.Context, []byte, Header, []byte) error { return nil }
	f := format{name: "libnone", env: "ASSAY_NO_SUCH_LIBRARY", ending: "jpg", pixel: func(Header) int { return 3 }}
	if err := f.test(wrong); err == nil || !strings.Contains(err.Error(), "other pixels than Pillow") {
		t.Errorf("a library with other pixels: got error %v, want one", err)
	}
	if got := f.load(); got.err == nil || got.err.Error() != "libnone was not found" {
		t.Errorf("no library: got %v, want an error", got.err)
	}
	t.Setenv(f.env, Go)
	if got := f.load(); got.err == nil || got.err.Error() != f.env+"="+Go {
		t.Errorf("libraries are not wanted: got %v, want that", got.err)
	}
	t.Setenv(f.env, "/none.so")
	if got := f.load(); got.err == nil || !strings.Contains(got.err.Error(), "/none.so") {
		t.Errorf("a missing library is named: got %v, want an error with its path", got.err)
	}
}

func TestDecodersRunTogether(t *testing.T) {
	needs(t, JPEG)
	files := pictures(t, "jpg")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			f := format{ending: "jpg", pixel: func(Header) int { return 3 }}
			for range len(files) {
				if err := f.test(DecodeJPEG); err != nil {
					t.Errorf("got %v, want Pillow's pixels", err)
				}
			}
		})
	}
	group.Wait()
}

// TestJPEGStops: decoding a small file whose scans cover many pixels repeatedly ends with its context.
func TestJPEGStops(t *testing.T) {
	needs(t, JPEG)
	const side, blocks = 8192, 1024 * 1024
	raw := []byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64))
	raw = append(raw, "\xff\xc2\x00\x0b\x08\x20\x00\x20\x00\x01\x01\x11\x00"...)
	// the code 0 is a run of 1 << 14 empty blocks or more
	raw = append(raw, "\xff\xc4\x00\x14\x10\x01"+strings.Repeat("\x00", 15)+"\xe0"...)
	var scan bitString
	for range blocks/(1<<15-1) + 1 {
		scan.put(1<<14-1, 15)
	}
	for range 400 {
		raw = append(raw, "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00"...)
		raw = append(raw, scan.stuffed()...)
	}
	raw = append(raw, 0xff, 0xd9)
	cause := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	err := DecodeJPEG(ctx, raw, Header{side, side, 1}, make([]byte, 3*side*side))
	if !errors.Is(err, cause) {
		t.Errorf("got error %v after %v, want the cause", err, time.Since(start))
	}
	if s := time.Since(start); s > 2*time.Second {
		t.Errorf("got an end after %v, want one within 2 seconds", s)
	}
	if err := DecodeJPEG(ctx, raw, Header{side, side, 1}, make([]byte, 3)); !errors.Is(err, cause) {
		t.Errorf("a context that is done: got error %v, want the cause", err)
	}
}

// A bitString is written starting with the highest bit.
type bitString struct {
	b []byte
	n int
}

func (s *bitString) put(v, n int) {
	for n--; n >= 0; n-- {
		if s.n%8 == 0 {
			s.b = append(s.b, 0)
		}
		s.b[s.n/8] |= byte(v>>n&1) << (7 - s.n%8)
		s.n++
	}
}

// stuffed is the string with byte stuffing, as in a scan.
func (s *bitString) stuffed() []byte { return bytes.ReplaceAll(s.b, []byte{0xff}, []byte{0xff, 0}) }

func TestErrors(t *testing.T) {
	needs(t, JPEG)
	needs(t, WebP)
	for _, raw := range [][]byte{nil, {0xff}, []byte("RIFF\x04\x00\x00\x00WEBP"), binary.BigEndian.AppendUint64(nil, 7)} {
		if err := DecodeJPEG(context.Background(), raw, Header{1, 1, 1}, make([]byte, 3)); err == nil {
			t.Errorf("%q as JPEG: got no error, want one", raw)
		}
		if _, err := WebPHeader(raw); err == nil {
			t.Errorf("%q as WebP: got no error, want one", raw)
		}
	}
	if err := DecodeJPEG(context.Background(), []byte("\xff\xd8\xff"), Header{1, 1, 1}, make([]byte, 3)); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("a beginning: got error %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"path/filepath"
	"testing"

	"assay/internal/packed"
)

// ending is a context that is done after its error was checked left times.
type ending struct {
	context.Context
	left, after int
}

func (e *ending) Err() error {
	if e.left--; e.left >= 0 {
		return nil
	}
	e.after++
	return context.Canceled
}

func TestDecodeEndsWithItsContext(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(packed.Unpack(t, pictures), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("pictures: got %v, %v, want some", files, err)
	}
	cause := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			raw := picture(t, filepath.Base(path))
			if p, err := DecodeContext(ctx, raw, Limits{}); p != nil || !errors.Is(err, cause) {
				t.Errorf("%s: %v, want the cause", path, err)
			}
		})
	}

	noisy := image.NewNRGBA(image.Rect(0, 0, 300, 300))
	copy(noisy.Pix, noise(300, 400).Pix)
	var raw bytes.Buffer
	if err := png.Encode(&raw, noisy); err != nil {
		t.Fatal(err)
	}
	e := &ending{Context: context.Background(), left: 10}
	if p, err := DecodeContext(e, raw.Bytes(), Limits{}); p != nil || err == nil {
		t.Errorf("a context that ends: got picture %t, error %v, want an error alone", p != nil, err)
	}
	if e.after > 3 {
		t.Errorf("got %d reads after the end, want at most 3", e.after)
	}
	if p, err := DecodeContext(context.Background(), raw.Bytes(), Limits{}); err != nil || p.Width != 300 {
		t.Errorf("a context that does not end: got picture %t, error %v, want one 300 pixels wide", p != nil, err)
	}
}

// Pictures of many rows: if each row scanned the whole picture, as opaque pictures once did, this would take hours.
func TestFlattenLooksOnceAtAPixel(t *testing.T) {
	r := image.Rect(0, 0, 2, 1<<20)
	last := image.Pt(1, 1<<20-1)
	palette := color.Palette{color.Black, color.NRGBA{200, 100, 50, 255}}
	set := color.NRGBA64{200<<8 | 7, 100<<8 | 200, 50 << 8, 0xffff}
	for _, m := range []interface {
		image.Image
		Set(x, y int, c color.Color)
	}{
		image.NewRGBA(r), image.NewRGBA64(r), image.NewNRGBA(r), image.NewNRGBA64(r), image.NewPaletted(r, palette),
		image.NewGray(r), image.NewGray16(r), image.NewCMYK(r),
	} {
		t.Run(fmt.Sprintf("%T", m), func(t *testing.T) {
			if f, ok := m.(*image.Gray); ok {
				f.Pix[len(f.Pix)-1] = 99
			} else if f, ok := m.(*image.Gray16); ok {
				f.Pix[len(f.Pix)-1] = 99
			} else {
				m.Set(last.X, last.Y, set)
			}
			p := flatten(m)
			got := [3]byte(p.Pix[len(p.Pix)-3:])
			want := [3]byte{200, 100, 50}
			switch m.(type) {
			case *image.Gray, *image.Gray16:
				want = [3]byte{99, 99, 99}
			}
			if p.Width != 2 || p.Height != 1<<20 || got != want {
				t.Errorf("%T: the last pixel is %v, want %v", m, got, want)
			}
		})
	}
}

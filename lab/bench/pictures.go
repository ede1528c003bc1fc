package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"runtime"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"assay/data"
)

// pictureTimes are seconds of CPU time: of decoding, of decoding with Go's own packages without a conversion, and of
// preparing (bicubic to 336 x 336 pixels, normalised).
type pictureTimes struct {
	Decode, Plain, Prepare float64
	SHA256                 string // of the pixels
}

// pictures times one file at a time: it reads paths from standard input, and answers each with a line of JSON.
func pictures([]string) error {
	runtime.GOMAXPROCS(1) // Pillow uses one core per picture
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		raw, err := os.ReadFile(in.Text())
		if err != nil {
			return err
		}
		var t pictureTimes
		var p *data.Picture
		t.Decode = timed(func() { p, err = data.Decode(raw, data.Limits{}) })
		if err != nil {
			return err
		}
		t.SHA256 = fmt.Sprintf("%x", sha256.Sum256(p.Pix))
		t.Plain = timed(func() { _, _, _ = image.Decode(bytes.NewReader(raw)) }) // it does not support all formats
		t.Prepare = timed(func() {
			p.Resize(336, 336, data.Bicubic).Normalize([3]float32{0.5, 0.5, 0.5}, [3]float32{0.25, 0.25, 0.25})
		})
		if err := out.Encode(t); err != nil {
			return err
		}
	}
	return in.Err()
}

// timed returns the CPU time of a call in seconds.
func timed(f func()) float64 {
	start := processorTime()
	f()
	return (processorTime() - start).Seconds()
}

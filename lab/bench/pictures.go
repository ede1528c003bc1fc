package main

import (
	"bytes"
	"encoding/json"
	"flag"
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

// pictures times, for each file: decoding, decoding by Go's own packages without a conversion, and preparing (bicubic
// to 336 x 336 pixels, normalised), in seconds of processor time.
func pictures(args []string) error {
	f := flag.NewFlagSet("pictures", flag.ExitOnError)
	steps := f.Int("steps", 3, "timed repetitions; the fastest counts")
	f.Parse(args)
	runtime.GOMAXPROCS(1) // Pillow uses one core for a picture
	type times struct{ Decode, Plain, Prepare float64 }
	out := map[string]times{}
	for _, path := range f.Args() {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p, err := data.Decode(raw, data.Limits{})
		if err == nil {
			_, _, err = image.Decode(bytes.NewReader(raw))
		}
		if err != nil {
			return err
		}
		var t times
		t.Decode = fastest(*steps, func() { data.Decode(raw, data.Limits{}) })
		t.Plain = fastest(*steps, func() { image.Decode(bytes.NewReader(raw)) })
		t.Prepare = fastest(*steps, func() {
			p.Resize(336, 336, data.Bicubic).Normalize([3]float32{0.5, 0.5, 0.5}, [3]float32{0.25, 0.25, 0.25})
		})
		out[path] = t
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// fastest returns the least processor time of n calls, in seconds.
func fastest(n int, f func()) (best float64) {
	for i := range n {
		start := processorTime()
		f()
		if s := (processorTime() - start).Seconds(); i == 0 || s < best {
			best = s
		}
	}
	return best
}

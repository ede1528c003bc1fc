// Command pictures is our side of the part "Pictures" of `make bench`. For each file it times decoding, decoding by
// Go's own packages without a conversion, and preparing (bicubic to 336 x 336 pixels, normalised). It prints one JSON
// line, in seconds of processor time.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"log"
	"os"
	"runtime"
	"syscall"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"assay/data"
)

func main() {
	log.SetFlags(0)
	steps := flag.Int("steps", 3, "timed repetitions; the fastest counts")
	flag.Parse()
	runtime.GOMAXPROCS(1) // Pillow uses one core for a picture
	type times struct{ Decode, Plain, Prepare float64 }
	out := map[string]times{}
	for _, path := range flag.Args() {
		raw, err := os.ReadFile(path)
		if err != nil {
			log.Fatal("pictures: ", err)
		}
		var p *data.Picture
		var t times
		t.Decode = fastest(*steps, func() error {
			p, err = data.Decode(raw, data.Limits{})
			return err
		})
		t.Plain = fastest(*steps, func() error {
			_, _, err := image.Decode(bytes.NewReader(raw))
			return err
		})
		t.Prepare = fastest(*steps, func() error {
			p.Resize(336, 336, data.Bicubic).Normalize([3]float32{0.5, 0.5, 0.5}, [3]float32{0.25, 0.25, 0.25})
			return nil
		})
		out[path] = t
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal(err)
	}
}

func fastest(n int, f func() error) float64 {
	best := 0.0
	for i := range n {
		start := used()
		if err := f(); err != nil {
			log.Fatal("pictures: ", err)
		}
		if s := used() - start; i == 0 || s < best {
			best = s
		}
	}
	return best
}

// used is the processor time of this process so far, in seconds.
func used() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal("pictures: ", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

package nearcopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/data"
	"assay/internal/long"
)

// The table of docs/label.md: go test ./internal/labeling/nearcopy -run TestNearCopies -v -args -every 1
var (
	photos = flag.String("photos", "../../../examples/photos", "folder of photographs of different things")
	tile   = flag.Int("tile", 48, "pixels of the tiles that they are cut into")
	every  = flag.Int("every", 5, "take every n-th tile of them")
)

func photograph(t *testing.T, name string) *data.Picture {
	t.Helper()
	p, err := data.Open(filepath.Join("../../../testdata/oracle/images", name), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestThumbnailAgainstPillow(t *testing.T) {
	raw, err := os.ReadFile("testdata/phash.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Looks map[string]struct{ Thumbnail, Hash string } // by picture
	}
	if err := json.Unmarshal(raw, &reference); err != nil {
		t.Fatal(err)
	}
	if len(reference.Looks) < 20 {
		t.Fatalf("got %d thumbnails in the reference, want 20 or more", len(reference.Looks))
	}
	for name, want := range reference.Looks {
		l := ThumbnailOf(photograph(t, name))
		if len(l) == 0 {
			t.Fatalf("%s: no thumbnail", name)
		}
		sum := sha256.Sum256(l)
		if hex.EncodeToString(sum[:]) != want.Thumbnail {
			t.Errorf("%s: another thumbnail than Pillow's", name)
		}
		s := wholeSpectrum(l)
		if got := fmt.Sprintf("%016x", s.hash()); got != want.Hash {
			t.Errorf("%s: hash %s, want %s", name, got, want.Hash)
		}
	}
}

// The spectrum of a turned thumbnail is the turned spectrum, and the eight turns are all there are.
func TestTurns(t *testing.T) {
	thumb := ThumbnailOf(photograph(t, "astronaut.png"))
	s := wholeSpectrum(thumb)
	seen := map[string]bool{}
	for way := range turn(turns) {
		pixels := make([]byte, thumbnailSize)
		for i, from := range turned[way] {
			pixels[i] = thumb[from]
		}
		seen[string(pixels)] = true
		want := wholeSpectrum(pixels)
		got := way.spectrum(&s)
		for v := range want {
			for u := range want[v] {
				if !(math.Abs(got[v][u]-want[v][u]) <= 1e-9) {
					t.Errorf("turn %d, (%d, %d): %v, want %v", way, v, u, got[v][u], want[v][u])
				}
			}
		}
	}
	if len(seen) != turns {
		t.Errorf("got %d different turns, want %d", len(seen), turns)
	}
}

// The correlation that an axisFit derives from sums of lines equals the correlation of the resampled window, for any
// ends of its span.
func TestAxisFit(t *testing.T) {
	a := newClippedThumb(ThumbnailOf(photograph(t, "astronaut.png")))
	b := newClippedThumb(ThumbnailOf(photograph(t, "chelsea.png")))
	var f fitter
	f.take(a)
	for i, v := range b.pixels {
		f.whole[i] = float64(v)
	}
	f.wholeAcross = f.whole.transposed()
	rng := rand.New(rand.NewPCG(3, 4))
	random := func() span { return span{rng.Float64() * 0.3, 1 - rng.Float64()*0.3} }
	for range 50 {
		x, y := random(), random()
		f.alongX.hold(&f.across, &f.wholeAcross, y)
		for range 5 {
			var window plane
			resample(&window, &f.pixels, x, y)
			want := correlation(window[:], f.whole[:])
			if got := f.alongX.correlation(x, b); !(math.Abs(got-want) <= 1e-9) {
				t.Fatalf("x %v, y %v, along x: %v, want %v", x, y, got, want)
			}
			f.alongY.hold(&f.pixels, &f.whole, x)
			if got := f.alongY.correlation(y, b); !(math.Abs(got-want) <= 1e-9) {
				t.Fatalf("x %v, y %v, along y: %v, want %v", x, y, got, want)
			}
			x = random()
		}
	}
	x, y := windowSpans(40)
	var window plane
	resample(&window, &f.pixels, x, y)
	if got, want := f.start(40, b, 0), correlation(window[:], f.whole[:]); !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("start: %v, want %v", got, want)
	}
}

func filled(w, h int, r, g, b byte) *data.Picture {
	p := data.NewPicture(w, h)
	for i := 0; i < len(p.Pix); i += 3 {
		p.Pix[i], p.Pix[i+1], p.Pix[i+2] = r, g, b
	}
	return p
}

// laid draws a picture on another one.
func laid(on, p *data.Picture, left, top int) *data.Picture {
	for y := range p.Height {
		copy(on.Pix[3*((top+y)*on.Width+left):], p.Pix[3*y*p.Width:3*(y+1)*p.Width])
	}
	return on
}

func TestBlankHasNoThumbnail(t *testing.T) {
	ramp := data.NewPicture(200, 100)
	for i := range ramp.Pix {
		ramp.Pix[i] = byte(100 + i/3%200/40)
	}
	dot := laid(filled(200, 100, 9, 9, 9), filled(5, 5, 200, 10, 10), 50, 50)
	for name, p := range map[string]*data.Picture{"black": data.NewPicture(64, 64), "one pixel": filled(1, 1, 3, 4, 5),
		"red":        filled(500, 2, 255, 0, 0),
		"faint ramp": ramp, "dot": dot} {
		if l := ThumbnailOf(p); len(l) != 0 {
			t.Errorf("%s: got a thumbnail of %d bytes, want none", name, len(l))
		}
	}
}

func crop(p *data.Picture, left, top, right, bottom float64) *data.Picture {
	w, h := float64(p.Width), float64(p.Height)
	x0, y0, x1, y1 := int(left*w+.5), int(top*h+.5), int((1-right)*w+.5), int((1-bottom)*h+.5)
	return p.Crop(x0, y0, x1-x0, y1-y0)
}

func asJPEG(p *data.Picture, quality int) *data.Picture {
	rgba := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(rgba.Pix[4*i:], append(p.Pix[3*i:3*i+3:3*i+3], 255))
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, rgba, &jpeg.Options{Quality: quality}); err != nil {
		panic(err)
	}
	out, err := data.Image{Bytes: b.Bytes()}.Open("", data.Limits{})
	if err != nil {
		panic(err)
	}
	return out
}

// mapped applies f to every channel's value.
func mapped(p *data.Picture, f func(v float64, channel int) float64) *data.Picture {
	out := data.NewPicture(p.Width, p.Height)
	for i, v := range p.Pix {
		out.Pix[i] = byte(min(max(f(float64(v), i%3), 0), 255))
	}
	return out
}

// watermark draws half-transparent stripes over the lower right corner: a quarter of the width, a tenth of the
// height.
func watermark(p *data.Picture) *data.Picture {
	out := p.Crop(0, 0, p.Width, p.Height)
	w, h := p.Width/4, max(p.Height/10, 1)
	for y := p.Height - 3*h/2; y < p.Height-h/2; y++ {
		for x := p.Width - 9*w/8; x < p.Width-w/8; x++ {
			if x/2%3 != 0 {
				for c := range 3 {
					i := 3*(y*p.Width+x) + c
					out.Pix[i] = byte((int(p.Pix[i]) + 255) / 2)
				}
			}
		}
	}
	return out
}

var copying = []struct {
	name   string
	recall float64 // minimum on the small set
	make   func(p *data.Picture, rng *rand.Rand) *data.Picture
}{
	{"5 % cut off each side", 0.95, func(p *data.Picture,
		_ *rand.Rand) *data.Picture {
		return crop(p, .05, .05, .05, .05)
	}},
	{"10 % cut off each side", 0.94, func(p *data.Picture, _ *rand.Rand) *data.Picture { return crop(p, .1, .1, .1, .1) }},
	{"0 to 10 % cut off each side", 0.95, func(p *data.Picture, r *rand.Rand) *data.Picture {
		return crop(p, r.Float64()/10, r.Float64()/10, r.Float64()/10, r.Float64()/10)
	}},
	{"10 % cut off one side", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return crop(p, .1, 0, 0, 0) }},
	{"mirrored left to right", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return p.FlipHorizontal() }},
	{"mirrored top to bottom", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return p.FlipVertical() }},
	{"turned by 90 degrees", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return p.Rotate90(1) }},
	{"turned by 180 degrees", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return p.Rotate90(2) }},
	{"turned by 270 degrees", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return p.Rotate90(3) }},
	{"border, 8 % of each side", 0.95, func(p *data.Picture, r *rand.Rand) *data.Picture {
		b := p.Width * 8 / 100
		return laid(filled(p.Width+2*b, p.Height+2*b, byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))), p, b, b)
	}},
	{"letterbox, a quarter of the height", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture {
		return laid(data.NewPicture(p.Width, p.Height*4/3), p, 0, p.Height/6)
	}},
	{"bars left and right, JPEG of quality 60", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture {
		return asJPEG(laid(data.NewPicture(p.Width*4/3, p.Height), p, p.Width/6, 0), 60)
	}},
	{"watermark in a corner", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return watermark(p) }},
	{"JPEG of quality 30", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture { return asJPEG(p, 30) }},
	{"half as large", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture {
		return p.Resize(p.Width/2, p.Height/2, data.Bilinear)
	}},
	{"brighter, warmer, less contrast", 0.95, func(p *data.Picture, _ *rand.Rand) *data.Picture {
		return mapped(p, func(v float64, c int) float64 { return v*(0.9-0.04*float64(c)) + 20 })
	}},
	{"mirrored, 5 % cut off, watermark, JPEG of quality 60", 0.9, func(p *data.Picture, _ *rand.Rand) *data.Picture {
		return asJPEG(watermark(crop(p.FlipHorizontal(), .05, .05, .05, .05)), 60)
	}},
}

// tiles cuts photographs into pictures that show different things, made 96 pixels wide and high.
func tiles(t *testing.T) (out []*data.Picture) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(*photos, "*"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if !slices.Contains(data.PictureEndings, filepath.Ext(name)) {
			continue
		}
		p, err := data.Open(name, data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		side := *tile
		for y := 0; y+side <= p.Height; y += side {
			for x := 0; x+side <= p.Width; x += side {
				if n++; n%*every == 0 {
					out = append(out, p.Crop(x, y, side, side).Resize(96, 96, data.Lanczos))
				}
			}
		}
	}
	return out
}

// Counts how many near copies are found, and how many pictures of different things are taken for copies.
func TestNearCopies(t *testing.T) {
	long.Test(t)
	var n Index
	all := tiles(t)
	var seen []*data.Picture
	var clear []bool
	clearOnes := 0
	for _, p := range all {
		if l := ThumbnailOf(p); len(l) > 0 {
			seen = append(seen, p)
			isClear := telling(clipped(l)) >= clearBlocks
			if clear = append(clear, isClear); isClear {
				clearOnes++
			}
		}
	}
	kinds := len(copying) + 1 // the first is the picture itself
	for i, p := range seen {
		n.Add(int32(i*kinds), ThumbnailOf(p))
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		for k, c := range copying {
			n.Add(int32(i*kinds+k+1), ThumbnailOf(c.make(p, rng)))
		}
	}
	found := map[[2]int32]bool{}
	alarms := map[[2]int32]bool{}
	same := func(a, b int32) bool { return int(a)/kinds == int(b)/kinds }
	skip := func(a, b int32) bool { return same(a, b) && int(a)%kinds != 0 && int(b)%kinds != 0 }
	err := n.Pairs(t.Context(), skip, func(a, b int32, _ int) {
		a, b = min(a, b), max(a, b)
		if same(a, b) {
			found[[2]int32{a, b}] = true
		} else {
			alarms[[2]int32{a, b}] = true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pictures: %d clear, %d unclear, %d without a thumbnail", len(all), clearOnes, len(seen)-clearOnes,
		len(all)-len(seen))
	for k, c := range copying {
		hits, others := 0, 0
		for i := range seen {
			if hit := found[[2]int32{int32(i * kinds), int32(i*kinds + k + 1)}]; hit && clear[i] {
				hits++
			} else if hit {
				others++
			}
		}
		rest := len(seen) - clearOnes
		t.Logf("| %s | %.1f %% | %.0f %% |", c.name, 100*float64(hits)/float64(clearOnes),
			100*float64(others)/float64(max(rest, 1)))
		if float64(hits) < c.recall*float64(clearOnes) {
			t.Errorf("%s: got %d of %d found, want a share of %v", c.name, hits, clearOnes, c.recall)
		}
	}
	pairs := len(seen) * (len(seen) - 1) / 2
	between := map[[2]int32]bool{}
	for p := range alarms {
		a, b := int(p[0])/kinds, int(p[1])/kinds
		between[[2]int32{int32(min(a, b)), int32(max(a, b))}] = true
	}
	t.Logf("false alarms: %d among %d pairs of pictures and copies, between %d of %d pairs of pictures", len(alarms),
		pairs*kinds*kinds, len(between), pairs)
	if len(between) > pairs/1500 {
		t.Errorf("got %d false alarms, want at most %d", len(between), pairs/1500)
	}
}

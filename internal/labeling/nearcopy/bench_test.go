package nearcopy

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"assay/data"
)

var (
	thumbnails = flag.Int("thumbnails", 10000, "pictures of BenchmarkNearCopies")
	copies     = flag.Int("copies", 9, "edits and copies of each picture of BenchmarkNearCopies")
	varied     = flag.Bool("varied", false, "scenes that are unlike each other, not all cut from the same photographs")
)

// BenchmarkNearCopies searches pictures of which every ten are one scene: a picture and -copies edits and copies of
// it. Each scene is a blend of two crops of photographs, so that any number of different scenes can be made. If
// varied, it is a blend of a crop and random shapes of all sizes; larger ones have more contrast, as in photographs.
//
//	go test ./internal/labeling/nearcopy -run - -bench NearCopies -benchtime 1x -args -thumbnails 100000 -varied
func BenchmarkNearCopies(b *testing.B) {
	found := benchmarkThumbnails(b)
	for b.Loop() {
		var n Index
		scenes := make(forest, len(found))
		for i, l := range found {
			scenes[i] = int32(i)
			n.Add(int32(i), l)
		}
		before := processorTime(b)
		joined := 0
		skip := func(p, q int32) bool { return scenes.root(p) == scenes.root(q) }
		err := n.Pairs(b.Context(), skip, func(p, q int32, _ int) { joined++; scenes.join(p, q) })
		if err != nil {
			b.Fatal(err)
		}
		spent := processorTime(b) - before
		b.ReportMetric(float64(spent.Microseconds())/1e3/float64(len(found)), "CPU-ms/thumbnail")
		b.ReportMetric(float64(joined), "joined")
		b.ReportMetric(float64(n.Crowded()), "crowded")
		size, made, largest, beside := map[int32]int{}, map[[2]int32]bool{}, 0, 0
		for i, l := range found {
			root := scenes.root(int32(i))
			size[root]++
			largest = max(largest, size[root])
			if len(l) > 0 {
				made[[2]int32{int32(i / (1 + *copies)), root}] = true
			}
		}
		for range made {
			beside++
		}
		b.ReportMetric(float64(len(size)), "scenes")
		b.ReportMetric(float64(beside), "parts")
		b.ReportMetric(float64(largest), "largest")
	}
}

// forest is a disjoint-set forest.
type forest []int32

func (f forest) root(n int32) int32 {
	for f[n] != n {
		f[n] = f[f[n]]
		n = f[n]
	}
	return n
}

func (f forest) join(a, b int32) { f[f.root(a)] = f.root(b) }

// benchmarkThumbnails returns the thumbnails that the flags ask for. They are cached in a file, if ASSAY_THUMBNAILS
// names one.
func benchmarkThumbnails(b *testing.B) (found []Thumbnail) {
	kept := os.Getenv("ASSAY_THUMBNAILS")
	raw, err := os.ReadFile(kept)
	if err != nil {
		found = syntheticThumbnails(b, *thumbnails)
		for _, l := range found {
			raw = append(raw, append(l, make(Thumbnail, thumbnailSize-len(l))...)...)
		}
		if kept != "" {
			if err := os.WriteFile(kept, raw, 0o600); err != nil {
				b.Fatal(err)
			}
		}
		return found
	}
	for l := range slices.Chunk(raw, thumbnailSize) {
		if len(found) == *thumbnails {
			break
		}
		if slices.Max(l) == 0 { // it shows nothing
			l = nil
		}
		found = append(found, l)
	}
	return found
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// syntheticThumbnails returns the thumbnails of pictures and their copies, ten of each.
func syntheticThumbnails(tb testing.TB, n int) []Thumbnail {
	const side = 64
	names, err := filepath.Glob(filepath.Join(*photos, "*.png"))
	if err != nil || len(names) < 2 {
		tb.Fatalf("%d photographs in %s: %v", len(names), *photos, err)
	}
	var all []*data.Picture
	for _, name := range names {
		p, err := data.Open(name, data.Limits{})
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, p)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	piece := func() *data.Picture {
		p := all[rng.IntN(len(all))]
		size := side/2 + rng.IntN(side)
		p = p.Crop(rng.IntN(p.Width-size), rng.IntN(p.Height-size), size, size).Resize(side, side, data.Bilinear)
		return p.Rotate90(rng.IntN(4))
	}
	var found []Thumbnail
	for len(found) < n {
		p, other := piece(), piece()
		if *varied {
			other = shapes(rng, side)
		}
		for i, v := range other.Pix {
			if *varied {
				p.Pix[i] = byte((2*int(p.Pix[i]) + 3*int(v)) / 5)
				continue
			}
			p.Pix[i] = byte((3*int(p.Pix[i]) + 2*int(v)) / 5)
		}
		found = append(found, ThumbnailOf(p))
		for range *copies {
			found = append(found, ThumbnailOf(copying[rng.IntN(len(copying))].make(p, rng)))
		}
	}
	return found[:n]
}

// shapes returns a picture of random light at six scales. The contrast of a scale grows with its size, by a power
// that is drawn for each picture.
func shapes(rng *rand.Rand, side int) *data.Picture {
	sum := make([]float64, 3*side*side)
	fall := 0.6 + 0.6*rng.Float64()
	for cells := 2; cells <= side; cells *= 2 {
		grid := data.NewPicture(cells, cells)
		for i := range grid.Pix {
			grid.Pix[i] = byte(rng.Uint32())
		}
		weight := math.Pow(float64(cells), -fall)
		for i, v := range grid.Resize(side, side, data.Bicubic).Pix {
			sum[i] += weight * (float64(v) - 127.5)
		}
	}
	out := data.NewPicture(side, side)
	for i, v := range sum {
		out.Pix[i] = byte(min(max(127.5+1.5*v, 0), 255))
	}
	return out
}

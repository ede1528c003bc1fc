package labeling

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"assay/data"
)

// guard knows pictures of benchmarks by their perceptual hashes.
type guard struct {
	distance int
	hashes   []Hash
	names    []string // where each is
}

// find returns the benchmark picture that a hash belongs to.
func (g *guard) find(h Hash) (name string, distance int, ok bool) {
	best := g.distance + 1
	if !h.Telling() {
		return "", 0, false
	}
	for i, k := range g.hashes {
		if d := h.Distance(k); d < best {
			best, name = d, g.names[i]
		}
	}
	return name, best, best <= g.distance
}

var pictureFile = map[string]bool{".png": true, ".jpg": true, ".jpeg": true, ".webp": true, ".gif": true, ".bmp": true, ".tif": true, ".tiff": true}

// openGuard hashes every picture in folders: picture files, and the pictures inside Parquet and JSON tables. What cannot be
// read is passed to bad.
func openGuard(ctx context.Context, c GuardConfig, bad func(name string, err error)) (*guard, error) {
	g := &guard{distance: c.Distance}
	var paths []string
	for _, folder := range c.Folders {
		err := filepath.WalkDir(folder, func(p string, e fs.DirEntry, err error) error {
			ext := strings.ToLower(filepath.Ext(p))
			if err == nil && !e.IsDir() && (pictureFile[ext] || ext == ".parquet" || ext == ".jsonl") {
				paths = append(paths, p)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
	}
	var mu sync.Mutex
	add := func(name string, m data.Image) {
		p, err := m.Open("", data.Limits{})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			bad(name, err)
		} else if h := PerceptualHash(p); h.Telling() {
			g.hashes, g.names = append(g.hashes, h), append(g.names, name)
		}
	}
	tokens := make(chan struct{}, runtime.GOMAXPROCS(0))
	var busy sync.WaitGroup
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			break
		}
		tokens <- struct{}{}
		busy.Go(func() {
			defer func() { <-tokens }()
			if pictureFile[strings.ToLower(filepath.Ext(p))] {
				add(p, data.Image{Path: p})
			} else if err := tablePictures(ctx, p, add); err != nil {
				mu.Lock()
				defer mu.Unlock()
				bad(p, err)
			}
		})
	}
	busy.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.sort()
	return g, nil
}

// sort puts the pictures in an order that does not depend on which was hashed first.
func (g *guard) sort() {
	order := make([]int, len(g.names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(g.names[a], g.names[b]) })
	sorted := guard{distance: g.distance}
	for _, i := range order {
		sorted.hashes, sorted.names = append(sorted.hashes, g.hashes[i]), append(sorted.names, g.names[i])
	}
	*g = sorted
}

// tablePictures calls add for every picture that lies inside a table. Those that a table names by their paths are files,
// found as such.
func tablePictures(ctx context.Context, path string, add func(string, data.Image)) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return err
	}
	t, err := data.OpenTable(path, data.WithRequired())
	if err != nil {
		return err
	}
	defer t.Close()
	row := 0
	for rec, err := range t.Records() {
		row++
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, f := range rec.Fields {
			if m, err := data.ToImage(f.Value); err == nil && len(m.Bytes) > 0 {
				add(fmt.Sprintf("%s: row %d, %s", path, row, f.Name), m)
			}
		}
	}
	return nil
}

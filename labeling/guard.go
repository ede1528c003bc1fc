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
	"assay/heuristics"
)

// guard knows the pictures of benchmarks.
type guard struct {
	distance int
	pictures []guarded // sorted by names
}

// guarded is a picture of a benchmark.
type guarded struct {
	name   string // where it is
	pixels string
	look   Thumbnail
}

// leak is the benchmark picture that a picture shows.
type leak struct {
	name     string
	distance int // of their hashes, in bits
}

var pictureFile = map[string]bool{".png": true, ".jpg": true, ".jpeg": true, ".webp": true, ".gif": true, ".bmp": true,
	".tif": true, ".tiff": true}

// openGuard looks at every picture in folders: picture files, and the pictures inside Parquet and JSON-lines tables.
// What cannot be read is passed to bad.
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
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			bad(name, err)
			return
		}
		seen := guarded{name, pixelsName(p.Digest()), ThumbnailOf(p)}
		mu.Lock()
		defer mu.Unlock()
		g.pictures = append(g.pictures, seen)
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
	slices.SortFunc(g.pictures, func(a, b guarded) int { return strings.Compare(a.name, b.name) })
	return g, nil
}

// tablePictures calls add for every picture that lies inside a table. Those that a table names by their paths are
// files, found as such.
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

// leak says which picture of a row shows one of a benchmark, if any does.
func (m *merger) leak(r *row) string {
	for p := range r.pictures() {
		l, ok := m.leaked[m.pictureNode(p)]
		if !ok && (p != &r.Edit || r.Kind != heuristics.Output) {
			l, ok = m.blank[p.Pixels]
		}
		if !ok {
			continue
		}
		what := "source"
		if p == r.Target {
			what = "target"
		} else if p == &r.Edit {
			what = "edited"
		}
		return fmt.Sprintf("its %s picture is %s (%d bits apart)", what, l.name, l.distance)
	}
	return ""
}

package labeling

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/data"
	"assay/internal/workers"
)

// guard knows the pictures of benchmarks.
type guard struct {
	distance int
	pictures []guarded // sorted by names
}

// guarded is a picture of a benchmark.
type guarded struct {
	name      string // where it is
	pixels    string
	thumbnail Thumbnail
}

// leak is the benchmark picture that a picture shows.
type leak struct {
	name     string
	distance int // of their hashes, in bits
}

// openGuard looks at every picture in folders: picture files, and the pictures inside Parquet and JSON tables. What
// cannot be read is passed to bad, and so are files that may hold pictures and are not looked into.
func openGuard(ctx context.Context, c GuardConfig, bad func(name string, err error)) (*guard, error) {
	g := &guard{distance: c.Distance}
	var paths []string
	for _, folder := range c.Folders {
		files, err := guardFiles(folder, bad)
		if err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
		paths = append(paths, files...)
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
		seen := guarded{name, pixelsName(p.Digest()), thumbnailOf(p)}
		mu.Lock()
		defer mu.Unlock()
		g.pictures = append(g.pictures, seen)
	}
	workers.Do(len(paths), func(i int) {
		p := paths[i]
		if ctx.Err() != nil {
			return
		}
		if !tableFile[strings.ToLower(filepath.Ext(p))] {
			add(p, data.Image{Path: p})
		} else if err := tablePictures(ctx, p, add); err != nil {
			mu.Lock()
			defer mu.Unlock()
			bad(p, err)
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(g.pictures) == 0 {
		for _, folder := range c.Folders {
			bad(folder, errNone)
		}
	}
	slices.SortFunc(g.pictures, func(a, b guarded) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.pixels, b.pixels))
	})
	return g, nil
}

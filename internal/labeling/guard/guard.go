// Package guard finds the pictures of benchmarks in folders, so that none of them is used for training:
//
//	files.go    which files hold pictures, and which are reported because their content is unknown
//	inside.go   pictures inside tables: binary cells, base64, data URLs, in lists, objects and JSON text
//	guard.go    decodes each picture, with its digest and its thumbnail for the search for near copies
package guard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/data"
	"assay/internal/labeling/nearcopy"
	"assay/internal/workers"
)

// Picture is a picture of a benchmark.
type Picture struct {
	Name      string   // its file, with row and column in a table
	Pixels    [32]byte // data.Picture.Digest
	Thumbnail nearcopy.Thumbnail
}

// Pictures reads every picture in folders: picture files, and the pictures inside Parquet, JSON and CSV tables. The
// result is sorted by name. Unreadable files and pictures are passed to bad, and so are files that may hold pictures
// but are not searched. bad is called by one goroutine at a time.
func Pictures(ctx context.Context, folders []string, bad func(name string, err error)) ([]Picture, error) {
	var paths []string
	for _, folder := range folders {
		files, err := guardFiles(folder, bad)
		if err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
		paths = append(paths, files...)
	}
	var pictures []Picture
	var mu sync.Mutex
	add := func(name string, m data.Image) {
		p, err := m.Open("", data.Limits{})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			bad(name, err)
			return
		}
		seen := Picture{name, p.Digest(), nearcopy.ThumbnailOf(p)}
		mu.Lock()
		defer mu.Unlock()
		pictures = append(pictures, seen)
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
	if len(pictures) == 0 {
		for _, folder := range folders {
			bad(folder, errNone)
		}
	}
	slices.SortFunc(pictures, func(a, b Picture) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.Pixels[:], b.Pixels[:]))
	})
	return pictures, nil
}

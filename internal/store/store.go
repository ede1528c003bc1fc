// Package store caches computed values in a folder across processes: image features, hidden states, embeddings,
// measurements. A record is addressed only by content: the kind of value (the bucket's kind), the fingerprint of the
// model (weights and configuration), and the digest of the input's pixels, bytes or text. File names are not part of
// the address, so no record can be stale.
//
// The folder's size is limited: the least recently used records are removed first. Several processes may use it at
// once and see each other's records. A process may be killed at any time, and the disk may damage any byte: every
// record is verified when it is read, and a damaged one is treated as missing. If the folder cannot be written, or
// the disk is full, [Options].Warn is called once with the name of the file, and nothing more is stored.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a store.
type Options struct {
	Limit int64             // bytes of the entire folder; 0: DefaultLimit
	Warn  func(text string) // called once if nothing more can be stored; may be nil
}

// DefaultLimit is the limit of a folder for which none is given.
const DefaultLimit = 20 << 30

// Store is an open folder. It is safe for concurrent use.
type Store struct {
	folder string
	limit  int64
	warn   func(text string)

	mu       sync.Mutex // guards buckets; never locked while a bucket's is held
	buckets  map[[2]string]*Bucket
	warned   sync.Once
	disabled atomic.Bool // the folder cannot be written: Remember does nothing
}

// segmentsPerStore is the number of segments in a full folder: eviction removes about one at a time.
const segmentsPerStore = 16

// Open opens a folder, which is created with the first record. For [Bucket.Remember] it is not an error if the folder
// cannot be created or written: see the package comment.
func Open(folder string, o Options) (*Store, error) {
	o.Limit = cmp.Or(o.Limit, DefaultLimit)
	if o.Limit < 0 {
		return nil, fmt.Errorf("store %s: the limit is %d bytes, want a positive number", folder, o.Limit)
	}
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("store %s: it is a file, want a folder", folder)
	}
	return &Store{folder: folder, limit: o.Limit, warn: o.Warn, buckets: map[[2]string]*Bucket{}}, nil
}

// Folder returns the folder of the store.
func (s *Store) Folder() string { return s.folder }

// Close closes the files.
func (s *Store) Close() error {
	var errs []error
	for _, b := range s.open() {
		errs = append(errs, b.close())
	}
	return errors.Join(errs...)
}

func (s *Store) open() []*Bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.buckets))
}

// warnOnce warns once that nothing can be stored.
func (s *Store) warnOnce(err error) {
	s.warned.Do(func() {
		if s.warn != nil {
			s.warn(
				fmt.Sprintf("%v: results cannot be cached in %s and will be recomputed the next time",
					err, s.folder),
			)
		}
	})
}

// evict removes the least recently used segments until this many more bytes fit. Segments that a process is writing
// to stay, so a folder may exceed its limit by a sixteenth for each such process.
func (s *Store) evict(bytes int64) error {
	files, err := segmentFiles(s.folder)
	if err != nil {
		return err
	}
	total := bytes
	for _, f := range files {
		total += f.size
	}
	slices.SortFunc(files, byUse)
	for _, f := range files {
		if total <= s.limit {
			break
		}
		if s.drop(f.path) {
			total -= f.size
		}
	}
	return nil
}

// drop removes a segment unless a process is writing to it.
func (s *Store) drop(path string) bool {
	if !removeSegment(path) {
		return false
	}
	for _, b := range s.open() {
		b.forget(path)
	}
	return true
}

// segmentFile is a segment of a folder.
type segmentFile struct {
	path        string
	kind, model string // names of the folders that contain it
	size        int64
	used        time.Time
}

// byUse orders segments by last use, oldest first.
func byUse(a, b segmentFile) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) }

// segmentFiles lists the segments of all buckets of a folder.
func segmentFiles(folder string) ([]segmentFile, error) {
	var files []segmentFile
	kinds, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		models, err := os.ReadDir(filepath.Join(folder, kind.Name()))
		if err != nil { // a file, or removed since
			continue
		}
		for _, model := range models {
			names, err := os.ReadDir(filepath.Join(folder, kind.Name(), model.Name()))
			if err != nil {
				continue
			}
			for _, e := range names {
				info, err := e.Info()
				if err != nil || filepath.Ext(e.Name()) != segmentExt || !info.Mode().IsRegular() {
					continue
				}
				path := filepath.Join(folder, kind.Name(), model.Name(), e.Name())
				files = append(files, segmentFile{path, kind.Name(), model.Name(), info.Size(), info.ModTime()})
			}
		}
	}
	return files, nil
}

package encoders

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Cache keeps embeddings in a folder, by what they are of and by which encoder made them, so that no picture and no text is
// encoded twice, in this process or a later one. Several processes may use one folder; each sees what was there when it
// opened it. When the folder exceeds its limit, the files that went unused longest are removed.
type Cache struct {
	folder string
	limit  int64

	mu      sync.Mutex
	shelves map[string]*shelf
}

// shelf is one encoder's part of a cache: its own folder.
type shelf struct {
	cache    *Cache
	folder   string
	segments []*segment
	own      *segment // the one that is written to; nil before the first time
	index    map[key]place
}

type place struct {
	segment *segment
	offset  int64
}

// segments in a full cache; one is removed at a time
const segmentsOfLimit = 16

// OpenCache opens a folder, or makes it. limit is in bytes; an embedding takes about 4 bytes for each of its numbers.
func OpenCache(folder string, limit int64) (*Cache, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("cache %s: a limit of %d bytes holds nothing", folder, limit)
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Cache{folder: folder, limit: limit, shelves: map[string]*shelf{}}, nil
}

// shelf opens the part of the encoder with that fingerprint.
func (c *Cache) shelf(fingerprint string) (*shelf, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shelves[fingerprint]; s != nil {
		return s, nil
	}
	s := &shelf{cache: c, folder: filepath.Join(c.folder, fingerprint), index: map[key]place{}}
	paths, err := filepath.Glob(filepath.Join(s.folder, "*"+segmentExt))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		seg := &segment{}
		opened, err := openSegment(path, func(k key, offset int64) { s.index[k] = place{seg, offset} })
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process was quicker to remove it
		} else if err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
		*seg = *opened
		s.segments = append(s.segments, seg)
	}
	c.shelves[fingerprint] = s
	return s, nil
}

// get returns what is known of a key, or nil.
func (s *shelf) get(k key) []float32 {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	p, ok := s.index[k]
	if !ok {
		return nil
	}
	v := p.segment.read(k, p.offset)
	if v == nil {
		delete(s.index, k)
	}
	return v
}

// put remembers an embedding.
func (s *shelf) put(k key, v []float32) error {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if err := s.room(); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	offset, err := s.own.append(k, v)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	s.index[k] = place{s.own, offset}
	return nil
}

// room finds a segment to write to: ours while it is not full, one that another process left, or a new one.
func (s *shelf) room() error {
	most := s.cache.limit / segmentsOfLimit
	if s.own != nil && s.own.size < most {
		return nil
	}
	s.own = nil
	for _, seg := range s.segments {
		if seg.size < most && seg.lock() && seg.grown() == nil {
			s.own = seg
			return nil
		}
	}
	seg, err := newSegment(s.folder)
	if err != nil {
		return err
	}
	s.own, s.segments = seg, append(s.segments, seg)
	return s.cache.shrink()
}

// grown refuses a segment that another process continued after it was opened here, or removed.
func (s *segment) grown() error {
	again, err := openSegment(s.Name(), func(key, int64) {})
	if err != nil {
		return err
	}
	defer again.Close()
	if again.size != s.size {
		return errors.New("grown")
	}
	return nil
}

// shrink removes the segments of the folder that were used longest ago until a full one more fits.
func (c *Cache) shrink() error {
	paths, err := filepath.Glob(filepath.Join(c.folder, "*", "*"+segmentExt))
	if err != nil {
		return err
	}
	type old struct {
		path string
		size int64
		used time.Time
	}
	var all []old
	total := c.limit / segmentsOfLimit
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			all = append(all, old{p, info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b old) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, o := range all {
		if total <= c.limit {
			break
		}
		if c.drop(o.path) {
			total -= o.size
		}
	}
	return nil
}

// drop removes a segment, unless something is being written to it here.
func (c *Cache) drop(path string) bool {
	for _, s := range c.shelves {
		if s.own != nil && s.own.Name() == path {
			return false
		}
		for i, seg := range s.segments {
			if seg.Name() != path {
				continue
			}
			for k, p := range s.index {
				if p.segment == seg {
					delete(s.index, k)
				}
			}
			seg.Close()
			s.segments = slices.Delete(s.segments, i, i+1)
			break
		}
	}
	return os.Remove(path) == nil
}

// Close closes the files.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.shelves {
		for _, seg := range s.segments {
			errs = append(errs, seg.Close())
		}
	}
	clear(c.shelves)
	return errors.Join(errs...)
}

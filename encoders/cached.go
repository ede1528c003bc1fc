package encoders

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"assay/data"
)

// Cached is a model that encodes every distinct picture and text once.
type Cached struct {
	model          *Model
	shelf          *shelf
	encoded, found atomic.Int64

	mu    sync.Mutex
	files map[string]key // what the pictures of files are, so that a source of many edits is decoded once
}

var _ Encoder = (*Cached)(nil)

// mostFiles bounds the memory of file names; when it is reached all are forgotten.
const mostFiles = 1 << 18

// NewCached puts a cache before a model. Closing the two stays with their owner.
func NewCached(m *Model, c *Cache) (*Cached, error) {
	s, err := c.shelf(m.Fingerprint())
	if err != nil {
		return nil, err
	}
	return &Cached{model: m, shelf: s, files: map[string]key{}}, nil
}

// HasTexts reports whether the model has a text tower.
func (c *Cached) HasTexts() bool { return c.model.HasTexts() }

// Fingerprint identifies the model.
func (c *Cached) Fingerprint() string { return c.model.Fingerprint() }

// Counts returns how many pictures and texts were encoded, and how many were known: by an earlier run, or because they came
// again.
func (c *Cached) Counts() (encoded, found int64) { return c.encoded.Load(), c.found.Load() }

// Images implements Encoder.
func (c *Cached) Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error) {
	w := c.start(len(pictures))
	return whole(w.embed(func() ([][]float32, []error, error) {
		return c.model.look(ctx, len(pictures), func(i int) (*data.Picture, error) { return w.unlessKnown(i, pictures[i]), nil })
	}))
}

// Files is Images of picture files; see Model.Files.
func (c *Cached) Files(ctx context.Context, folder string, images []data.Image) (embeddings [][]float32, problems []error, err error) {
	w := c.start(len(images))
	return w.embed(func() ([][]float32, []error, error) {
		return c.model.look(ctx, len(images), func(i int) (*data.Picture, error) {
			name := fileName(folder, images[i])
			if k, ok := c.file(name); ok && w.known(i, k) {
				return nil, nil
			}
			p, err := images[i].Open(folder, data.Limits{})
			if err != nil {
				return nil, err
			}
			c.setFile(name, pictureKey(p))
			return w.unlessKnown(i, p), nil
		})
	})
}

// Texts implements Encoder.
func (c *Cached) Texts(ctx context.Context, texts []string) ([][]float32, error) {
	return whole(c.captions(ctx, texts))
}

// captions is Texts; problems[i] says why text i has no embedding.
func (c *Cached) captions(ctx context.Context, texts []string) ([][]float32, []error, error) {
	w := c.start(len(texts))
	return w.embed(func() ([][]float32, []error, error) {
		var todo []int
		for i, t := range texts {
			if !w.known(i, sha256.Sum256([]byte("text\x00"+t))) {
				todo = append(todo, i)
			}
		}
		out, problems := make([][]float32, len(texts)), make([]error, len(texts))
		part := make([]string, len(todo))
		for k, i := range todo {
			part[k] = texts[i]
		}
		got, bad, err := c.model.read(ctx, part)
		if err != nil {
			return nil, nil, err
		}
		for k, i := range todo {
			out[i], problems[i] = got[k], bad[k]
		}
		return out, problems, nil
	})
}

// work is one call's pictures or texts: which are known, and which are the same.
type work struct {
	c     *Cached
	mu    sync.Mutex
	keys  []key
	out   [][]float32
	first map[key]int // of the unknown: the one that is encoded
	same  []int       // of every entry: the one that is encoded for it, -1 if it is known
}

func (c *Cached) start(n int) *work {
	return &work{c: c, keys: make([]key, n), out: make([][]float32, n), first: map[key]int{}, same: slices.Repeat([]int{-1}, n)}
}

// known notes what entry i is and reports whether its embedding is there or will be.
func (w *work) known(i int, k key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[i] = k
	if at, again := w.first[k]; again && at != i {
		w.same[i] = at
		return true
	}
	if w.out[i] = w.c.shelf.get(k); w.out[i] != nil {
		return true
	}
	w.first[k], w.same[i] = i, i
	return false
}

func (w *work) unlessKnown(i int, p *data.Picture) *data.Picture {
	if w.known(i, pictureKey(p)) {
		return nil
	}
	return p
}

// embed encodes what known did not know, remembers it and gives every entry its embedding.
func (w *work) embed(encode func() ([][]float32, []error, error)) ([][]float32, []error, error) {
	got, problems, err := encode()
	if err != nil {
		return nil, nil, err
	}
	for i, at := range w.same {
		if at == i && problems[i] == nil {
			w.c.encoded.Add(1)
			w.out[i] = got[i]
			if err := w.c.shelf.put(w.keys[i], got[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	for i, at := range w.same {
		if at == i || problems[i] != nil {
			continue
		}
		if at >= 0 {
			w.out[i], problems[i] = w.out[at], problems[at]
		}
		w.c.found.Add(1)
	}
	return w.out, problems, nil
}

func pictureKey(p *data.Picture) key {
	h := sha256.New()
	size := binary.LittleEndian.AppendUint64([]byte("picture\x00"), uint64(p.Width))
	h.Write(binary.LittleEndian.AppendUint64(size, uint64(p.Height)))
	h.Write(p.Pix)
	return key(h.Sum(nil))
}

// fileName identifies a picture file without decoding it: by its bytes, or by name, size and time.
func fileName(folder string, m data.Image) string {
	if len(m.Bytes) > 0 {
		sum := sha256.Sum256(m.Bytes)
		return string(sum[:])
	}
	path := m.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
}

func (c *Cached) file(name string) (key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.files[name]
	return k, ok
}

func (c *Cached) setFile(name string, k key) {
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.files) >= mostFiles {
		clear(c.files)
	}
	c.files[name] = k
}

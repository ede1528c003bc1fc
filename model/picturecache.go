package model

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"sync"

	"assay/checkpoints"
	"assay/data"
	"assay/onnx"
)

// pictureCache keeps recently prepared pictures with their image features, up to a number of bytes, by the content of the
// picture: a frozen vision tower runs once per distinct picture. With a folder the features are kept there, unbounded, and
// outlive the process.
type pictureCache struct {
	mu     sync.Mutex
	limit  int64
	used   int64
	items  map[string]*list.Element
	order  *list.List          // most recently used first
	pairs  map[string][]string // key of a pair -> keys of its pictures
	folder string              // "": memory only
}

// mostPairs bounds the memory of pair keys; when it is reached all are forgotten.
const mostPairs = 1 << 20

func newPictureCache(limit int64, folder string) *pictureCache {
	return &pictureCache{limit: limit, folder: folder, items: map[string]*list.Element{}, order: list.New(), pairs: map[string][]string{}}
}

// digest identifies what the backbone is shown.
func digest(frames []*data.Picture) string {
	h := sha256.New()
	for _, p := range frames {
		var size [16]byte
		binary.LittleEndian.PutUint64(size[:8], uint64(p.Width))
		binary.LittleEndian.PutUint64(size[8:], uint64(p.Height))
		h.Write(size[:])
		h.Write(p.Pix)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}

func (c *pictureCache) get(key string) *Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.touch(key)
}

func (c *pictureCache) touch(key string) *Picture {
	e := c.items[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*Picture)
}

// pair returns the pictures of a pair if all of them are still there.
func (c *pictureCache) pair(key string) []*Picture {
	if key == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Picture
	for _, k := range c.pairs[key] {
		p := c.touch(k)
		if p == nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

func (c *pictureCache) putPair(key string, pictures []*Picture) {
	if key == "" {
		return
	}
	keys := make([]string, len(pictures))
	for i, p := range pictures {
		keys[i] = p.key
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pairs) >= mostPairs {
		clear(c.pairs)
	}
	c.pairs[key] = keys
}

func (p *Picture) bytes() int64 { return 4 * int64(len(p.features)+len(p.Pixels)) }

// put remembers a picture; its owner must not change it any more.
func (c *pictureCache) put(p *Picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.key == "" || c.items[p.key] != nil || p.bytes() > c.limit {
		return
	}
	c.items[p.key] = c.order.PushFront(p)
	c.used += p.bytes()
	for c.used > c.limit {
		old := c.order.Remove(c.order.Back()).(*Picture)
		delete(c.items, old.key)
		c.used -= old.bytes()
	}
}

func (c *pictureCache) file(key string) string {
	return filepath.Join(c.folder, key[:2], key+".features")
}

// load reads features [tokens, hidden] that an earlier process left in the folder; nil if there are none that fit.
func (c *pictureCache) load(key string, values int) []float32 {
	if c.folder == "" {
		return nil
	}
	raw, err := os.ReadFile(c.file(key))
	if err != nil || len(raw) != 4*values {
		return nil
	}
	f, err := checkpoints.Float32s(onnx.Float, raw)
	if err != nil {
		return nil
	}
	return f
}

func (c *pictureCache) store(key string, features []float32) error {
	if c.folder == "" {
		return nil
	}
	path := c.file(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return checkpoints.WriteAtomic(path, func(w io.Writer) error {
		_, err := w.Write(onnx.Float32Bytes(features))
		return err
	})
}

package model

import (
	"container/list"
	"sync"
	"weak"

	"assay/data"
	"assay/store"
)

// pictureCache keeps recently prepared pictures with their image features, up to a number of bytes, by the content of
// the picture: a frozen vision tower runs once per distinct picture.
type pictureCache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items map[store.Key]*list.Element
	order *list.List            // most recently used first
	pairs map[string]cachedPair // by the key of a pair

	recent map[store.Key]weak.Pointer[Picture] // prepared, and still held by somebody
}

// cachedPair is what is known of a pair, whether its pictures are still there or not.
type cachedPair struct {
	pictures []store.Key
	tokens   []int // of each picture
}

// mostPairs bounds the memory of pair keys; when it is reached all are forgotten.
const mostPairs = 1 << 20

func newPictureCache(limit int64) *pictureCache {
	c := &pictureCache{limit: limit}
	c.clear()
	return c
}

// clear forgets all pictures.
func (c *pictureCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items, c.order, c.pairs, c.used = map[store.Key]*list.Element{}, list.New(), map[string]cachedPair{}, 0
	c.recent = map[store.Key]weak.Pointer[Picture]{}
}

// digest identifies what the backbone is shown: a picture, or the frames of a pair.
func digest(frames []*data.Picture) store.Key {
	var parts []string
	for _, p := range frames {
		sum := p.Digest()
		parts = append(parts, string(sum[:]))
	}
	return store.KeyOf(parts...)
}

func (c *pictureCache) get(key store.Key) *Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.touch(key)
}

// mostRecent bounds the memory of keys of pictures that nobody holds any more.
const mostRecent = 1 << 12

// prepared returns a picture that was prepared before, if anybody still has it; its pixels are not to be changed. The
// edits of a group come one after the other, each with its source.
func (c *pictureCache) prepared(key store.Key) *Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.recent[key].Value()
	if p == nil {
		return nil
	}
	return p.twin()
}

// twin is the picture without features, which come and go: see visionFeatures.fill.
func (p *Picture) twin() *Picture {
	return &Picture{
		Height: p.Height,
		Width:  p.Width,
		Pixels: p.Pixels,
		Rows:   p.Rows,
		Seen:   p.Seen,
		Tokens: p.Tokens,
		Layout: p.Layout,
		key:    p.key,
	}
}

func (c *pictureCache) remember(p *Picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= mostRecent {
		clear(c.recent)
	}
	c.recent[p.key] = weak.Make(p)
}

func (c *pictureCache) touch(key store.Key) *Picture {
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
	for _, k := range c.pairs[key].pictures {
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
	keys := make([]store.Key, len(pictures))
	for i, p := range pictures {
		keys[i] = p.key
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pairs) >= mostPairs {
		clear(c.pairs)
	}
	c.pairs[key] = cachedPair{keys, pictureTokens(pictures)}
}

// tokens are those of each picture of a pair, as they were when they were prepared; nil: they are not known.
func (c *pictureCache) tokens(key string) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pairs[key].tokens
}

func (p *Picture) bytes() int64 { return 4 * int64(len(p.features)+len(p.Pixels)) }

// put remembers a picture; its owner must not change it any more.
func (c *pictureCache) put(p *Picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.key == (store.Key{}) || c.items[p.key] != nil || p.bytes() > c.limit {
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

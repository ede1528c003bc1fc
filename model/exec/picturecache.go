package exec

import (
	"container/list"
	"sync"
	"weak"

	"assay/data"
	"assay/internal/store"
	"assay/model/backbone"
)

// PictureCache keeps recently prepared pictures with their image features, up to a number of bytes, by the content of
// the picture: a frozen vision tower runs once per distinct picture.
type PictureCache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items map[store.Key]*list.Element
	order *list.List               // most recently used first
	edits map[store.Key]cachedEdit // by ScorerConfig.cacheKey

	recent map[store.Key]weak.Pointer[backbone.Picture] // prepared, and still referenced
}

// cachedEdit describes an edit, whether or not its pictures are still cached.
type cachedEdit struct {
	pictures []store.Key
	tokens   []int // of each picture
}

// maxEdits bounds the memory of keys of edits; when it is reached, all are dropped.
const maxEdits = 1 << 20

func newPictureCache(limit int64) *PictureCache {
	c := &PictureCache{limit: limit}
	c.clear()
	return c
}

// clear drops all pictures.
func (c *PictureCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items, c.order, c.used = map[store.Key]*list.Element{}, list.New(), 0
	c.edits = map[store.Key]cachedEdit{}
	c.recent = map[store.Key]weak.Pointer[backbone.Picture]{}
}

// PictureKey identifies the backbone's visual input: a picture, or two frames.
func PictureKey(frames []*data.Picture) store.Key {
	var parts []string
	for _, p := range frames {
		sum := p.Digest()
		parts = append(parts, string(sum[:]))
	}
	return store.KeyOf(parts...)
}

// Get returns the picture of a key; nil if it is not cached.
func (c *PictureCache) Get(key store.Key) *backbone.Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.touch(key)
}

// maxRecent bounds the memory of keys of pictures that are no longer referenced.
const maxRecent = 1 << 12

// Prepared returns a picture that was prepared before, if it is still referenced; its pixels must not be changed. The
// edits of a group arrive one after the other, each with its source.
func (c *PictureCache) Prepared(key store.Key) *backbone.Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.recent[key].Value()
	if p == nil {
		return nil
	}
	return p.Twin()
}

// Remember records a prepared picture for as long as it is referenced: see Prepared.
func (c *PictureCache) Remember(p *backbone.Picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= maxRecent {
		clear(c.recent)
	}
	c.recent[p.Key] = weak.Make(p)
}

func (c *PictureCache) touch(key store.Key) *backbone.Picture {
	e := c.items[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*backbone.Picture)
}

// OfEdit returns the pictures of an edit if all of them are still cached.
func (c *PictureCache) OfEdit(key store.Key) []*backbone.Picture {
	if key == (store.Key{}) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*backbone.Picture
	for _, k := range c.edits[key].pictures {
		p := c.touch(k)
		if p == nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// PutEdit records the pictures of an edit: see OfEdit.
func (c *PictureCache) PutEdit(key store.Key, pictures []*backbone.Picture) {
	if key == (store.Key{}) {
		return
	}
	keys := make([]store.Key, len(pictures))
	for i, p := range pictures {
		keys[i] = p.Key
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.edits) >= maxEdits {
		clear(c.edits)
	}
	c.edits[key] = cachedEdit{keys, backbone.PictureTokens(pictures)}
}

// Tokens returns the token counts of an edit's pictures, recorded when they were prepared; nil: not known.
func (c *PictureCache) Tokens(key store.Key) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.edits[key].tokens
}

// Put caches a picture; its owner must no longer change it.
func (c *PictureCache) Put(p *backbone.Picture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Key == (store.Key{}) || c.items[p.Key] != nil || p.Bytes() > c.limit {
		return
	}
	c.items[p.Key] = c.order.PushFront(p)
	c.used += p.Bytes()
	for c.used > c.limit {
		old := c.order.Remove(c.order.Back()).(*backbone.Picture)
		delete(c.items, old.Key)
		c.used -= old.Bytes()
	}
}

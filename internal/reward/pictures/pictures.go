// Package pictures caches decoded pictures for later requests.
package pictures

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"assay/data"
)

// Cache keeps recently decoded pictures by the digest of their encoded bytes, up to a number of bytes. The edits of a
// group and their sources arrive in many requests, and are decoded once. Callers must not modify a picture.
type Cache struct {
	limit int64
	found func(cached bool)

	mu   sync.Mutex
	held int64
	at   map[[sha256.Size]byte]*list.Element // of *cachedPicture
	used *list.List                          // most recently used first
}

// cachedPicture is a picture that is decoded or being decoded.
type cachedPicture struct {
	key     [sha256.Size]byte
	done    chan struct{}
	picture *data.Picture
	err     error
	bytes   int64
}

// NewCache returns a cache of at most limit bytes of pixels. found is called for each requested picture.
func NewCache(limit int64, found func(cached bool)) *Cache {
	return &Cache{limit: limit, found: found, at: map[[sha256.Size]byte]*list.Element{},
		used: list.New()}
}

// Get returns a picture, and calls decode if it is not cached. It waits for a picture that is already being decoded.
func (c *Cache) Get(
	ctx context.Context, key [sha256.Size]byte, decode func() (*data.Picture, error),
) (p *data.Picture, cached bool, err error) {
	for {
		c.mu.Lock()
		e := c.at[key]
		if e == nil {
			break
		}
		c.used.MoveToFront(e)
		c.mu.Unlock()
		one := e.Value.(*cachedPicture)
		select {
		case <-one.done:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		if one.err == nil {
			c.found(true)
			return one.picture, true, nil
		}
	}
	one := &cachedPicture{key: key, done: make(chan struct{})}
	e := c.used.PushFront(one)
	c.at[key] = e
	c.mu.Unlock()
	c.found(false)
	one.err = errPanic
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(e)
	}()
	one.picture, one.err = decode()
	return one.picture, false, one.err
}

// errPanic is the error that other callers see if the decoding panicked: they then try it themselves.
var errPanic = errors.New("the decoder panicked")

// end keeps a decoded picture, and drops the least recently used ones above the limit. c.mu is held.
func (c *Cache) end(e *list.Element) {
	one := e.Value.(*cachedPicture)
	close(one.done)
	if one.err != nil { // the error may only concern its request
		c.drop(e)
		return
	}
	one.bytes = int64(len(one.picture.Pix))
	c.held += one.bytes
	for e := c.used.Back(); e != nil && c.held > c.limit; {
		before := e.Prev()
		if e.Value.(*cachedPicture).bytes > 0 { // otherwise it is being decoded
			c.drop(e)
		}
		e = before
	}
}

// drop removes a picture. c.mu is held.
func (c *Cache) drop(e *list.Element) {
	one := e.Value.(*cachedPicture)
	c.used.Remove(e)
	delete(c.at, one.key)
	c.held -= one.bytes
}

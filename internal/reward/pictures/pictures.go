// Package pictures keeps decoded pictures for the requests that come next.
package pictures

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"assay/data"
)

// Cache keeps recently decoded pictures by the digest of their encoded bytes, up to a number of bytes. The edits
// of a group and their sources come in many requests, and are decoded once. Nobody changes a picture.
type Cache struct {
	limit int64
	found func(cached bool)

	mu   sync.Mutex
	held int64
	at   map[[sha256.Size]byte]*list.Element // of *cachedPicture
	used *list.List                          // most recently used first
}

// cachedPicture is a picture that is being decoded, or is.
type cachedPicture struct {
	key     [sha256.Size]byte
	done    chan struct{}
	picture *data.Picture
	err     error
	bytes   int64
}

// NewCache makes a cache of so many bytes of pixels. found is told of each picture that is asked for.
func NewCache(limit int64, found func(cached bool)) *Cache {
	return &Cache{limit: limit, found: found, at: map[[sha256.Size]byte]*list.Element{},
		used: list.New()}
}

// Get returns a picture, and calls decode if it is not there. Who asks for one that is being decoded waits for it.
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

// errPanic is what others see of a picture whose decoding panicked: they try it themselves.
var errPanic = errors.New("the decoder panicked")

// end keeps a picture that was decoded, and drops the oldest ones that are too many. c.mu is held.
func (c *Cache) end(e *list.Element) {
	one := e.Value.(*cachedPicture)
	close(one.done)
	if one.err != nil { // it may be that of its request alone
		c.drop(e)
		return
	}
	one.bytes = int64(len(one.picture.Pix))
	c.held += one.bytes
	for e := c.used.Back(); e != nil && c.held > c.limit; {
		before := e.Prev()
		if e.Value.(*cachedPicture).bytes > 0 { // else it is being decoded
			c.drop(e)
		}
		e = before
	}
}

// drop forgets a picture. c.mu is held.
func (c *Cache) drop(e *list.Element) {
	one := e.Value.(*cachedPicture)
	c.used.Remove(e)
	delete(c.at, one.key)
	c.held -= one.bytes
}

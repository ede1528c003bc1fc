package reward

import (
	lists "container/list"
	"context"
	"crypto/sha256"
	"sync"

	"assay/data"
)

// pictureCache keeps recently decoded pictures by the digest of their encoded bytes, up to a number of bytes. The edits
// of a group and their sources come in many requests, and are decoded once. Nobody changes a picture.
type pictureCache struct {
	limit int64
	found func(cached bool) // told of each picture that is asked for

	mu   sync.Mutex
	held int64
	at   map[[sha256.Size]byte]*lists.Element // of *cachedPicture
	used *lists.List                          // most recently used first
}

// cachedPicture is a picture that is being decoded, or is.
type cachedPicture struct {
	key     [sha256.Size]byte
	done    chan struct{}
	picture *data.Picture
	err     error
	bytes   int64
}

func newPictureCache(limit int64, found func(cached bool)) *pictureCache {
	return &pictureCache{limit: limit, found: found, at: map[[sha256.Size]byte]*lists.Element{},
		used: lists.New()}
}

// get returns a picture, and calls decode if it is not there. Who asks for one that is being decoded waits for it.
func (c *pictureCache) get(
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
	one.err = attempt(func() (err error) {
		one.picture, err = decode()
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	close(one.done)
	if one.err != nil { // it may be that of ctx alone
		c.drop(e)
		return nil, false, one.err
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
	return one.picture, false, nil
}

// drop forgets a picture. c.mu is held.
func (c *pictureCache) drop(e *lists.Element) {
	one := e.Value.(*cachedPicture)
	c.used.Remove(e)
	delete(c.at, one.key)
	c.held -= one.bytes
}

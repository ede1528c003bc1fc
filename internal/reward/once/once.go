// Package once runs the work of a request id only once, however often the request is retried.
//
// The first request with an id starts the work; requests that arrive while it is in progress wait for the same
// result; later ones get it from memory, which is limited in bytes and age. A result that may differ the next time,
// such as that of a busy server, is not kept.
package once

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// ErrOther is the error for an id that was used for other work.
var ErrOther = errors.New("this id was used for another request")

// Digest identifies the requested work.
type Digest [32]byte

// Cache keeps results of type T by id.
type Cache[T any] struct {
	bytes int64
	age   time.Duration
	now   func() time.Time

	mu    sync.Mutex
	calls map[string]*Call[T]
	ended list.List // kept *Call[T], oldest first
	held  int64
}

// New returns a cache that keeps results of at most this many bytes in total, each for at most age.
func New[T any](bytes int64, age time.Duration) *Cache[T] {
	return &Cache[T]{bytes: bytes, age: age, now: time.Now, calls: map[string]*Call[T]{}}
}

// Call is work in progress, or its result.
type Call[T any] struct {
	id     string
	digest Digest
	done   chan struct{}
	result T
	size   int64
	ended  time.Time
}

// Begin returns the call of an id. If first is true, the caller does the work and then calls End. The error is
// [ErrOther] if the id was used for other work.
func (c *Cache[T]) Begin(id string, digest Digest) (call *Call[T], first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(0)
	if call := c.calls[id]; call != nil {
		if call.digest != digest {
			return nil, false, ErrOther
		}
		return call, false, nil
	}
	call = &Call[T]{id: id, digest: digest, done: make(chan struct{})}
	c.calls[id] = call
	return call, true, nil
}

// End sets the result of a call, which takes size bytes of memory, and keeps it if keep is set and there is room.
func (c *Cache[T]) End(call *Call[T], result T, size int64, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.result, call.size, call.ended = result, size+overhead, c.now()
	close(call.done)
	if !keep || call.size > c.bytes {
		delete(c.calls, call.id)
		return
	}
	c.forget(call.size)
	c.ended.PushBack(call)
	c.held += call.size
}

// overhead is the memory of a call besides its result.
const overhead = 512

// forget drops results that are too old, and the oldest ones until there is room for more bytes. c.mu is held.
func (c *Cache[T]) forget(more int64) {
	for e := c.ended.Front(); e != nil; e = c.ended.Front() {
		call := e.Value.(*Call[T])
		if c.held+more <= c.bytes && c.now().Sub(call.ended) < c.age {
			return
		}
		c.ended.Remove(e)
		c.held -= call.size
		delete(c.calls, call.id)
	}
}

// Wait waits for the result.
func (call *Call[T]) Wait(ctx context.Context) (result T, err error) {
	select {
	case <-call.done:
		return call.result, nil
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

// Held returns the number of kept results, and their bytes.
func (c *Cache[T]) Held() (results int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended.Len(), c.held
}

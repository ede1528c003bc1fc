package pictures

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"assay/data"
)

// TestCache: a picture is decoded once while it is cached, by the first caller.
func TestCache(t *testing.T) {
	var cached, decoded atomic.Int64
	c := NewCache(3*75, func(hit bool) { // three pictures of 5 x 5 pixels
		if hit {
			cached.Add(1)
		} else {
			decoded.Add(1)
		}
	})
	get := func(key byte) (*data.Picture, error) {
		p, _, err := c.Get(t.Context(), [32]byte{key}, func() (*data.Picture, error) { return data.NewPicture(5, 5), nil })
		return p, err
	}
	expect := func(what string, wantCached, wantDecoded int64) {
		t.Helper()
		if cached.Load() != wantCached || decoded.Load() != wantDecoded || c.held > c.limit {
			t.Errorf("%s: got %d from the cache, %d decoded, %d bytes, want %d, %d", what, cached.Load(), decoded.Load(),
				c.held, wantCached, wantDecoded)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { get(1) })
	}
	all.Wait()
	expect("eight at once", 7, 1)
	for key := range byte(3) {
		get(key + 2)
	}
	get(2)
	expect("three others", 8, 4)
	get(1)
	expect("the oldest again", 8, 5)
	get(2)
	expect("one that was used since", 9, 5)

	// A failure concerns only its own request.
	failed := errors.New("damaged")
	if _, _, err := c.Get(t.Context(), [32]byte{9}, func() (*data.Picture, error) { return nil, failed }); err != failed {
		t.Errorf("got %v, want %v", err, failed)
	}
	if p, err := get(9); p == nil || err != nil {
		t.Errorf("got %v, %v after a failure of another request", p, err)
	}
	func() {
		defer func() { recover() }()
		c.Get(t.Context(), [32]byte{11}, func() (*data.Picture, error) { panic("a bug") })
	}()
	if p, err := get(11); p == nil || err != nil {
		t.Errorf("got %v, %v after a panic in another request", p, err)
	}
	begun, end := make(chan bool), make(chan bool)
	go c.Get(t.Context(), [32]byte{10}, func() (*data.Picture, error) {
		close(begun)
		<-end
		return data.NewPicture(5, 5), nil
	})
	<-begun
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := c.Get(gone, [32]byte{10}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left while another decodes: got %v", err)
	}
	close(end)
}

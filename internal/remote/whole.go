package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"
)

// ErrTooLarge is wrapped by errors for objects that are larger than allowed.
var ErrTooLarge = errors.New("too large")

// maxRequest is the maximum number of bytes per request when a complete object is read.
const maxRequest = 8 << 20

// recent caches small objects that were read recently: the edits of a group share their source, and a picture is read
// once for its digest and once for decoding. Objects are assumed not to change while they are cached.
var recent = struct {
	sync.Mutex
	flight singleflight.Group
	bytes  map[string][]byte
	order  []string // oldest first
	total  int
}{bytes: map[string][]byte{}}

const (
	maxRecent = 64 << 20
	maxKept   = 8 << 20 // largest cached object
)

// ReadAll reads a complete object of at most limit bytes. The bytes are shared and must not be modified.
func ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	recent.Lock()
	raw, ok := recent.bytes[name]
	recent.Unlock()
	if !ok {
		v, err, _ := recent.flight.Do(fmt.Sprint(limit, " ", name), func() (any, error) {
			return ReadAnew(ctx, name, limit)
		})
		if err != nil {
			return nil, err
		}
		raw = v.([]byte)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLarge, limit)
	}
	return raw, nil
}

// ReadAnew is ReadAll, but bypasses the cache.
func ReadAnew(ctx context.Context, name string, limit int64) ([]byte, error) {
	raw, err := readAll(ctx, name, limit)
	if err == nil {
		forget(name)
		remember(name, raw)
	}
	return raw, err
}

func remember(name string, raw []byte) {
	if len(raw) > maxKept {
		return
	}
	recent.Lock()
	defer recent.Unlock()
	if _, ok := recent.bytes[name]; ok { // another goroutine was first
		return
	}
	recent.bytes[name], recent.order, recent.total = raw, append(recent.order, name), recent.total+len(raw)
	for recent.total > maxRecent {
		first := recent.order[0]
		recent.order, recent.total = recent.order[1:], recent.total-len(recent.bytes[first])
		delete(recent.bytes, first)
	}
}

// forget removes an object from the cache because it is written.
func forget(name string) {
	recent.Lock()
	defer recent.Unlock()
	raw, ok := recent.bytes[name]
	if !ok {
		return
	}
	delete(recent.bytes, name)
	recent.total -= len(raw)
	recent.order = slices.DeleteFunc(recent.order, func(k string) bool { return k == name })
}

func readAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, key, err := locate(ctx, name)
	if err != nil {
		return nil, err
	}
	var all []byte
	var whole Info
	for first := true; first || int64(len(all)) < whole.Size; first = false {
		var got Range
		err := retry(ctx, "reading", name, func(ctx context.Context) (err error) {
			if got, err = b.read(ctx, key, int64(len(all)), maxRequest); err != nil {
				return err
			}
			if want := min(maxRequest, got.Info.Size-int64(len(all))); int64(len(got.Bytes)) != want {
				return &Error{Err: fmt.Errorf("got %d of %d bytes", len(got.Bytes), want), kind: passing}
			}
			if !first && !got.Info.same(whole) {
				return errors.New("it changed while it was being read")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if whole = got.Info; whole.Size > limit {
			return nil, fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLarge, limit)
		}
		all = append(all, got.Bytes...)
	}
	return all, nil
}

// ReadFile reads a small file or an object, bypassing the cache.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	if !Is(name) {
		return os.ReadFile(name)
	}
	return readAll(ctx, name, 1<<40)
}

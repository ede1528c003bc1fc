package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// File is an open file or object. Its ReadAt may be called from several goroutines.
type File interface {
	io.Reader
	io.ReaderAt
	io.Seeker
	io.Closer
	Name() string
}

// Open opens a file or an object for reading. Requests for an object end with ctx.
func Open(ctx context.Context, name string) (File, error) {
	if !Is(name) {
		return os.Open(name)
	}
	info, err := Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	b, key, err := locate(ctx, name)
	if err != nil {
		return nil, err
	}
	o := &object{
		ctx:    ctx,
		name:   name,
		key:    key,
		bucket: b,
		info:   info,
		blocks: map[int64][]byte{},
	}
	return &opened{io.NewSectionReader(o, 0, info.Size), o}, nil
}

// Size returns the size of an open file in bytes.
func Size(f File) (int64, error) {
	switch f := f.(type) {
	case *os.File:
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	case *opened:
		return f.Size(), nil
	}
	return 0, fmt.Errorf("%s: its size is unknown", f.Name())
}

// opened is an object with a read position.
type opened struct {
	*io.SectionReader
	object *object
}

func (o *opened) Name() string { return o.object.name }

func (o *opened) Close() error {
	o.object.mutex.Lock()
	defer o.object.mutex.Unlock()
	clear(o.object.blocks)
	o.object.order = nil
	return nil
}

// An object is cached in blocks. Sequential reads fetch several blocks at a time.
const (
	blockBytes = 1 << 20
	ahead      = 8  // blocks per request if the block before was read
	maxBlocks  = 64 // in memory
)

type object struct {
	ctx       context.Context
	name, key string
	bucket    driver
	info      Info

	mutex  sync.Mutex
	blocks map[int64][]byte // by number
	order  []int64          // least recently used first
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, at int64) (n int, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for n < len(p) {
		if at >= o.info.Size {
			return n, io.EOF
		}
		block, err := o.block(at / blockBytes)
		if err != nil {
			return n, err
		}
		k := copy(p[n:], block[at%blockBytes:])
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// block returns a block. If the previous one was also read, it fetches the following ones as well.
func (o *object) block(number int64) ([]byte, error) {
	if b, ok := o.blocks[number]; ok {
		o.use(number)
		return b, nil
	}
	count := int64(1)
	if _, before := o.blocks[number-1]; before {
		count = ahead
	}
	from := number * blockBytes
	most := min(count*blockBytes, o.info.Size-from)
	var got Range
	err := retry(o.ctx, "reading", o.name, func(ctx context.Context) (err error) {
		if got, err = o.bucket.read(ctx, o.key, from, most); err != nil {
			return err
		}
		if !got.Info.same(o.info) {
			return errors.New("it changed while it was being read")
		}
		if int64(len(got.Bytes)) != most {
			return &Error{Err: fmt.Errorf("got %d of %d bytes", len(got.Bytes), most), kind: passing}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for k, rest := number, got.Bytes; len(rest) > 0; k++ {
		n := min(len(rest), blockBytes)
		o.blocks[k], rest = rest[:n:n], rest[n:]
		o.use(k)
	}
	return o.blocks[number], nil
}

// use marks a block as most recently used, and drops the least recently used one above the limit.
func (o *object) use(number int64) {
	o.order = slices.DeleteFunc(o.order, func(k int64) bool { return k == number })
	if o.order = append(o.order, number); len(o.order) > maxBlocks {
		delete(o.blocks, o.order[0])
		o.order = o.order[1:]
	}
}

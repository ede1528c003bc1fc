package model

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"gorgonia.org/tensor"
)

// Cache holds the keys and values of some sequences, each in a slot of its own. The graph reads and writes them where
// they lie. Memory is taken from the system as it is first written to.
type Cache struct {
	slots, capacity int // sequences, and rows of each
	heads, width    int
	layers          [][2]region // keys and values
}

// region is memory of the system's, [slots, heads, capacity, width].
type region struct {
	bytes  []byte
	floats []float32
}

// NewCache returns an empty cache of that many sequences of at most capacity rows.
func (l *LanguageModel) NewCache(slots, capacity int) (*Cache, error) {
	d := l.backbone.Decoder()
	c := &Cache{slots: slots, capacity: capacity, heads: d.KVHeads, width: d.cachedWidth()}
	for range d.Layers {
		var kv [2]region
		for i := range kv {
			var err error
			if kv[i], err = newRegion(slots * c.slot()); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
		c.layers = append(c.layers, kv)
	}
	return c, nil
}

// RowBytes is what a row of a sequence takes in a cache.
func (l *LanguageModel) RowBytes() int64 {
	d := l.backbone.Decoder()
	return int64(d.Layers) * 2 * int64(d.KVHeads) * int64(d.cachedWidth()) * 4
}

func newRegion(n int) (region, error) {
	raw, err := syscall.Mmap(-1, 0, 4*n, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return region{}, fmt.Errorf("%d bytes of memory for keys and values: %w", 4*n, err)
	}
	return region{raw, unsafe.Slice((*float32)(unsafe.Pointer(&raw[0])), n)}, nil
}

// slot is the number of floats of one sequence in a layer's keys.
func (c *Cache) slot() int { return c.heads * c.capacity * c.width }

// Slots and Capacity are the numbers of sequences and of rows that there is room for.
func (c *Cache) Slots() int { return c.slots }

// Capacity is the number of rows that a sequence can have.
func (c *Cache) Capacity() int { return c.capacity }

// at is the memory of a head of a slot.
func (c *Cache) at(r region, slot, head int) []float32 {
	start := (slot*c.heads + head) * c.capacity * c.width
	return r.floats[start : start+c.capacity*c.width]
}

// Copy copies the first rows of a slot of another cache of the same model, or of this one.
func (c *Cache) Copy(to int, from *Cache, slot, rows int) {
	for i := range c.layers {
		for k := range 2 {
			for h := range c.heads {
				copy(c.at(c.layers[i][k], to, h), from.at(from.layers[i][k], slot, h)[:rows*c.width])
			}
		}
	}
}

// Swap exchanges the first rows of two slots.
func (c *Cache) Swap(a, b, rows int) {
	if a == b {
		return
	}
	for i := range c.layers {
		for k := range 2 {
			for h := range c.heads {
				x, y := c.at(c.layers[i][k], a, h)[:rows*c.width], c.at(c.layers[i][k], b, h)[:rows*c.width]
				for j := range x {
					x[j], y[j] = y[j], x[j]
				}
			}
		}
	}
}

// feeds are n slots of every layer from the first on, as inputs and as room for outputs.
func (c *Cache) feeds(first, n int) (in, room map[string]*tensor.Dense) {
	in, room = make(map[string]*tensor.Dense, 2*len(c.layers)), make(map[string]*tensor.Dense, 2*len(c.layers))
	for i, kv := range c.layers {
		for k, what := range []string{"key", "value"} {
			past, present := cacheNames(i, what)
			rows := kv[k].floats[first*c.slot() : (first+n)*c.slot()]
			in[past] = tensor.New(tensor.WithShape(n, c.heads, c.capacity, c.width), tensor.WithBacking(rows))
			room[present] = in[past]
		}
	}
	return in, room
}

// Close gives the memory back.
func (c *Cache) Close() error {
	var errs []error
	for _, kv := range c.layers {
		for _, r := range kv {
			if r.bytes != nil {
				errs = append(errs, syscall.Munmap(r.bytes))
			}
		}
	}
	c.layers = nil
	return errors.Join(errs...)
}

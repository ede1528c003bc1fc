package language

import (
	"errors"
	"fmt"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Cache holds the keys and values of several sequences, one slot each, on the device where the model runs. The graph
// reads and writes them in place.
type Cache struct {
	slots, capacity int // sequences, and rows of each
	heads, width    int
	typ             onnx.DType
	device          string
	layers          [][2]*ort.Memory // keys and values, [slots, heads, capacity, width]
	spare           *ort.Memory      // one slot, for Swap
}

// NewCache returns an empty cache for slots sequences of at most capacity rows each.
func (l *Model) NewCache(slots, capacity int) (*Cache, error) {
	d := l.net.Backbone.Decoder()
	c := &Cache{heads: d.KVHeads, width: d.CachedWidth(), typ: l.net.Computes(), device: l.net.RunsOn()}
	c.layers = make([][2]*ort.Memory, d.Layers)
	if err := c.Resize(slots, capacity, nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// RowBytes is the size of one row of a sequence in a cache.
func (l *Model) RowBytes() int64 {
	d := l.net.Backbone.Decoder()
	return int64(d.Layers) * 2 * int64(d.KVHeads) * int64(d.CachedWidth()) * int64(l.net.Computes().Size())
}

// Slots is the number of sequences that there is room for.
func (c *Cache) Slots() int { return c.slots }

// Capacity is the maximum number of rows of a sequence.
func (c *Cache) Capacity() int { return c.capacity }

// rowBytes is the size of a row of one head.
func (c *Cache) rowBytes() int64 { return int64(c.width) * int64(c.typ.Size()) }

// headBytes is the size of all rows of one head, and slotBytes that of one slot of a layer's keys.
func (c *Cache) headBytes() int64 { return int64(c.capacity) * c.rowBytes() }
func (c *Cache) slotBytes() int64 { return int64(c.heads) * c.headBytes() }

// at is a slot's heads in memory.
func (c *Cache) at(m *ort.Memory, slot int) ort.Blocks {
	return ort.Blocks{In: m, At: int64(slot) * c.slotBytes(), Step: c.headBytes()}
}

// copyHeads copies the first rows of a slot's heads.
func (c *Cache) copyHeads(to, from ort.Blocks, rows int) error {
	return ort.CopyBlocks(to, from, int64(rows)*c.rowBytes(), c.heads)
}

// Kept is the part of a slot that Resize keeps: its first rows.
type Kept struct{ Slot, Rows int }

// Resize changes the shape of the cache. The kept rows become its first slots, in that order. Memory is reallocated
// layer by layer, so that at most one layer's keys or values exist twice. After an error the cache is closed.
func (c *Cache) Resize(slots, capacity int, kept []Kept) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	to := *c
	to.slots, to.capacity = slots, capacity
	for i := range c.layers {
		for k, old := range c.layers[i] {
			m, err := ort.NewMemory(c.device, int64(slots)*to.slotBytes())
			if err != nil {
				return fmt.Errorf("keys and values of %d sequences of %d rows: %w", slots, capacity, err)
			}
			c.layers[i][k] = m
			for n, keep := range kept {
				if err = c.copyHeads(to.at(m, n), c.at(old, keep.Slot), keep.Rows); err != nil {
					break
				}
			}
			if err = errors.Join(err, old.Close()); err != nil {
				return err
			}
		}
	}
	spare, err := ort.NewMemory(c.device, to.slotBytes())
	if err != nil {
		return err
	}
	if err := c.spare.Close(); err != nil {
		return errors.Join(err, spare.Close())
	}
	c.spare, c.slots, c.capacity = spare, slots, capacity
	return nil
}

// Copy copies the first rows of a slot to another one.
func (c *Cache) Copy(to, from, rows int) error {
	return c.each(func(m *ort.Memory) error { return c.copyHeads(c.at(m, to), c.at(m, from), rows) })
}

// Swap swaps the first rows of two slots.
func (c *Cache) Swap(a, b, rows int) error {
	if a == b {
		return nil
	}
	spare := c.at(c.spare, 0)
	return c.each(func(m *ort.Memory) error {
		if err := c.copyHeads(spare, c.at(m, a), rows); err != nil {
			return err
		}
		if err := c.copyHeads(c.at(m, a), c.at(m, b), rows); err != nil {
			return err
		}
		return c.copyHeads(c.at(m, b), spare, rows)
	})
}

// each calls f for the keys and values of all layers.
func (c *Cache) each(f func(m *ort.Memory) error) error {
	for _, kv := range c.layers {
		for _, m := range kv {
			if err := f(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// views returns n slots of every layer, starting at first, as inputs and outputs. Free them after the run.
func (c *Cache) views(first, n int) (on ort.Views, free func(), err error) {
	on = ort.Views{In: make(map[string]*ort.View, 2*len(c.layers)), Out: make(map[string]*ort.View, 2*len(c.layers))}
	var made []*ort.View // the caller may add others
	free = func() {
		for _, v := range made {
			v.Free()
		}
	}
	for i, kv := range c.layers {
		for k, what := range nn.CacheParts {
			past, present := nn.CacheNames(i, what)
			v, err := kv[k].View(int64(first)*c.slotBytes(), c.typ, int64(n), int64(c.heads), int64(c.capacity),
				int64(c.width))
			if err != nil {
				free()
				return on, nil, err
			}
			made = append(made, v)
			on.In[past], on.Out[present] = v, v
		}
	}
	return on, free, nil
}

// Close frees the memory.
func (c *Cache) Close() error {
	errs := []error{c.spare.Close()}
	for _, kv := range c.layers {
		errs = append(errs, kv[0].Close(), kv[1].Close())
	}
	c.layers, c.slots, c.capacity = nil, 0, 0
	return errors.Join(errs...)
}

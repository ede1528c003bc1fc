package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Bucket holds the records of one kind from one model.
type Bucket struct {
	store       *Store
	kind, model string
	folder      string

	mu        sync.RWMutex // guards the fields below
	segments  map[string]*segment
	index     map[addressPrefix]location
	refreshed time.Time // the time of the last refresh
	pinned    bool
	closed    bool

	writing sync.Mutex // held while a record is written
	current *segment   // the segment that is written to; nil before the first write
}

// addressPrefix is the start of an address. Records contain full addresses, which are compared when read.
type addressPrefix [16]byte

// location is the position of a record. A record may be written twice: by two processes, or because the first is
// damaged.
type location struct {
	segment *segment
	offset  int64
	next    *location
}

// Bucket opens the records of the model with this fingerprint. kind names the records and the version of their
// computation; it is used as a folder name, so it consists of letters, digits and dashes.
func (s *Store) Bucket(kind, model string) (*Bucket, error) {
	if kind == "" || kind != filepath.Base(kind) || kind[0] == '.' {
		return nil, fmt.Errorf("store: %q is not a kind of records", kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[[2]string{kind, model}]; b != nil {
		return b, nil
	}
	b := &Bucket{
		store:    s,
		kind:     kind,
		model:    model,
		folder:   filepath.Join(s.folder, kind, modelFolder(model)),
		segments: map[string]*segment{},
		index:    map[addressPrefix]location{},
	}
	if err := b.refresh(); err != nil {
		s.warnOnce(err)
	}
	s.buckets[[2]string{kind, model}] = b
	return b, nil
}

func modelFolder(model string) string { return KeyOf(model).String()[:24] }

// address returns the address of a record: the digest of kind, model and key.
func (b *Bucket) address(k Key) Key { return KeyOf(b.kind, b.model, string(k[:])) }

// Hold keeps all records that this process has found or written readable until Close, even if another process removes
// the files.
func (b *Bucket) Hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pinned = true
}

// refresh finds records that other processes have written since the last call.
func (b *Bucket) refresh() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refreshed = time.Now()
	names, err := os.ReadDir(b.folder)
	if b.closed || err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	gone := maps.Clone(b.segments)
	for _, e := range names {
		delete(gone, filepath.Join(b.folder, e.Name()))
	}
	for _, seg := range gone { // removed by another process
		if seg != b.current {
			b.drop(seg)
		}
	}
	for _, e := range names {
		path := filepath.Join(b.folder, e.Name())
		if filepath.Ext(path) != segmentExt {
			continue
		}
		seg := b.segments[path]
		if seg == nil {
			if seg, err = openSegment(path); errors.Is(err, os.ErrNotExist) {
				continue // another process has just removed it
			} else if err != nil {
				return err
			}
			b.segments[path] = seg
		}
		if seg != b.current {
			if err := b.scan(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan indexes new records of a segment. b.mu is held.
func (b *Bucket) scan(seg *segment) error {
	return seg.scan(func(address Key, offset int64, _ int) {
		b.addLocation(address, location{segment: seg, offset: offset})
	})
}

// addLocation makes p the first location of an address. b.mu is held.
func (b *Bucket) addLocation(address Key, p location) {
	k := addressPrefix(address[:])
	if old, ok := b.index[k]; ok {
		second := old // allocated only in this case
		p.next = &second
	}
	b.index[k] = p
}

// Get returns the value of a key, nil if it is missing or damaged.
func (b *Bucket) Get(k Key) []byte {
	address := b.address(k)
	if v := b.lookup(address); v != nil {
		return v
	}
	const often = time.Second
	b.mu.RLock()
	due := time.Since(b.refreshed) > often
	b.mu.RUnlock()
	if !due || b.refresh() != nil {
		return nil
	}
	return b.lookup(address)
}

// lookup reads the first intact record of an address, and forgets damaged ones.
func (b *Bucket) lookup(address Key) []byte {
	k := addressPrefix(address[:])
	for {
		b.mu.RLock()
		p, ok := b.index[k]
		b.mu.RUnlock()
		if !ok {
			return nil
		}
		if v, err := p.segment.read(address, p.offset); err == nil {
			return v
		}
		b.mu.Lock()
		if now, ok := b.index[k]; ok && now.segment == p.segment && now.offset == p.offset {
			if p.next == nil {
				delete(b.index, k)
			} else {
				b.index[k] = *p.next
			}
		}
		b.mu.Unlock()
	}
}

// Put stores a value, which must not be empty. The error names the file that could not be written.
func (b *Bucket) Put(k Key, value []byte) error {
	if err := b.put(b.address(k), value); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// Remember is Put for values that can be recomputed: an error is reported once to [Options].Warn instead of returned.
func (b *Bucket) Remember(k Key, value []byte) {
	if b.store.disabled.Load() {
		return
	}
	if err := b.Put(k, value); err != nil {
		var disk *os.PathError
		b.store.disabled.Store(errors.As(err, &disk))
		b.store.warnOnce(err)
	}
}

func (b *Bucket) put(address Key, value []byte) error {
	if len(value) == 0 || len(value) > maxValueBytes {
		return fmt.Errorf("%s: a record of %d bytes cannot be stored", b.folder, len(value))
	}
	need := recordSize(len(value))
	if need > b.store.limit {
		return fmt.Errorf("%s: a record of %d bytes does not fit into the limit of %d", b.folder, need, b.store.limit)
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.segment(need); err != nil {
		return err
	}
	offset, err := b.current.append(address, value)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocation(address, location{segment: b.current, offset: offset})
	return nil
}

// segment selects a segment with room: the current one, one left by another process, or a new one. b.writing is held.
func (b *Bucket) segment(need int64) error {
	most := b.store.limit / segmentsPerStore
	fits := func(s *segment) bool { return s.size == 0 || s.size+need <= most }
	b.mu.RLock()
	own, closed := b.current, b.closed
	b.mu.RUnlock()
	if closed {
		return fmt.Errorf("%s: %w", b.folder, os.ErrClosed)
	}
	if own != nil && fits(own) && (b.pinned || own.exists()) {
		return nil
	}
	if own != nil {
		own.unlock()
		b.setCurrent(nil)
	}
	b.mu.RLock()
	var candidates []*segment
	for _, seg := range b.segments {
		if seg != own && fits(seg) {
			candidates = append(candidates, seg)
		}
	}
	b.mu.RUnlock()
	for _, seg := range candidates {
		if !seg.lock() {
			continue
		}
		if b.takeOver(seg) && fits(seg) {
			b.setCurrent(seg)
			return nil
		}
		seg.unlock()
	}
	if err := b.store.evict(max(most, need)); err != nil {
		return err
	}
	seg, err := newSegment(b.folder)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.segments[seg.Name()] = seg
	b.mu.Unlock()
	b.setCurrent(seg)
	return nil
}

func (b *Bucket) setCurrent(s *segment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = s
}

// takeOver prepares a locked segment left by another process: it indexes new records and truncates everything after
// the last complete one.
func (b *Bucket) takeOver(seg *segment) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !seg.exists() || b.scan(seg) != nil {
		return false
	}
	info, err := seg.Stat()
	if err != nil {
		return false
	}
	if info.Size() < seg.size { // truncated by another process since
		return false
	}
	return info.Size() == seg.size || seg.Truncate(seg.size) == nil
}

// forget drops a removed segment.
func (b *Bucket) forget(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seg := b.segments[path]; seg != nil {
		b.drop(seg)
	}
}

// drop forgets the records of a segment, unless they are held. b.mu is held.
func (b *Bucket) drop(seg *segment) {
	if b.pinned {
		return
	}
	for k, p := range b.index {
		if q, ok := p.without(seg); !ok {
			delete(b.index, k)
		} else {
			b.index[k] = q
		}
	}
	delete(b.segments, seg.Name())
	seg.Close() // only read
}

// without returns a list of locations without those in a segment; false if none is left.
func (p location) without(seg *segment) (location, bool) {
	if p.next != nil {
		if q, ok := p.next.without(seg); ok {
			p.next = &q
		} else {
			p.next = nil
		}
	}
	if p.segment != seg {
		return p, true
	}
	if p.next != nil {
		return *p.next, true
	}
	return location{}, false
}

// Len returns the number of known keys.
func (b *Bucket) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.index)
}

func (b *Bucket) close() error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	var errs []error
	for _, s := range b.segments {
		errs = append(errs, s.Close())
	}
	clear(b.index)
	clear(b.segments)
	b.current = nil
	return errors.Join(errs...)
}

// Floats returns the values of FloatBytes; nil if the record is missing or does not have n values (0: any number).
func (b *Bucket) Floats(k Key, n int) []float32 {
	raw := b.Get(k)
	if len(raw) == 0 || len(raw)%4 != 0 || n > 0 && len(raw) != 4*n {
		return nil
	}
	v := make([]float32, len(raw)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return v
}

// FloatBytes encodes values for a record: float32, little-endian.
func FloatBytes(v []float32) []byte {
	raw := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	return raw
}

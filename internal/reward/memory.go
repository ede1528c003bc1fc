package reward

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// stallAfter is how far a body may fall behind minRate before it may be evicted for another request's memory.
	stallAfter = 2 * time.Second
	// patience is how long a body waits for memory before new requests must queue behind it.
	patience = 20 * time.Second
	// recheck is the interval between checks for stalled bodies.
	recheck = 100 * time.Millisecond
)

// memory limits the bytes of request bodies. A body holds memory for the bytes that have arrived, whatever its
// Content-Length.
//
// Bodies that arrive in parallel could fill the memory and then deadlock. So a body may grow only if all bodies can
// still arrive completely, one after the other (Dijkstra's banker's algorithm). If stalled bodies prevent that, they
// are evicted, the slowest first.
type memory struct {
	size  int64 // of all clients
	share int64 // of each client: the rest is always left for others
	large int64 // bytes of the largest body

	mu      sync.Mutex
	holds   map[*memoryHold]bool // holds of more than 0 bytes
	waiting map[*memoryHold]bool
	changed chan struct{} // closed when memory is released
}

// newMemory returns a memory of size bytes for requests of at most maxBody bytes.
func newMemory(size, maxBody int64) *memory {
	return &memory{
		size:    size,
		share:   size - size/8,
		large:   bodyCost(maxBody),
		holds:   map[*memoryHold]bool{},
		waiting: map[*memoryHold]bool{},
		changed: make(chan struct{}),
	}
}

// memoryHold is memory that a request holds. Its fields are guarded by of.mu.
type memoryHold struct {
	of      *memory
	client  string
	n       int64 // bytes held
	claim   int64 // bytes that the whole request will hold
	since   time.Time
	due     time.Time // when the sender must have sent more; zero: nothing is being read
	evicted bool
	reader  *http.ResponseController
}

// hold starts at 0 bytes, for a request of up to claim bytes.
func (m *memory) hold(client string, claim int64, reader *http.ResponseController) *memoryHold {
	return &memoryHold{of: m, client: client, claim: min(claim, m.share), reader: reader}
}

// missing returns how many more bytes a request will need. Complete and evicted requests need none, and will release
// theirs.
func (h *memoryHold) missing() int64 {
	if h.evicted {
		return 0
	}
	return h.claim - h.n
}

// held returns the bytes held by the requests of a client, or by all requests for "".
func (m *memory) held(client string) (n int64) {
	for h := range m.holds {
		if client == "" || h.client == client {
			n += h.n
		}
	}
	return n
}

// fits reports whether h may hold more additional bytes: within its client's share, and within all memory.
func (m *memory) fits(h *memoryHold, more int64) (own, all bool) {
	return m.safe(h, more, h.client, m.share), m.safe(h, more, "", m.size)
}

// safe reports whether all requests of a client ("": of all clients) can still arrive completely within size bytes
// once h holds more additional bytes.
func (m *memory) safe(h *memoryHold, more int64, client string, size int64) bool {
	free := size - m.held(client) - more
	if free < 0 || free >= m.large {
		return free >= 0
	}
	h.n += more
	defer func() { h.n -= more }()
	var order []*memoryHold
	for o := range m.holds {
		if client == "" || o.client == client {
			order = append(order, o)
		}
	}
	if !m.holds[h] {
		order = append(order, h)
	}
	slices.SortFunc(order, func(a, b *memoryHold) int { return cmp.Compare(a.missing(), b.missing()) })
	for _, o := range order {
		if o.missing() > free {
			return false
		}
		free += o.n
	}
	return true
}

// admits reports whether h may hold more additional bytes now. A new request waits behind earlier ones that have
// waited longer than patience, unless they wait for the share of their own client.
func (m *memory) admits(h *memoryHold, more int64) bool {
	if own, all := m.fits(h, more); !own || !all || h.n > 0 {
		return own && all
	}
	for o := range m.waiting {
		if !o.since.Before(h.since) || time.Since(o.since) < patience {
			continue
		}
		if own, _ := m.fits(o, min(bodyStep, o.missing())); own || o.client == h.client {
			return false
		}
	}
	return true
}

// grow waits until the request may hold n bytes, for at most limit.
func (h *memoryHold) grow(ctx context.Context, n int64, limit time.Duration) error {
	m := h.of
	m.mu.Lock()
	defer m.mu.Unlock()
	more := min(n, m.share) - h.n
	if more <= 0 {
		return nil
	}
	h.claim, h.since = max(h.claim, h.n+more), time.Now()
	defer delete(m.waiting, h)
	for !m.admits(h, more) {
		if time.Since(h.since) >= limit {
			return &busyError{time.Second, "too many requests are waiting for memory"}
		}
		m.waiting[h] = true
		m.evict(h, more)
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(min(recheck, limit)):
		case <-ctx.Done():
		}
		m.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	h.n += more
	m.holds[h] = true
	return nil
}

// evict evicts the slowest of the stalled bodies, if h could then hold more. Its memory is released soon.
func (m *memory) evict(h *memoryHold, more int64) {
	own, all := m.fits(h, more)
	if own && all { // it only queues behind others
		return
	}
	var slowest *memoryHold
	for o := range m.holds {
		switch {
		case o.evicted:
			return
		case o.due.IsZero() || time.Until(o.due) > grace-stallAfter || !own && o.client != h.client:
		case slowest == nil || o.due.Before(slowest.due):
			slowest = o
		}
	}
	if slowest != nil {
		slowest.evicted = true
		slowest.reader.SetReadDeadline(time.Unix(1, 0))
	}
}

// await sets the time by which the sender must have sent more. It returns false for an evicted body.
func (h *memoryHold) await(due time.Time) bool {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if h.due = due; !h.evicted {
		h.reader.SetReadDeadline(due) // no effect in tests without a connection
	}
	return !h.evicted
}

// arrived records progress. It returns false for an evicted body.
func (h *memoryHold) arrived() bool {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.due = time.Time{}
	return !h.evicted
}

// shrink releases all but n bytes. The hold does not grow any more.
func (h *memoryHold) shrink(n int64) {
	m := h.of
	m.mu.Lock()
	defer m.mu.Unlock()
	h.n = min(n, h.n)
	h.claim = h.n
	if n == 0 {
		delete(m.holds, h)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// take holds n bytes at once, even if there is no room: they exist already. Bodies wait until they are released.
func (h *memoryHold) take(n int64) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.n, h.claim = n, n
	h.of.holds[h] = true
}

func (h *memoryHold) release() { h.shrink(0) }

package reward

import (
	"fmt"
	"sync"
	"time"
)

// workload counts outstanding work by the estimator that predicts its duration: items of runs, or thousands of pixels
// to decode.
type workload map[*estimator]int

func (w workload) items() (n int) {
	for e, items := range w {
		if !e.pixels {
			n += items
		}
	}
	return n
}

// duration returns the time that the workload takes on an idle machine.
func (w workload) duration() (t time.Duration) {
	for e, n := range w {
		t += e.estimate(n)
	}
	return t
}

// marginal returns the time that the workload adds to decoding and to runs in progress.
func (w workload) marginal() (decoding, runs time.Duration) {
	for e, n := range w {
		if e.pixels {
			decoding += e.marginal(n)
		} else {
			runs += e.marginal(n)
		}
	}
	return decoding, runs
}

// reservation is an admitted request with its workload that has not started yet.
type reservation struct {
	q         *queue
	remaining workload // not yet started
}

// busyError rejects a request temporarily.
type busyError struct {
	retryAfter time.Duration
	reason     string
}

func (e *busyError) Error() string { return e.reason }

// admit admits a request, or returns a busyError. The caller releases the reservation.
func (q *queue) admit(w workload) (*reservation, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.overload(w); err != nil {
		return nil, err
	}
	r := &reservation{q: q, remaining: w}
	q.reservations[r] = true
	q.active++
	return r, nil
}

// probe rejects a request whose body need not be read, because not even one item would be admitted.
func (q *queue) probe(e *estimator) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.overload(workload{e: 1})
}

// overload returns why a request is rejected; nil if it is admitted. q.mu is held.
func (q *queue) overload(w workload) error {
	if q.active == 0 { // an idle server takes any request
		return nil
	}
	wait, waiting := q.backlog()
	finish := wait + w.duration()
	switch waiting += w.items(); {
	case waiting > q.capacity:
		return &busyError{
			retryAfter: max(wait, time.Second),
			reason:     fmt.Sprintf("%d edits would be queued, at most %d are allowed", waiting, q.capacity),
		}
	case finish > q.maxWait:
		return &busyError{
			retryAfter: max(finish-q.maxWait, time.Second),
			reason: fmt.Sprintf("the answer would take %v, the limit is %v",
				finish.Round(time.Second), q.maxWait),
		}
	}
	return nil
}

// backlog returns the estimated time of all admitted work, and the number of its items that are not on a device yet.
// q.mu is held.
func (q *queue) backlog() (wait time.Duration, items int) {
	// Decoding and runs overlap, so the longer of the two counts.
	var decoding, runs time.Duration
	up := 0
	for k := range q.workers {
		if end := q.workers[k].ends; !end.IsZero() { // an overdue run is expected to take as long again as it is late
			runs += time.Until(end).Abs()
		}
		if !q.workers[k].down {
			up++
		}
	}
	for r := range q.reservations {
		items += r.remaining.items()
		a, b := r.remaining.marginal()
		decoding, runs = decoding+a, runs+b
	}
	return max(decoding, runs/time.Duration(max(up, 1))), items
}

// foreseen returns the estimated wait of a new request.
func (q *queue) foreseen() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait, _ := q.backlog()
	return wait
}

// started subtracts n items from the remaining work of a reservation. q.mu is held.
func (r *reservation) started(e *estimator, n int) {
	if r.remaining[e] -= n; r.remaining[e] <= 0 {
		delete(r.remaining, e)
	}
	if len(r.remaining) == 0 {
		delete(r.q.reservations, r)
	}
}

// decoded marks the pixels of a picture as done.
func (r *reservation) decoded(e *estimator, pixels int64) {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	r.started(e, kilopixels(pixels))
}

// release returns the unused part of a reservation.
func (r *reservation) release() {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	delete(r.q.reservations, r)
	r.q.active--
}

// waiting counts the items admitted but not yet on a device.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, n := q.backlog()
	return n
}

// estimator predicts the time of a run of n items as base + n perItem, by least squares over past runs with decaying
// weights.
type estimator struct {
	mu              sync.Mutex
	w, n, nn, t, nt float64 // decayed sums of 1, n, n n, seconds, n seconds
	base, perItem   float64 // seconds
	pixels          bool    // counts thousands of pixels, not edits
}

// kilopixels converts pixels to thousands, the unit of estimators of decoding.
func kilopixels(pixels int64) int { return int(pixels/1000) + 1 }

// decay is the factor on past runs at each new one: about the last twenty runs count.
const decay = 0.95

func (e *estimator) observe(items int, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, t := float64(items), d.Seconds()
	e.w, e.n, e.nn, e.t, e.nt = decay*e.w+1, decay*e.n+n, decay*e.nn+n*n, decay*e.t+t, decay*e.nt+n*t
	e.perItem, e.base = e.t/e.n, 0
	if spread := e.w*e.nn - e.n*e.n; spread > 0.01*e.n*e.n { // runs of different sizes
		perItem := (e.w*e.nt - e.n*e.t) / spread
		if base := (e.t - perItem*e.n) / e.w; perItem > 0 && base > 0 {
			e.perItem, e.base = perItem, base
		}
	}
}

// observeFastest tracks the shortest recent time of an item. Other load, such as a burst of request bodies, makes
// some items many times slower, which must not cause requests to be rejected.
func (e *estimator) observeFastest(items int, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	perItem := d.Seconds() / float64(items)
	if e.perItem == 0 || perItem < e.perItem {
		e.perItem = perItem
	} else {
		e.perItem = min(perItem, 1.02*e.perItem)
	}
}

// estimate returns the predicted time of a run of n items; 0 if nothing was observed.
func (e *estimator) estimate(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration((e.base + e.perItem*float64(n)) * float64(time.Second))
}

// marginal returns the time that n items add to a run.
func (e *estimator) marginal(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration(e.perItem * float64(n) * float64(time.Second))
}

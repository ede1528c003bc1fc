package reward

import (
	"fmt"
	"time"

	"assay/internal/reward/pace"
)

// reservation is an admitted request with its workload that has not started yet.
type reservation struct {
	q         *queue
	remaining pace.Workload // not yet started
}

// busyError rejects a request temporarily.
type busyError struct {
	retryAfter time.Duration
	reason     string
}

func (e *busyError) Error() string { return e.reason }

// admit admits a request, or returns a busyError. The caller releases the reservation.
func (q *queue) admit(w pace.Workload) (*reservation, error) {
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
func (q *queue) probe(e *pace.Estimator) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.overload(pace.Workload{e: 1})
}

// overload returns why a request is rejected; nil if it is admitted. q.mu is held.
func (q *queue) overload(w pace.Workload) error {
	if q.active == 0 { // an idle server takes any request
		return nil
	}
	wait, waiting := q.backlog()
	finish := wait + w.Duration()
	switch waiting += w.Items(); {
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
		items += r.remaining.Items()
		a, b := r.remaining.Marginal()
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
func (r *reservation) started(e *pace.Estimator, n int) {
	if r.remaining[e] -= n; r.remaining[e] <= 0 {
		delete(r.remaining, e)
	}
	if len(r.remaining) == 0 {
		delete(r.q.reservations, r)
	}
}

// decoded marks the pixels of a picture as done.
func (r *reservation) decoded(e *pace.Estimator, pixels int64) {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	r.started(e, pace.Kilopixels(pixels))
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

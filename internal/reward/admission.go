package reward

import (
	"fmt"
	"time"
)

// workload counts outstanding work by the estimator that predicts its time: items of a run, or thousands of pixels to
// decode.
type workload map[*estimator]int

func (w workload) items() (n int) {
	for e, items := range w {
		if !e.pixels {
			n += items
		}
	}
	return n
}

// duration is the time that the workload takes on an idle machine.
func (w workload) duration() (t time.Duration) {
	for e, n := range w {
		t += e.estimate(n)
	}
	return t
}

// marginal is the time that the workload adds to decoding and to runs in progress.
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

// reservation is an admitted request with the workload that it has not begun.
type reservation struct {
	q         *queue
	remaining workload // not yet begun
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

// overload returns why a request is rejected; nil: it is admitted. q.mu is held.
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
			reason:     fmt.Sprintf("%d edits would wait, at most %d may", waiting, q.capacity),
		}
	case finish > q.maxWait:
		return &busyError{
			retryAfter: max(finish-q.maxWait, time.Second),
			reason: fmt.Sprintf("the answer would take %v, at most %v are allowed",
				finish.Round(time.Second), q.maxWait),
		}
	}
	return nil
}

// backlog is the estimated time of all admitted work, and the number of its items that are not on a device yet. q.mu
// is held.
func (q *queue) backlog() (wait time.Duration, items int) {
	// Decoding and runs go on side by side, so the longer one of the two counts.
	var decoding, runs time.Duration
	up := 0
	for k := range q.workers {
		if end := q.workers[k].ends; !end.IsZero() { // a run that is late by some time is expected to take as long again
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

// foreseen is the estimated wait of a new request.
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

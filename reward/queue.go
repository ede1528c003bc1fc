package reward

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"assay/edit"
)

// queue admits requests to the devices, and forms micro-batches of those that wait. Each worker has one run at a time.
//
// A request is admitted, before anything of it is decoded, by an estimate: it and all that wait already must be done
// within the time that a request may take. So callers who come together, as the ranks of a trainer do, wait for each
// other. A request that would come too late is refused at once.
type queue struct {
	batch, capacity int // items of a run, and of all that wait
	maxWait         time.Duration
	stall           time.Duration // see Options.Stall
	observe         func(items int)
	delayed         func(time.Duration) // told how long each job waited

	mu           sync.Mutex
	reservations map[*reservation]bool // admitted, with work not yet begun
	active       int                   // reservations not yet released
	workers      []worker
	ready        []*job // prepared, in the order they came
	wake         *sync.Cond
	closed       bool
	finished     sync.WaitGroup
}

// newQueue makes a queue in front of so many workers.
func newQueue(o Options, workers int, observe func(int), delayed func(time.Duration)) *queue {
	q := &queue{
		batch:        o.Batch,
		capacity:     o.Queue,
		maxWait:      o.Wait,
		stall:        o.Stall,
		observe:      observe,
		delayed:      delayed,
		reservations: map[*reservation]bool{},
		workers:      make([]worker, workers),
	}
	q.wake = sync.NewCond(&q.mu)
	for k := range q.workers {
		q.finished.Go(func() { q.work(k) })
	}
	return q
}

// jobKind is what is done with an edit.
type jobKind int

const (
	scoreKind jobKind = iota
	gradientKind
)

// job is work for a scorer: inputs to be scored, or edits to be differentiated.
type job struct {
	*reservation
	kind   jobKind
	scorer *served
	inputs []edit.Inputs
	edits  []*edit.Edit
	of     groupKey // of the inputs

	ctx       context.Context
	scores    []edit.Score     // of each of the inputs
	gradients []*edit.Gradient // of each of the edits
	errs      []error          // of each
	left      []int            // items that have neither yet
	since     time.Time        // it waits
	avoid     *replica         // where it failed before; nil: nowhere
	dropped   bool             // nobody waited for it any more
	done      chan struct{}
}

func (j *job) estimator() *estimator { return j.scorer.estimators[j.kind] }

// run waits for the device to do a job. When ctx ends before, the job is dropped if it has not begun.
func (r *reservation) run(ctx context.Context, j *job) error {
	j.reservation, j.ctx, j.done = r, ctx, make(chan struct{})
	n := len(j.inputs) + len(j.edits)
	j.scores, j.gradients, j.errs = make([]edit.Score, n), make([]*edit.Gradient, n), make([]error, n)
	j.left, j.since = make([]int, n), time.Now()
	for i := range j.left {
		j.left[i] = i
	}
	r.q.mu.Lock()
	if r.q.closed {
		r.q.mu.Unlock()
		return errors.New("the server is closed")
	}
	r.q.ready = append(r.q.ready, j)
	r.q.mu.Unlock()
	r.q.wake.Broadcast() // the worker that has its group takes it
	select {
	case <-j.done:
		if !j.dropped {
			return nil
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// work does a worker's runs until the queue is closed and empty.
func (q *queue) work(k int) {
	for {
		q.mu.Lock()
		var r *run
		for r = q.next(k); r == nil; r = q.next(k) {
			if q.closed && len(q.ready) == 0 {
				q.mu.Unlock()
				return
			}
			q.wake.Wait()
		}
		q.mu.Unlock()
		q.wake.Broadcast() // what is left may be for others now
		if r.kind == scoreKind {
			q.observe(len(r.items))
		}
		r.do(max(q.stall, 10*r.served.estimators[r.kind].estimate(len(r.items))))
		q.finish(k, r)
	}
}

// next takes a job for a worker, and those of the same kind and scorer behind it, up to a batch. Jobs of its source and
// instruction come first, then those of its source: what edits have in common is computed once. Nobody is kept waiting
// by that: the first in the queue is always the next, but for jobs that another worker is to take (see first). It
// returns nil if there is none. q.mu is held.
func (q *queue) next(k int) *run {
	q.ready = slices.DeleteFunc(q.ready, func(j *job) bool {
		if j.ctx.Err() == nil {
			return false
		}
		j.dropped = true
		close(j.done)
		return true
	})
	head := q.first(k)
	if head == nil {
		return nil
	}
	on := head.scorer.replica(k)
	byKin := slices.Clone(q.ready)
	slices.SortStableFunc(byKin, func(a, b *job) int { return head.of.apart(a.of) - head.of.apart(b.of) })
	r := &run{kind: head.kind, served: head.scorer, on: on, began: time.Now()}
	taken := map[*job]bool{}
	for _, j := range byKin {
		n := len(j.left)
		if j != head &&
			(j.estimator() != head.estimator() || j.avoids(on) || len(r.items)+n > q.batch || q.kept(k, head, j)) {
			continue
		}
		taken[j] = true
		r.add(j)
		if j.avoid == nil {
			j.started(j.estimator(), n)
			q.delayed(time.Since(j.since))
		}
	}
	q.ready = slices.DeleteFunc(q.ready, func(j *job) bool { return taken[j] })
	on.hold()
	q.workers[k].begin(r, head.estimator().estimate(len(r.items)))
	return r
}

// close lets the jobs that are there finish and ends the workers.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
	q.finished.Wait()
}

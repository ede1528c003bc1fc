package reward

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"assay/edit"
	"assay/internal/reward/pace"
)

// queue admits requests, and batches queued work for the devices. Each worker has one run at a time.
//
// A request is admitted, before any of it is decoded, if it and all earlier work are estimated to finish within the
// time limit. So concurrent clients, such as the ranks of a trainer, wait for each other. A request that would finish
// too late is rejected at once.
type queue struct {
	batch, capacity int // maximum items of a run, and of the queue
	maxWait         time.Duration
	stall           time.Duration // see Options.Stall
	metrics         *metrics

	mu           sync.Mutex
	reservations map[*reservation]bool // admitted, with work not yet started
	active       int                   // reservations not yet released
	workers      []worker
	ready        []*job // prepared, in order of arrival
	wake         *sync.Cond
	closed       bool
	finished     sync.WaitGroup
}

// newQueue returns a queue for a number of workers.
func newQueue(o Options, workers int, m *metrics) *queue {
	q := &queue{
		batch:        o.Batch,
		capacity:     o.Queue,
		maxWait:      o.Wait,
		stall:        o.Stall,
		metrics:      m,
		reservations: map[*reservation]bool{},
		workers:      make([]worker, workers),
	}
	q.wake = sync.NewCond(&q.mu)
	for k := range q.workers {
		q.finished.Go(func() { q.work(k) })
	}
	return q
}

// jobKind is the kind of work on an edit.
type jobKind int

const (
	scoreKind jobKind = iota
	gradientKind
)

// job is work for a scorer: inputs to score, or edits to differentiate.
type job struct {
	*reservation
	kind   jobKind
	scorer *Replicated
	inputs []edit.Inputs
	edits  []*edit.Edit
	of     groupKey // of the inputs

	ctx     context.Context
	results []result  // of each input or edit
	left    []int     // items without a result yet
	since   time.Time // when it was queued
	avoid   *replica  // copy on which it failed before; nil: none
	dropped bool      // its request ended before it started
	done    chan struct{}
}

// result is the score of an edit, its gradient with respect to the output, or why there is none.
type result struct {
	score    edit.Score
	gradient *edit.Gradient
	err      error
}

func (j *job) estimator() *pace.Estimator { return j.scorer.estimators[j.kind] }

// run queues a job and waits for it. If ctx ends first, a job that has not started is dropped.
func (r *reservation) run(ctx context.Context, j *job) error {
	j.reservation, j.ctx, j.done = r, ctx, make(chan struct{})
	n := len(j.inputs) + len(j.edits)
	j.results, j.left, j.since = make([]result, n), make([]int, n), time.Now()
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
	r.q.wake.Broadcast() // the worker that has its group will take it
	select {
	case <-j.done:
		if !j.dropped {
			return nil
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// work runs batches until the queue is closed and empty.
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
		q.wake.Broadcast() // remaining jobs may be for other workers
		if r.kind == scoreKind {
			q.metrics.batch.Observe(float64(len(r.items)))
		}
		r.do(max(q.stall, 10*r.scorer.estimators[r.kind].Estimate(len(r.items))))
		q.finish(k, r)
	}
}

// next takes a job for a worker, and later jobs of the same kind and scorer, up to a batch: first jobs with its
// source and instruction, then jobs with its source, because shared prefixes are computed once. The order is fair:
// the head of the queue is always next, except for jobs that belong to another worker (see first). It returns nil if
// there is no job. q.mu is held.
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
	on := head.scorer.take(k)
	if on == nil { // it went down meanwhile
		return nil
	}
	byKin := slices.Clone(q.ready)
	slices.SortStableFunc(byKin, func(a, b *job) int { return head.of.apart(a.of) - head.of.apart(b.of) })
	r := &run{kind: head.kind, scorer: head.scorer, on: on, began: time.Now()}
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
			q.metrics.delay.Observe(time.Since(j.since).Seconds())
			q.metrics.stage("wait", j.scorer.name, time.Since(j.since))
		}
	}
	q.ready = slices.DeleteFunc(q.ready, func(j *job) bool { return taken[j] })
	q.workers[k].begin(r, head.estimator().Estimate(len(r.items)))
	return r
}

// close finishes the queued jobs and ends the workers.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
	q.finished.Wait()
}

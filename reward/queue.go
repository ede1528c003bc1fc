package reward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"assay/model"
	"assay/scoring"
)

// Scorer is what the server asks of a model.Scorer. It must be safe for concurrent use.
type Scorer interface {
	Config() model.ScorerConfig
	Prepare(model.Pair) (*model.Sample, error)
	Score(context.Context, []*model.Sample) ([]float64, error)
	Gradients(context.Context, []model.Pair) ([]*model.PixelGradients, error)
}

// queue admits requests to the device, and forms micro-batches of those that wait. One run is on the device at a time.
//
// A request is admitted, before anything of it is decoded, by an estimate: it and all that wait already must be done
// within the time that a request may take. So callers who come together, as the ranks of a trainer do, wait for each
// other. A request that would come too late is refused at once.
type queue struct {
	batch, capacity int // items of a run, and of all that wait
	maxWait         time.Duration
	observe         func(items int)

	mu           sync.Mutex
	reservations map[*reservation]bool // admitted, with work not yet begun
	active       int                   // reservations not yet released
	runEnds      time.Time             // estimated end of the run on the device; zero: none
	ready        []*job                // prepared, in the order they came
	wake         *sync.Cond
	closed       bool
	finished     chan struct{}
}

func newQueue(o Options, observe func(int)) *queue {
	q := &queue{
		batch:        o.Batch,
		capacity:     o.Queue,
		maxWait:      o.Wait,
		observe:      observe,
		reservations: map[*reservation]bool{},
		finished:     make(chan struct{}),
	}
	q.wake = sync.NewCond(&q.mu)
	go q.work()
	return q
}

// jobKind is what is done with a pair.
type jobKind int

const (
	scoreKind jobKind = iota
	gradientKind
)

// job is prepared work: samples to be scored, or pairs to be differentiated.
type job struct {
	*reservation
	kind    jobKind
	scorer  *served
	samples []*model.Sample
	pairs   []model.Pair
	of      groupKey // of the samples

	ctx       context.Context
	scores    []model.Judgement       // of each sample
	gradients []*model.PixelGradients // of each pair
	errs      []error                 // of each
	dropped   bool                    // nobody waited for it any more
	done      chan struct{}
}

func (j *job) estimator() *estimator { return j.scorer.estimators[j.kind] }

// run waits for the device to do a job. When ctx ends before, the job is dropped if it has not begun.
func (r *reservation) run(ctx context.Context, j *job) error {
	j.reservation, j.ctx, j.done = r, ctx, make(chan struct{})
	n := len(j.samples) + len(j.pairs)
	j.scores, j.gradients, j.errs = make([]model.Judgement, n), make([]*model.PixelGradients, n), make([]error, n)
	r.q.mu.Lock()
	if r.q.closed {
		r.q.mu.Unlock()
		return errors.New("the server is closed")
	}
	r.q.ready = append(r.q.ready, j)
	r.q.mu.Unlock()
	r.q.wake.Signal()
	select {
	case <-j.done:
		if !j.dropped {
			return nil
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// work runs jobs until the queue is closed and empty.
func (q *queue) work() {
	defer close(q.finished)
	for {
		q.mu.Lock()
		for len(q.ready) == 0 && !q.closed {
			q.wake.Wait()
		}
		if len(q.ready) == 0 {
			q.mu.Unlock()
			return
		}
		jobs, items := q.next()
		q.mu.Unlock()
		if len(jobs) == 0 {
			continue
		}
		begin := time.Now()
		if jobs[0].kind == scoreKind {
			q.observe(items)
		}
		runJobs(jobs)
		jobs[0].estimator().observe(items, time.Since(begin))
		q.mu.Lock()
		q.runEnds = time.Time{}
		q.mu.Unlock()
		for _, j := range jobs {
			close(j.done)
		}
	}
}

// next takes the first job and those of the same kind and scorer behind it, up to a batch: first the ones of its source
// and instruction, then those of its source, because what edits begin with is computed once. Nobody is kept waiting by
// that: the first in the queue is always the next. q.mu is held.
func (q *queue) next() (jobs []*job, items int) {
	var waiting []*job
	for _, j := range q.ready {
		if j.ctx.Err() != nil {
			j.dropped = true
			close(j.done)
		} else {
			waiting = append(waiting, j)
		}
	}
	if q.ready = waiting; len(waiting) == 0 {
		return nil, 0
	}
	head := waiting[0]
	byKin := slices.Clone(waiting)
	slices.SortStableFunc(byKin, func(a, b *job) int { return head.of.apart(a.of) - head.of.apart(b.of) })
	taken := map[*job]bool{}
	for _, j := range byKin {
		n := len(j.errs)
		if j == head || j.estimator() == head.estimator() && items+n <= q.batch {
			jobs, items, taken[j] = append(jobs, j), items+n, true
			j.reservation.started(j.estimator(), n)
		}
	}
	q.ready = slices.DeleteFunc(waiting, func(j *job) bool { return taken[j] })
	q.runEnds = time.Now().Add(head.estimator().estimate(items))
	return jobs, items
}

// jobItem is one sample or pair of a job.
type jobItem struct {
	*job
	i int
}

// runJobs does several jobs at once. If that fails, each item is tried alone, so that one does not fail the others.
func runJobs(jobs []*job) {
	var all []jobItem
	for _, j := range jobs {
		for i := range j.errs {
			all = append(all, jobItem{j, i})
		}
	}
	if judge, ok := jobs[0].scorer.Scorer.(inWords); ok && jobs[0].kind == scoreKind {
		judgeEach(all, judge)
		return
	}
	_, errs, _ := scoring.Batch(
		context.Background(),
		all,
		func(ctx context.Context, items []jobItem) ([]struct{}, error) {
			return make([]struct{}, len(items)), runBatch(ctx, items)
		},
	)
	for k, p := range all {
		p.errs[p.i] = errs[k]
	}
}

// runBatch does items of one kind in one call of their scorer. A panic is their error: it must not end the process.
func runBatch(ctx context.Context, items []jobItem) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error, please report it: %v", p)
		}
	}()
	s := items[0].scorer
	if items[0].kind == scoreKind {
		samples := make([]*model.Sample, len(items))
		for k, p := range items {
			samples[k] = p.samples[p.i]
		}
		scores, err := scoring.JudgeWith(s.Scorer)(ctx, samples)
		if err != nil {
			return err
		}
		for k, p := range items {
			p.scores[p.i] = scores[k]
		}
		return nil
	}
	pairs := make([]model.Pair, len(items))
	for k, p := range items {
		pairs[k] = p.pairs[p.i]
	}
	gradients, err := s.Gradients(ctx, pairs)
	if err != nil {
		return err
	}
	for k, p := range items {
		p.gradients[p.i] = gradients[k]
	}
	return nil
}

// close lets the jobs that are there finish and ends the worker.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
	<-q.finished
}

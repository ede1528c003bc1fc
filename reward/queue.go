package reward

import (
	"context"
	"errors"
	"sync"
	"time"

	"assay/model"
)

// Scorer is what the server asks of a model.Scorer. It must be safe for concurrent use.
type Scorer interface {
	Config() model.ScorerConfig
	Prepare(model.Pair) (*model.Sample, error)
	Score(context.Context, []*model.Sample) ([]float64, error)
	Slopes(context.Context, model.Pair) (*model.Slopes, error)
}

// queue decides who may use the device, and forms micro-batches of those who wait. One run is on the device at a time.
//
// A request is admitted before anything of it is decoded, by a prediction: it and all who wait already must be done within
// 1 + patience times what each would take alone. So the time of an accepted request stays bounded however many ask, and
// the rest are refused at once. A few requests more (burst) are admitted after a rest, for callers who come together and
// then stay away for a while, as the ranks of a trainer do.
type queue struct {
	batch, most int // items of a run, and of all who wait
	patience    float64
	burst       float64
	observe     func(items int)

	mu       sync.Mutex
	tickets  map[*ticket]bool // admitted, not yet started on the device
	credit   float64          // of burst
	idle     time.Time        // since when nobody was there; zero: somebody is
	inside   int              // tickets not yet released
	runs     time.Time        // predicted end of the run on the device; zero: none
	ready    []*job           // prepared, in the order they came
	wake     *sync.Cond
	closed   bool
	finished chan struct{}
}

func newQueue(o Options, observe func(int)) *queue {
	q := &queue{batch: o.Batch, most: o.Queue, patience: o.Patience, burst: float64(o.Burst), credit: float64(o.Burst), observe: observe,
		tickets: map[*ticket]bool{}, idle: time.Now(), finished: make(chan struct{})}
	q.wake = sync.NewCond(&q.mu)
	go q.work()
	return q
}

// kind is what is done with a pair.
type kind int

const (
	scoring kind = iota
	slope
)

// demand is how many items are to be run at which paces.
type demand map[*pace]int

func (d demand) items() (n int) {
	for _, items := range d {
		n += items
	}
	return n
}

// alone is the time it takes on an idle device; more is what it adds to a run.
func (d demand) alone() (t time.Duration) {
	for p, n := range d {
		t += p.predict(n)
	}
	return t
}

func (d demand) more() (t time.Duration) {
	for p, n := range d {
		t += p.more(n)
	}
	return t
}

// ticket is the right to run a number of items.
type ticket struct {
	q        *queue
	left     demand // not yet started
	deadline time.Time
}

// busyError refuses a request for now.
type busyError struct {
	after time.Duration // when to ask again
	why   string
}

func (e *busyError) Error() string { return e.why }

// admit lets a request in, or returns a busyError. A ticket must be released.
func (q *queue) admit(d demand) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.refuse(d, true); err != nil {
		return nil, err
	}
	t := &ticket{q: q, left: d, deadline: time.Now().Add(q.stretch(d.alone()))}
	q.tickets[t] = true
	q.inside++
	q.idle = time.Time{}
	return t, nil
}

// full says whether a request of one item would be refused, so that its body need not be read.
func (q *queue) full(p *pace) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refuse(demand{p: 1}, false)
}

func (q *queue) stretch(d time.Duration) time.Duration {
	return time.Duration((1 + q.patience) * float64(d))
}

// refuse returns why a request may not come in, nil if it may. q.mu is held.
func (q *queue) refuse(d demand, spend bool) error {
	now := time.Now()
	if !q.idle.IsZero() {
		q.credit = min(q.burst, q.credit+now.Sub(q.idle).Seconds()*q.burst) // a second of rest restores all of it
		q.idle = now
	}
	if q.inside == 0 {
		return nil
	}
	own := d.alone()
	start := now
	if !q.runs.IsZero() { // a run that is late by some time is expected to take as long again
		start = now.Add(q.runs.Sub(now).Abs())
	}
	waiting, soonest := d.items(), now.Add(q.stretch(own))
	finish := start.Add(own)
	for t := range q.tickets {
		waiting += t.left.items()
		finish = finish.Add(t.left.more())
		if t.deadline.Before(soonest) {
			soonest = t.deadline
		}
	}
	switch {
	case waiting > q.most:
		return &busyError{finish.Sub(now), "the queue is full"}
	case !finish.After(soonest):
		return nil
	case q.credit >= 1:
		if spend {
			q.credit--
		}
		return nil
	}
	return &busyError{finish.Sub(now), "the server is busy"}
}

// release gives back what was not used of a ticket.
func (t *ticket) release() {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	delete(t.q.tickets, t)
	if t.q.inside--; t.q.inside == 0 {
		t.q.idle = time.Now()
	}
}

// waiting counts the items admitted but not yet on the device.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for t := range q.tickets {
		n += t.left.items()
	}
	return n
}

// job is prepared work: samples to be scored, or a pair to be differentiated.
type job struct {
	*ticket
	kind    kind
	scorer  *served
	samples []*model.Sample
	pair    model.Pair

	ctx    context.Context
	scores []float64 // score01 of each sample
	errs   []error   // of each sample
	slopes *model.Slopes
	gone   bool // dropped: nobody waited for it any more
	done   chan struct{}
}

func (j *job) pace() *pace { return j.scorer.paces[j.kind] }

// run waits for the device to do a job. When ctx ends before, the job is dropped if it has not begun.
func (t *ticket) run(ctx context.Context, j *job) error {
	j.ticket, j.ctx, j.done = t, ctx, make(chan struct{})
	n := max(len(j.samples), 1)
	j.scores, j.errs = make([]float64, n), make([]error, n)
	t.q.mu.Lock()
	if t.q.closed {
		t.q.mu.Unlock()
		return errors.New("the server is closed")
	}
	t.q.ready = append(t.q.ready, j)
	t.q.mu.Unlock()
	t.q.wake.Signal()
	select {
	case <-j.done:
		if !j.gone {
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
		if jobs[0].kind == scoring {
			q.observe(items)
			score(jobs)
		} else {
			j := jobs[0]
			j.slopes, j.errs[0] = j.scorer.Slopes(context.Background(), j.pair)
		}
		jobs[0].pace().learn(items, time.Since(begin))
		q.mu.Lock()
		q.runs = time.Time{}
		q.mu.Unlock()
		for _, j := range jobs {
			close(j.done)
		}
	}
}

// next takes the first job and those of the same kind and scorer behind it, up to a batch. q.mu is held.
func (q *queue) next() (jobs []*job, items int) {
	var rest []*job
	for _, j := range q.ready {
		n := len(j.errs)
		fits := len(jobs) == 0 || j.kind == scoring && j.pace() == jobs[0].pace() && items+n <= q.batch
		switch {
		case j.ctx.Err() != nil:
			j.gone = true
			close(j.done)
		case fits:
			jobs, items = append(jobs, j), items+n
			j.ticket.left[j.pace()] -= n
			if j.ticket.left.items() <= 0 {
				delete(q.tickets, j.ticket)
			}
		default:
			rest = append(rest, j)
		}
	}
	q.ready = rest
	if len(jobs) > 0 {
		q.runs = time.Now().Add(jobs[0].pace().predict(items))
	}
	return jobs, items
}

// score runs the samples of several jobs at once. If that fails each sample is tried alone, so that one does not take the
// others with it.
func score(jobs []*job) {
	var samples []*model.Sample
	for _, j := range jobs {
		samples = append(samples, j.samples...)
	}
	scores, err := jobs[0].scorer.Score(context.Background(), samples)
	for _, j := range jobs {
		for i, s := range j.samples {
			switch {
			case err == nil:
				j.scores[i], scores = scores[0], scores[1:]
			case len(samples) == 1:
				j.errs[i] = err
			default:
				var one []float64
				if one, j.errs[i] = j.scorer.Score(context.Background(), []*model.Sample{s}); j.errs[i] == nil {
					j.scores[i] = one[0]
				}
			}
		}
	}
}

// close lets the jobs that are there finish and ends the worker.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
	<-q.finished
}

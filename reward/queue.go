package reward

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/model"
	pipeline "assay/scoring"
)

// Scorer is what the server asks of a model.Scorer. It must be safe for concurrent use.
type Scorer interface {
	Config() model.ScorerConfig
	Prepare(model.Pair) (*model.Sample, error)
	Score(context.Context, []*model.Sample) ([]float64, error)
	Gradients(context.Context, []model.Pair) ([]*model.PixelGradients, error)
}

// queue decides who may use the device, and forms micro-batches of those who wait. One run is on the device at a time.
//
// A request is admitted before anything of it is decoded, by a prediction: it, and all who wait already, must be done within
// the time that a request may take. So callers who come together, as the ranks of a trainer do, wait for each other, and
// who would wait in vain is told at once.
type queue struct {
	batch, most int // items of a run, and of all who wait
	wait        time.Duration
	observe     func(items int)

	mu       sync.Mutex
	tickets  map[*ticket]bool // admitted, with work not yet begun
	inside   int              // tickets not yet released
	runs     time.Time        // predicted end of the run on the device; zero: none
	ready    []*job           // prepared, in the order they came
	wake     *sync.Cond
	closed   bool
	finished chan struct{}
}

func newQueue(o Options, observe func(int)) *queue {
	q := &queue{batch: o.Batch, most: o.Queue, wait: o.Wait, observe: observe, tickets: map[*ticket]bool{}, finished: make(chan struct{})}
	q.wake = sync.NewCond(&q.mu)
	go q.work()
	return q
}

// kind is what is done with a pair.
type kind int

const (
	scoring kind = iota
	gradient
)

// demand is how much is to be done at which paces: items of a run, and thousands of pixels to decode.
type demand map[*pace]int

func (d demand) items() (n int) {
	for p, items := range d {
		if !p.pixels {
			n += items
		}
	}
	return n
}

// alone is the time it takes on an idle machine; more is what it adds to the decoding and to the runs that are there.
func (d demand) alone() (t time.Duration) {
	for p, n := range d {
		t += p.predict(n)
	}
	return t
}

func (d demand) more() (decoding, runs time.Duration) {
	for p, n := range d {
		if p.pixels {
			decoding += p.more(n)
		} else {
			runs += p.more(n)
		}
	}
	return decoding, runs
}

// ticket is the right to an amount of work.
type ticket struct {
	q    *queue
	left demand // not yet begun
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
	if err := q.refuse(d); err != nil {
		return nil, err
	}
	t := &ticket{q: q, left: d}
	q.tickets[t] = true
	q.inside++
	return t, nil
}

// full says whether a request of one item would be refused, so that its body need not be read.
func (q *queue) full(p *pace) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refuse(demand{p: 1})
}

// refuse returns why a request may not come in, nil if it may. q.mu is held.
func (q *queue) refuse(d demand) error {
	if q.inside == 0 { // it takes what it takes
		return nil
	}
	var decoding, runs time.Duration // of those before; one goes on beside the other
	if !q.runs.IsZero() {            // a run that is late by some time is expected to take as long again
		runs = time.Until(q.runs).Abs()
	}
	waiting := d.items()
	for t := range q.tickets {
		waiting += t.left.items()
		a, b := t.left.more()
		decoding, runs = decoding+a, runs+b
	}
	finish := max(decoding, runs) + d.alone()
	switch {
	case waiting > q.most:
		return &busyError{max(finish-d.alone(), time.Second), fmt.Sprintf("%d edits would wait, at most %d may", waiting, q.most)}
	case finish > q.wait:
		return &busyError{max(finish-q.wait, time.Second), fmt.Sprintf("the answer would take %v, at most %v are allowed", finish.Round(time.Second), q.wait)}
	}
	return nil
}

// begun takes n off what is left of a ticket. q.mu is held.
func (t *ticket) begun(p *pace, n int) {
	if t.left[p] -= n; t.left[p] <= 0 {
		delete(t.left, p)
	}
	if len(t.left) == 0 {
		delete(t.q.tickets, t)
	}
}

// decoded notes that a picture of so many pixels is done.
func (t *ticket) decoded(p *pace, pixels int64) {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	t.begun(p, kilo(pixels))
}

// release gives back what was not used of a ticket.
func (t *ticket) release() {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	delete(t.q.tickets, t)
	t.q.inside--
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

// job is prepared work: samples to be scored, or pairs to be differentiated.
type job struct {
	*ticket
	kind    kind
	scorer  *served
	samples []*model.Sample
	pairs   []model.Pair

	ctx       context.Context
	scores    []float64               // score01 of each sample
	gradients []*model.PixelGradients // of each pair
	errs      []error                 // of each
	gone      bool                    // dropped: nobody waited for it any more
	done      chan struct{}
}

func (j *job) pace() *pace { return j.scorer.paces[j.kind] }

// run waits for the device to do a job. When ctx ends before, the job is dropped if it has not begun.
func (t *ticket) run(ctx context.Context, j *job) error {
	j.ticket, j.ctx, j.done = t, ctx, make(chan struct{})
	n := len(j.samples) + len(j.pairs)
	j.scores, j.gradients, j.errs = make([]float64, n), make([]*model.PixelGradients, n), make([]error, n)
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
		}
		run(jobs)
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
		fits := len(jobs) == 0 || j.pace() == jobs[0].pace() && items+n <= q.batch
		switch {
		case j.ctx.Err() != nil:
			j.gone = true
			close(j.done)
		case fits:
			jobs, items = append(jobs, j), items+n
			j.ticket.begun(j.pace(), n)
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

// part is one sample or pair of a job.
type part struct {
	*job
	i int
}

// run does several jobs at once. If that fails each sample is tried alone, so that one does not take the others with it.
func run(jobs []*job) {
	var all []part
	for _, j := range jobs {
		for i := range j.errs {
			all = append(all, part{j, i})
		}
	}
	_, errs, _ := pipeline.Batch(context.Background(), all, func(ctx context.Context, parts []part) ([]struct{}, error) {
		return make([]struct{}, len(parts)), together(ctx, parts)
	})
	for k, p := range all {
		p.errs[p.i] = errs[k]
	}
}

// together does parts of one kind in one call of their scorer. A panic is their error: it must not end the process.
func together(ctx context.Context, all []part) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error, please report it: %v", p)
		}
	}()
	s := all[0].scorer
	if all[0].kind == scoring {
		samples := make([]*model.Sample, len(all))
		for k, p := range all {
			samples[k] = p.samples[p.i]
		}
		scores, err := s.Score(ctx, samples)
		if err != nil {
			return err
		}
		for k, p := range all {
			p.scores[p.i] = scores[k]
		}
		return nil
	}
	pairs := make([]model.Pair, len(all))
	for k, p := range all {
		pairs[k] = p.pairs[p.i]
	}
	gradients, err := s.Gradients(ctx, pairs)
	if err != nil {
		return err
	}
	for k, p := range all {
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

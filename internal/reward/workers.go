package reward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"assay/edit"
	"assay/model"
)

// worker k has one run at a time, on replica k of each scorer: the replicas on one device, or on a share of it.
type worker struct {
	ends   time.Time  // estimated end of its run; zero: it is idle
	groups []groupKey // in its last run
	down   bool       // no scorer has a copy here
}

func (w *worker) idle() bool { return w.ends.IsZero() }

// begin records the run that starts.
func (w *worker) begin(r *run, estimate time.Duration) {
	w.ends = time.Now().Add(estimate)
	w.groups = w.groups[:0]
	for _, j := range r.jobs {
		if j.of.scorer != nil {
			w.groups = append(w.groups, j.of)
		}
	}
}

// first returns the next job of a worker: the first in the queue that does not belong to another worker, which has
// its group. Rather than idle, a worker takes a job whose worker is busy. q.mu is held.
func (q *queue) first(k int) *job {
	var others *job
	for _, j := range q.ready {
		if on := j.scorer.replica(k); on == nil || j.avoids(on) {
			continue
		}
		switch m := q.keeper(j); {
		case m < 0 || m == k:
			return j
		case others == nil && !q.workers[m].idle():
			others = j
		}
	}
	return others
}

// keeper returns the worker that a job belongs to: the worker whose last run had its group, or an idle worker whose
// last run had its source; -1 if there is none. A run computes shared prefixes once, and a replica caches features of
// pictures.
func (q *queue) keeper(j *job) int {
	best, near := -1, 2
	if j.of.scorer == nil {
		return best
	}
	for m := range q.workers {
		if on := j.scorer.replica(m); on == nil || j.avoids(on) {
			continue
		}
		for _, g := range q.workers[m].groups {
			if d := g.apart(j.of); d < near && (d == 0 || q.workers[m].idle()) {
				best, near = m, d
			}
		}
	}
	return best
}

// kept reports whether a job must not join the run of head because it belongs to another worker.
func (q *queue) kept(k int, head, j *job) bool {
	m := q.keeper(j)
	return m >= 0 && m != k && head.of.apart(j.of) > 0
}

// avoids reports whether a job has failed on this replica before.
func (j *job) avoids(on *replica) bool { return j.avoid != nil && j.avoid == on }

// jobItem is one edit of a job.
type jobItem struct {
	*job
	i int
}

// run is a batch of a worker: items of jobs of one kind and scorer.
type run struct {
	kind   jobKind
	scorer *Replicated
	on     *replica
	jobs   []*job
	items  []jobItem
	began  time.Time
	out    *outcome
}

// outcome holds the results of a run. It belongs to the run until the run ends: a hanging run may still write to it
// while its jobs run elsewhere.
type outcome struct {
	results []result // of each item
	broken  error    // why the copy can no longer be used; nil: it can
}

func (r *run) newOutcome(broken error) *outcome {
	o := &outcome{make([]result, len(r.items)), broken}
	for k := range o.results {
		o.results[k].err = broken
	}
	return o
}

func (r *run) add(j *job) {
	r.jobs = append(r.jobs, j)
	for _, i := range j.left {
		r.items = append(r.items, jobItem{j, i})
	}
}

// do executes the run. If its replica can be replaced, it is given up after bound.
func (r *run) do(bound time.Duration) {
	if !r.on.guarded() {
		r.out = r.execute(context.Background())
		r.on.release()
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan *outcome, 1)
	go func() {
		defer r.on.release()
		done <- r.execute(ctx)
	}()
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case r.out = <-done:
	case <-late.C: // the copy is closed if the run ends later
		r.out = r.newOutcome(fmt.Errorf("a run of %d edits did not finish within %v", len(r.items), bound))
	}
}

// execute runs all items at once. If that fails, each is run alone, so that one does not fail the others.
func (r *run) execute(ctx context.Context) *outcome {
	out := r.newOutcome(nil)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all := make([]int, len(r.items))
	for k := range all {
		all[k] = k
	}
	checked := false
	_, errs, _ := edit.Each(ctx, all, func(ctx context.Context, part []int) ([]struct{}, error) {
		call := r.score
		if r.kind == gradientKind {
			call = r.differentiate
		}
		var failed error // of an edit
		err := attempt(func() (err error) {
			failed, err = call(ctx, part, out)
			return err
		})
		fault := cmp.Or(err, failed)
		if _, panicked := fault.(*panicError); fault != nil && r.on.guarded() && (panicked || !checked) {
			checked = true
			if out.broken = r.on.verdict(ctx, fault); out.broken != nil {
				stop(out.broken)
			}
		}
		return make([]struct{}, len(part)), err
	})
	if out.broken != nil || errs == nil {
		return r.newOutcome(context.Cause(ctx))
	}
	for k, err := range errs {
		out.results[k].err = cmp.Or(err, out.results[k].err)
	}
	return out
}

// score scores some of the items. failed is the error of the call or of one item. err is always nil: judges isolate
// bad edits themselves.
func (r *run) score(ctx context.Context, part []int, out *outcome) (failed, err error) {
	inputs := make([]edit.Inputs, len(part))
	for at, k := range part {
		inputs[at] = r.items[k].inputs[r.items[k].i]
		if s, ok := inputs[at].(*model.Sample); ok && r.on.guarded() { // the scorer modifies it, and a retry may need it
			inputs[at] = s.Copy()
		}
	}
	scores, errs, err := r.on.Score(ctx, inputs)
	if err == nil && (len(scores) != len(part) || len(errs) != len(part)) {
		err = fmt.Errorf("%d scores and %d errors for %d edits", len(scores), len(errs), len(part))
	}
	for at, k := range part {
		if err != nil {
			out.results[k].err = err
			continue
		}
		out.results[k] = result{score: scores[at], err: errs[at]}
		failed = cmp.Or(failed, errs[at])
	}
	return cmp.Or(err, failed), nil
}

// differentiate computes the gradients of some of the items, all or none.
func (r *run) differentiate(ctx context.Context, part []int, out *outcome) (failed, err error) {
	edits := make([]*edit.Edit, len(part))
	for at, k := range part {
		edits[at] = r.items[k].edits[r.items[k].i]
	}
	gradients, err := r.on.Judge.(edit.Differentiable).Gradients(ctx, edits)
	if err == nil && len(gradients) != len(part) {
		err = fmt.Errorf("%d gradients for %d edits", len(gradients), len(part))
	}
	if err != nil {
		return nil, err
	}
	for at, k := range part {
		out.results[k].gradient = gradients[at]
	}
	return nil, nil
}

// finish stores the results in the jobs. Failed items are retried once on another replica, or on this one after it
// has been reopened.
func (q *queue) finish(k int, r *run) {
	if r.out.broken != nil {
		r.on.fail(r.out.broken)
	} else {
		r.scorer.estimators[r.kind].Observe(len(r.items), time.Since(r.began))
		q.metrics.stage("model", r.scorer.name, time.Since(r.began))
	}
	var suspects []*replica
	defer func() {
		for _, c := range suspects {
			c.fail(errors.New("an edit failed here and then succeeded on another copy"))
		}
	}()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers[k].ends = time.Time{}
	retry := !q.closed && r.on.guarded() && (r.out.broken != nil || r.on.others())
	for _, j := range r.jobs {
		j.left = j.left[:0]
	}
	for at, p := range r.items {
		p.results[p.i] = r.out.results[at]
		switch err := p.results[p.i].err; {
		case err == nil && p.avoid != nil: // it was not the edit's fault
			suspects = append(suspects, p.avoid)
		case err == nil:
		case p.avoid == nil && retry:
			p.left = append(p.left, p.i)
		case r.out.broken != nil:
			p.results[p.i].err = &apiError{http.StatusServiceUnavailable, "unavailable", err.Error(), time.Second}
		}
	}
	var again []*job
	for _, j := range r.jobs {
		if len(j.left) == 0 {
			close(j.done)
			continue
		}
		j.avoid = r.on
		again = append(again, j)
	}
	q.ready = append(again, q.ready...)
	q.wake.Broadcast()
}

// changed is called when a replica comes up or goes down. Jobs of a scorer fail if it has no replica and none could
// be reopened. Jobs that wait for another replica than the one they failed on keep their errors if there is none.
func (q *queue) changed(all []*Replicated) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.workers {
		q.workers[k].down = true
		for _, v := range all {
			if v.replica(k) != nil {
				q.workers[k].down = false
			}
		}
	}
	var waiting []*job
	for _, j := range q.ready {
		err := j.scorer.gone()
		if err == nil && !(j.avoid != nil && j.avoid.alone()) {
			waiting = append(waiting, j)
			continue
		}
		for _, i := range j.left {
			j.results[i].err = cmp.Or(err, j.results[i].err)
		}
		close(j.done)
	}
	q.ready = waiting
	q.wake.Broadcast()
}

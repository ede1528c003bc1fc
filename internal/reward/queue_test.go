package reward

import (
	"context"
	"slices"
	"sync"
	"testing"

	"assay/edit"
	"assay/internal/reward/pace"
)

// The next run has the first job of the queue, then jobs of its group, of its source, and others, each in queue
// order.
func TestQueueTakesGroups(t *testing.T) {
	v := newReplicated(&fake{})
	v.estimators = [2]*pace.Estimator{{}, {}}
	q := &queue{batch: 4, reservations: map[*reservation]bool{}, workers: make([]worker, 1),
		metrics: newMetrics(func() float64 { return 0 }, func() float64 { return 0 })}
	of := func(source byte, instruction string) groupKey {
		return groupKey{scorer: v, sources: [32]byte{source}, instruction: instruction}
	}
	add := func(k groupKey, ctx context.Context) *job {
		j := &job{scorer: v, of: k, inputs: make([]edit.Inputs, 1), results: make([]result, 1), left: []int{0}, ctx: ctx,
			reservation: &reservation{q: q, remaining: pace.Workload{}}, done: make(chan struct{})}
		q.ready = append(q.ready, j)
		return j
	}
	ctx := context.Background()
	gone, leave := context.WithCancel(ctx)
	leave()
	dropped := add(of(9, "x"), gone)
	head, other, later := add(of(1, "a"), ctx), add(of(2, "a"), ctx), add(of(3, "a"), ctx)
	sameSource, sameGroup := add(of(1, "b"), ctx), add(of(1, "a"), ctx)
	r := q.next(0)
	want := []*job{head, sameGroup, sameSource, other}
	if len(r.jobs) != len(want) || len(r.items) != len(want) {
		t.Fatalf("%d jobs with %d items", len(r.jobs), len(r.items))
	}
	for i, j := range r.jobs {
		if j != want[i] {
			t.Errorf("job %d is the wrong one", i)
		}
	}
	if !dropped.dropped {
		t.Error("a job without a waiting request was kept")
	}
	if r = q.next(0); len(r.jobs) != 1 || r.jobs[0] != later {
		t.Error("the last job is not next")
	}
	if r = q.next(0); r != nil {
		t.Error("an empty queue has jobs")
	}
}

// TestNextBesideAFailure: a copy may go down while a worker takes a job for it.
func TestNextBesideAFailure(t *testing.T) {
	v := newReplicated(&fake{})
	v.estimators = [2]*pace.Estimator{{}, {}}
	q := &queue{batch: 1, reservations: map[*reservation]bool{}, workers: make([]worker, 1),
		metrics: newMetrics(func() float64 { return 0 }, func() float64 { return 0 })}
	up, stop := v.replica(0), make(chan struct{})
	var flicker sync.WaitGroup
	flicker.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			v.mu.Lock()
			if v.at[0] = up; i%2 == 0 {
				v.at[0] = nil
			}
			v.mu.Unlock()
		}
	})
	before := make([]groupKey, 300) // comparing the job with them takes time
	for range 3000 {
		q.workers[0] = worker{groups: slices.Clone(before)}
		q.ready = []*job{{scorer: v, of: groupKey{scorer: v}, inputs: make([]edit.Inputs, 1),
			results: make([]result, 1), left: []int{0}, ctx: t.Context(),
			reservation: &reservation{q: q, remaining: pace.Workload{}}, done: make(chan struct{})}}
		if r := q.next(0); r != nil && r.on != up {
			t.Fatalf("got a run on %v, want the copy", r.on)
		}
	}
	close(stop)
	flicker.Wait()
}

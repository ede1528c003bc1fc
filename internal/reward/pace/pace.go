// Package pace predicts how long work takes from how long it took before.
package pace

import (
	"sync"
	"time"
)

// Workload counts outstanding work by the estimator that predicts its duration: items of runs, or thousands of pixels
// to decode.
type Workload map[*Estimator]int

// Items returns the items of runs.
func (w Workload) Items() (n int) {
	for e, items := range w {
		if !e.Pixels {
			n += items
		}
	}
	return n
}

// Duration returns the time that the workload takes on an idle machine.
func (w Workload) Duration() (t time.Duration) {
	for e, n := range w {
		t += e.Estimate(n)
	}
	return t
}

// Marginal returns the time that the workload adds to decoding and to runs in progress.
func (w Workload) Marginal() (decoding, runs time.Duration) {
	for e, n := range w {
		if e.Pixels {
			decoding += e.Marginal(n)
		} else {
			runs += e.Marginal(n)
		}
	}
	return decoding, runs
}

// Estimator predicts the time of a run of n items as base + n perItem, by least squares over past runs with decaying
// weights.
type Estimator struct {
	mu              sync.Mutex
	w, n, nn, t, nt float64 // decayed sums of 1, n, n n, seconds, n seconds
	base, perItem   float64 // seconds

	Pixels bool // it counts thousands of pixels, not edits
}

// Kilopixels converts pixels to thousands, the unit of estimators of decoding.
func Kilopixels(pixels int64) int { return int(pixels/1000) + 1 }

// decay is the factor on past runs at each new one: about the last twenty runs count.
const decay = 0.95

// Observe records a run.
func (e *Estimator) Observe(items int, d time.Duration) {
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

// ObserveFastest tracks the shortest recent time of an item. Other load, such as a burst of request bodies, makes
// some items many times slower, which must not cause requests to be rejected.
func (e *Estimator) ObserveFastest(items int, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	perItem := d.Seconds() / float64(items)
	if e.perItem == 0 || perItem < e.perItem {
		e.perItem = perItem
	} else {
		e.perItem = min(perItem, 1.02*e.perItem)
	}
}

// Estimate returns the predicted time of a run of n items; 0 if nothing was observed.
func (e *Estimator) Estimate(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration((e.base + e.perItem*float64(n)) * float64(time.Second))
}

// Marginal returns the time that n items add to a run.
func (e *Estimator) Marginal(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration(e.perItem * float64(n) * float64(time.Second))
}

package reward

import (
	"sync"
	"time"
)

// estimator predicts the time of a run of n items as base + n perItem, by least squares over past runs with decaying
// weights.
type estimator struct {
	mu              sync.Mutex
	w, n, nn, t, nt float64 // decayed sums of 1, n, n n, seconds, n seconds
	base, perItem   float64 // seconds
	pixels          bool    // counts thousands of pixels, not edits
}

// kilopixels counts pixels in thousands, as estimators of decoding do.
func kilopixels(pixels int64) int { return int(pixels/1000) + 1 }

// decay is the weight of the past at each new run: about the last twenty runs count.
const decay = 0.95

func (e *estimator) observe(items int, d time.Duration) {
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

// observeFastest keeps the shortest recent time of an item. Other load, such as a burst of request bodies, makes some
// items many times slower, and that must not reject requests.
func (e *estimator) observeFastest(items int, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	perItem := d.Seconds() / float64(items)
	if e.perItem == 0 || perItem < e.perItem {
		e.perItem = perItem
	} else {
		e.perItem = min(perItem, 1.02*e.perItem)
	}
}

// estimate is the predicted time of a run of n items; 0: nothing was observed.
func (e *estimator) estimate(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration((e.base + e.perItem*float64(n)) * float64(time.Second))
}

// marginal is the time that n items add to a run.
func (e *estimator) marginal(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration(e.perItem * float64(n) * float64(time.Second))
}

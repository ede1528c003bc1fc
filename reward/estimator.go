package reward

import (
	"sync"
	"time"
)

// pace predicts how long a run of n items takes, as base + each n: least squares over past runs that fade with a factor
// of 0.95 a run.
type estimator struct {
	mu              sync.Mutex
	w, n, nn, t, nt float64 // faded sums of 1, n, n n, seconds, n seconds
	base, perItem      float64 // seconds
	pixels          bool    // counts thousands of pixels, not edits
}

// kilo counts pixels in thousands, as paces of decoding do.
func kilopixels(pixels int64) int { return int(pixels/1000) + 1 }

// fade is the weight of the past at each new run: it remembers about twenty.
const decay = 0.95

func (p *estimator) observe(items int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, t := float64(items), d.Seconds()
	p.w, p.n, p.nn, p.t, p.nt = decay*p.w+1, decay*p.n+n, decay*p.nn+n*n, decay*p.t+t, decay*p.nt+n*t
	p.perItem, p.base = p.t/p.n, 0
	if spread := p.w*p.nn - p.n*p.n; spread > 0.01*p.n*p.n { // runs of different sizes
		each := (p.w*p.nt - p.n*p.t) / spread
		if base := (p.t - each*p.n) / p.w; each > 0 && base > 0 {
			p.perItem, p.base = each, base
		}
	}
}

// learnFast learns the time an item takes from the fastest of late: what else goes on, as the bodies of many that come at once,
// slows some down manyfold, and nobody is to be refused for that.
func (p *estimator) observeFastest(items int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	each := d.Seconds() / float64(items)
	if p.perItem == 0 || each < p.perItem {
		p.perItem = each
	} else {
		p.perItem = min(each, 1.02*p.perItem)
	}
}

// predict is the time of a run of n items; 0 if nothing has been learnt.
func (p *estimator) estimate(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration((p.base + p.perItem*float64(n)) * float64(time.Second))
}

// more is the time that n items add to a run.
func (p *estimator) marginal(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.perItem * float64(n) * float64(time.Second))
}

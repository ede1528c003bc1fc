package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"assay/data"
	"assay/model"
)

// Replicated is a scorer of which there are several copies, on devices of their own or side by side on one. A server
// has as many runs at a time as there are copies. One that fails gets no more work: by an error that is not the edits'
// fault, by a panic, or because a run does not end (see [Options]). It is opened again, and what it was given is tried
// once more.
type Replicated struct {
	open      func(i int) (Scorer, error) // nil: the only copy stays, whatever happens
	tolerance float64
	config    model.ScorerConfig
	closed    chan struct{}
	opening   sync.WaitGroup // copies again
	changed   func()
	warn      func(string)
	name      string
	once      sync.Once

	mu     sync.Mutex
	at     []*replica // by number; nil: down
	states []replicaState
	probe  model.Pair // a pair that every copy must be able to score
	want   *float64   // its score01; nil: not known yet
}

// replicaState is what became of the copies of one number.
type replicaState struct {
	restarts int
	failures int   // to open it, in a row
	err      error // why it is down
}

// Replicate opens n copies of a scorer. The scores of a pair that copies give must not be further apart than tolerance
// on 0 to 1, which [Server.Warm] checks: 0 on CPUs. Close closes them.
func Replicate(n int, tolerance float64, open func(i int) (Scorer, error)) (*Replicated, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d copies of a scorer: at least one is wanted", n)
	}
	v := newReplicated(n)
	v.open, v.tolerance = open, tolerance
	for i := range n {
		s, err := open(i)
		if err != nil {
			return nil, errors.Join(err, v.Close())
		}
		v.at[i] = &replica{Scorer: s, set: v, i: i, users: 1}
	}
	v.config = v.at[0].Config()
	return v, nil
}

// single is a scorer of one copy that is not replaced. Its owner closes it.
func single(s Scorer) *Replicated {
	v := newReplicated(1)
	v.at[0] = &replica{Scorer: s, set: v, users: 1}
	return v
}

func newReplicated(n int) *Replicated {
	return &Replicated{
		at:      make([]*replica, n),
		states:  make([]replicaState, n),
		closed:  make(chan struct{}),
		changed: func() {},
		warn:    func(string) {},
	}
}

// errDown says that no copy is there at the moment.
func (v *Replicated) errDown(err error) error {
	return &apiError{http.StatusServiceUnavailable, "unavailable",
		fmt.Sprintf("scorer %s is being opened again: %v", v.name, err), time.Second}
}

// replica is the copy of that number; nil: there is none, or it is down.
func (v *Replicated) replica(i int) *replica {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i >= len(v.at) {
		return nil
	}
	return v.at[i]
}

// up counts the copies that work, and tells of each.
func (v *Replicated) up() (n int, each []bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.at {
		if c != nil {
			n++
		}
		each = append(each, c != nil)
	}
	return n, each
}

// gone is an error if there is no copy, and none could be opened; nil while that is tried for the first time.
func (v *Replicated) gone() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var last error
	for i, c := range v.at {
		if c != nil || v.states[i].failures == 0 {
			return nil
		}
		last = v.states[i].err
	}
	return v.errDown(last)
}

// lost reports whether opening copies again has failed so often that only a new process may help.
func (v *Replicated) lost() bool {
	const often = 3
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, c := range v.at {
		if c != nil || v.states[i].failures < often {
			return false
		}
	}
	return true
}

// restarts counts how often the copy of that number was opened again.
func (v *Replicated) restarts(i int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.states[i].restarts
}

// some is a copy that is up, and held.
func (v *Replicated) some() (*replica, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var err error
	for i, c := range v.at {
		if c != nil {
			c.users++
			return c, nil
		}
		err = v.states[i].err
	}
	return nil, v.errDown(err)
}

// Config is that of the scorer.
func (v *Replicated) Config() model.ScorerConfig {
	if v.open == nil {
		return v.at[0].Config()
	}
	return v.config
}

// Prepare makes a sample for any of the copies.
func (v *Replicated) Prepare(p model.Pair) (*model.Sample, error) {
	c, err := v.some()
	if err != nil {
		return nil, err
	}
	defer c.release()
	return c.Scorer.Prepare(p)
}

// Score scores samples with one of the copies.
func (v *Replicated) Score(ctx context.Context, samples []*model.Sample) ([]float64, error) {
	c, err := v.some()
	if err != nil {
		return nil, err
	}
	defer c.release()
	return c.Scorer.Score(ctx, samples)
}

// Gradients differentiates pairs with one of the copies.
func (v *Replicated) Gradients(ctx context.Context, pairs []model.Pair) ([]*model.PixelGradients, error) {
	c, err := v.some()
	if err != nil {
		return nil, err
	}
	defer c.release()
	return c.Scorer.Gradients(ctx, pairs)
}

// Close closes all copies that do not hang. It waits for those that are being opened, but not for long.
func (v *Replicated) Close() error {
	v.once.Do(func() { close(v.closed) })
	v.mu.Lock()
	up := append([]*replica(nil), v.at...)
	clear(v.at)
	v.mu.Unlock()
	for _, c := range up {
		if c != nil {
			c.release()
		}
	}
	opened := make(chan struct{})
	go func() {
		v.opening.Wait()
		close(opened)
	}()
	select {
	case <-opened:
	case <-time.After(longestClose):
	}
	return nil
}

// inWords is the scorer itself if it answers in words.
func (v *Replicated) inWords() bool {
	c := v.replica(0)
	if c == nil {
		return false
	}
	_, ok := c.Scorer.(inWords)
	return ok
}

// warm scores a small pair with every copy, so that graphs are built, and compares what they say. It tells how long
// later runs took.
func (v *Replicated) warm(ctx context.Context, observe func(time.Duration)) error {
	p := data.NewPicture(64, 64)
	for i := range p.Pix {
		p.Pix[i] = byte(i * i)
	}
	var probes []model.Pair
	for range 3 {
		p.Pix[0]++ // a new picture each time, whose features are not cached yet
		one := data.NewPicture(p.Width, p.Height)
		copy(one.Pix, p.Pix)
		probes = append(probes, model.Pair{Source: one, Edit: one.FlipHorizontal(), Instruction: "mirror it"})
	}
	for i := range v.at {
		c := v.replica(i)
		for k, probe := range probes {
			begin := time.Now()
			score, err := c.scoreOne(ctx, probe)
			switch {
			case err != nil:
				return err
			case k > 0: // the first run builds the graph: its time says nothing of later runs
				observe(time.Since(begin))
			case i == 0:
				v.mu.Lock()
				v.probe, v.want = probe, &score
				v.mu.Unlock()
			case !(math.Abs(score-*v.want) <= v.tolerance):
				return fmt.Errorf("copy %d gives score01 %v where copy 0 gives %v: its device is unlike the other's, "+
					"so serve it by a process of its own", i, score, *v.want)
			}
		}
	}
	return nil
}

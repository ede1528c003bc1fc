package reward

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/reward/pace"
	"assay/model"
)

// Replicated is a scorer with several replicas, on separate devices or on one. A server has as many runs at a time as
// there are replicas. A replica that fails (by an error that is not the edits' fault, a panic, or a run that does not
// finish, see [Options]) gets no more work and is reopened, and its work is retried once.
type Replicated struct {
	open      func(i int) (edit.Judge, error) // nil: failed copies are not replaced
	tolerance float64
	info      edit.Info
	gradients bool // the scorer is edit.Differentiable
	closed    chan struct{}
	opening   sync.WaitGroup // counts copies that are being reopened
	changed   func()
	warn      func(string)
	once      sync.Once

	printing sync.Mutex
	print    *string // fingerprint; nil: not yet known

	// Set by a server.
	name       string
	estimators [2]*pace.Estimator // by kind

	mu     sync.Mutex
	at     []*replica // by number; nil: down
	asleep bool       // all are down until wake
	states []replicaState
	probe  *edit.Edit // an edit that every copy must be able to score
	want   *float64   // its score01; nil: not yet known
}

// replicaState counts the failures of one replica.
type replicaState struct {
	restarts  int
	reopening bool
	failures  int   // consecutive failed attempts to open it
	err       error // why it is down
}

// Replicate opens n replicas of a scorer. Their scores of one edit, on 0 to 1, must agree within tolerance (0 on
// CPUs), which [Server.Warm] checks. Close closes them.
func Replicate(n int, tolerance float64, open func(i int) (edit.Judge, error)) (*Replicated, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d copies of a scorer: want at least one", n)
	}
	var copies []edit.Judge
	for i := range n {
		s, err := open(i)
		if err != nil {
			for _, s := range copies {
				s.Close() // ignored: err is the first error
			}
			return nil, err
		}
		copies = append(copies, s)
	}
	v := newReplicated(copies...)
	v.open, v.tolerance = open, tolerance
	return v, nil
}

// newReplicated wraps copies of a scorer. They are not replaced, and their owner closes them.
func newReplicated(copies ...edit.Judge) *Replicated {
	v := &Replicated{
		info:    copies[0].Info(),
		states:  make([]replicaState, len(copies)),
		closed:  make(chan struct{}),
		changed: func() {},
		warn:    func(string) {},
	}
	_, v.gradients = copies[0].(edit.Differentiable)
	for i, j := range copies {
		v.at = append(v.at, &replica{Judge: j, set: v, i: i, users: 1, closed: make(chan struct{})})
	}
	return v
}

// errDown returns the error while no replica is up.
func (v *Replicated) errDown(err error) error {
	return &apiError{http.StatusServiceUnavailable, "unavailable",
		fmt.Sprintf("scorer %s is being reopened: %v", v.name, err), time.Second}
}

// replica returns a replica by number; nil if there is none, or it is down.
func (v *Replicated) replica(i int) *replica {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i >= len(v.at) {
		return nil
	}
	return v.at[i]
}

// take is replica, and holds it.
func (v *Replicated) take(i int) *replica {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.at[i]
	if c != nil {
		c.users++
	}
	return c
}

// up returns the number of working replicas, and whether each works.
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

// allFailed reports whether no replica is up, and opening each has failed at least n times in a row. last is the last
// error.
func (v *Replicated) allFailed(n int) (all bool, last error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, c := range v.at {
		if c != nil || v.states[i].failures < n {
			return false, nil
		}
		last = v.states[i].err
	}
	return true, last
}

// gone returns an error if no replica is up and none could be reopened; nil during the first attempt.
func (v *Replicated) gone() error {
	if all, err := v.allFailed(1); all {
		return v.errDown(err)
	}
	return nil
}

// lost reports whether reopening has failed so often that only a new process may help.
func (v *Replicated) lost() bool {
	all, _ := v.allFailed(3)
	return all
}

// restarts returns how often a replica was reopened.
func (v *Replicated) restarts(i int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.states[i].restarts
}

// some returns a working replica, and holds it.
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

// Info implements [edit.Judge].
func (v *Replicated) Info() edit.Info { return v.info }

// with calls one of the replicas.
func with[T any](v *Replicated, call func(edit.Judge) (T, error)) (out T, err error) {
	c, err := v.some()
	if err != nil {
		return out, err
	}
	defer c.release()
	return call(c.Judge)
}

// Fingerprint implements [edit.Judge]. It is computed once, since weights may take seconds to read.
func (v *Replicated) Fingerprint() (string, error) {
	v.printing.Lock()
	defer v.printing.Unlock()
	if v.print == nil {
		print, err := with(v, edit.Judge.Fingerprint)
		if err != nil {
			return "", err
		}
		v.print = &print
	}
	return *v.print, nil
}

// same returns an error if a judge has another fingerprint, because its files have changed.
func (v *Replicated) same(j edit.Judge) error {
	v.printing.Lock()
	defer v.printing.Unlock()
	if v.print == nil {
		return nil
	}
	print, err := j.Fingerprint()
	if err == nil && print != *v.print {
		err = fmt.Errorf("its files have changed: its fingerprint is %s, and was %s before", print, *v.print)
	}
	return err
}

// Prepare creates inputs for any of the replicas.
func (v *Replicated) Prepare(e *edit.Edit) (edit.Inputs, error) { return v.prepare(e, nil) }

// prepare is Prepare, but shares decoded pictures with other scorers of the same edit.
func (v *Replicated) prepare(e *edit.Edit, shared *model.Shared) (edit.Inputs, error) {
	return with(v, func(j edit.Judge) (edit.Inputs, error) {
		if s, ok := j.(interface {
			Sample(*edit.Edit, model.Ask) (*model.Sample, error)
		}); ok && shared != nil {
			return s.Sample(e, model.Ask{Shared: shared})
		}
		return j.Prepare(e)
	})
}

// Score scores with one of the replicas.
func (v *Replicated) Score(ctx context.Context, inputs []edit.Inputs) (scores []edit.Score, errs []error, err error) {
	scores, err = with(v, func(j edit.Judge) (scores []edit.Score, err error) {
		scores, errs, err = j.Score(ctx, inputs)
		return scores, err
	})
	return scores, errs, err
}

// Close closes all replicas that do not hang, and waits briefly for those that are being reopened.
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

// warm scores small edits with every replica, so that graphs are built, and compares the scores. observe is called
// with the times of all but the first run.
func (v *Replicated) warm(ctx context.Context, observe func(time.Duration)) error {
	p := data.NewPicture(64, 64)
	for i := range p.Pix {
		p.Pix[i] = byte(i * i)
	}
	var probes []*edit.Edit
	for range 3 {
		p.Pix[0]++ // a new picture each time, without cached features
		one := data.NewPicture(p.Width, p.Height)
		copy(one.Pix, p.Pix)
		probes = append(probes, edit.New(one, one.FlipHorizontal(), "mirror it"))
	}
	for i := range v.at {
		c := v.replica(i)
		for k, probe := range probes {
			begin := time.Now()
			score, err := c.scoreOne(ctx, probe)
			switch {
			case err != nil:
				return err
			case k > 0: // the first run builds the graph: its time does not predict later runs
				observe(time.Since(begin))
			case i == 0:
				v.mu.Lock()
				v.probe, v.want = probe, &score
				v.mu.Unlock()
			case !v.near(score, *v.want):
				return fmt.Errorf("copy %d returns score01 %v, but copy 0 returns %v: their devices differ, "+
					"so serve them from separate processes", i, score, *v.want)
			}
		}
	}
	return nil
}

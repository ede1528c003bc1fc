package trainer

import (
	"math"
	"runtime"
	"time"

	"assay/internal/workers"
	"assay/model"
)

// Aheader is a model that can prepare examples (decode and arrange their pictures, tokenise their texts) before a step
// wants them, and while another one runs.
type Aheader interface {
	// Ahead prepares the examples in place. What goes wrong with one is told by the step that wants it.
	Ahead(part []Example)
}

// prepared is what a model made of an example ahead of the step that wants it.
type prepared struct {
	sample *model.Sample
	err    error
}

// Ahead prepares examples with half of the cores: the other half computes the step at hand.
func (m *scorerModel) Ahead(part []Example) {
	workers.Each(len(part), max(1, runtime.NumCPU()/2), func(i int) error {
		s, err := prepareExample(m.tuner, &part[i])
		part[i].Prepared = &prepared{s, err}
		return nil
	})
}

// ahead is what is made ready while a part of a batch is computed: the next part, or the next step's batch with its
// first part. Only one thing is in the making at a time, so that memory holds the pictures of two parts.
type ahead struct {
	at    int64 // position of a batch; -1: it is a part of the present one
	done  chan struct{}
	batch []Example
	err   error
}

// place is a row's place in a batch that is not read yet.
type batchPlace struct {
	row, unit, number int // number: of its group in the batch
	epoch             int64
}

// places lists the usable rows of the batch from one position to another.
func (r *run) places(from, to int64) (out []batchPlace) {
	for at := from; at < to; at++ {
		var unit int
		var epoch int64
		rows := make([]int, 1)
		if r.groups != nil {
			unit, rows, epoch = r.groups.rows(r.order, at)
		} else {
			rows[0], epoch = r.order.At(at)
		}
		for _, row := range rows {
			if usable(r.data.Train, row) { // else it was set aside: it keeps its place, which stays empty
				out = append(out, batchPlace{row, unit, int(at - from), epoch})
			}
		}
	}
	return out
}

// read reads the examples of a batch; those in front of an error with it.
func (r *run) read(places []batchPlace) (out []Example, err error) {
	for _, p := range places {
		e, err := r.data.Train.Example(p.row)
		e.Index, e.Unit, e.Group = p.row, p.number, p.unit
		if err != nil { // the row itself is bad: setAside finds out
			return []Example{e}, err
		}
		r.draw(&e, p.epoch, uint64(r.first(p.unit, p.row)))
		out = append(out, e)
	}
	return out, nil
}

// prepareFirst prepares the first part of a batch.
func (r *run) prepareFirst(batch []Example) {
	if m, ok := r.model.(Aheader); ok && len(batch) > 0 {
		m.Ahead(r.parts(batch)[0])
	}
}

// take gives the batch of the present step with its first part prepared: the one that was made ready, or, where there
// is none, one that is read now.
func (r *run) take() ([]Example, error) {
	defer r.wait(time.Now())
	if a := r.ready(); a != nil && a.at == r.state.Samples && a.err == nil {
		return a.batch, nil
	}
	batch, err := r.batch()
	if err == nil && r.ranks == nil {
		r.prepareFirst(batch)
	}
	return batch, err
}

// ready waits for what is being made ready; nil: nothing is.
func (r *run) ready() *ahead {
	a := r.ahead
	if r.ahead = nil; a != nil {
		<-a.done
	}
	return a
}

// wait counts the time since a moment as spent waiting.
func (r *run) wait(since time.Time) { r.waited += time.Since(since) }

// lookAhead begins to make ready what comes after part i of a batch: the next part, or the next batch. Only rows of
// tables are read beside a step: what else gives examples may not be made for that. Several ranks share out the parts
// of a batch, and prepare their own as they come.
func (r *run) lookAhead(parts [][]Example, i int) {
	if r.ranks != nil {
		return
	}
	a := &ahead{at: -1, done: make(chan struct{})}
	m, prepares := r.model.(Aheader)
	if i+1 < len(parts) {
		if prepares {
			r.ahead = a
			go func() {
				defer close(a.done)
				m.Ahead(parts[i+1])
			}()
		}
		return
	}
	_, table := r.data.Train.(*Samples)
	from := r.next()
	if !table || from >= r.limit || r.state.Step+1 >= r.total {
		return
	}
	to := r.nextAfter(from)
	places := r.places(from, to)
	a.at, r.ahead = from, a
	go func() {
		defer close(a.done)
		if a.batch, a.err = r.read(places); a.err == nil {
			r.prepareFirst(a.batch)
		}
	}()
}

// waiting is the share of a step's time that was spent waiting for its examples.
func waiting(waited, all time.Duration) number {
	return number(math.Round(1000*waited.Seconds()/max(all.Seconds(), 1e-9)) / 1000)
}

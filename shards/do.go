package shards

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"assay/internal/atomicfile"
	"assay/internal/remote"
	"assay/internal/workers"
)

// Shard is one of the parts.
type Shard struct {
	Index    int // from 1
	From, To int // rows, To not among them
	// Progress is a file for what is done; a worker that takes over finds there what was done before.
	Progress string
}

// Manifest says what a finished shard holds. Every run of the same work writes the same.
type Manifest struct {
	Format int    `json:"format"`
	Shard  int    `json:"shard"`
	Of     int    `json:"of"`
	From   int    `json:"from"` // first row, from 0
	Rows   int    `json:"rows"`
	Failed int    `json:"failed"` // of them, those with an error
	Bytes  int    `json:"bytes"`  // of the file of results
	SHA256 string `json:"sha256"` // of the file of results
	Plan   string `json:"plan"`   // digest of the plan
}

// Report says what [Work.Do] did.
type Report struct {
	Shards []int `json:"shards"` // done by this worker
	Before int   `json:"before"` // that were done already, of those it was to do
	Rows   int   `json:"rows"`   // in the shards that it did
	Failed int   `json:"failed"` // of them, those with an error
}

func resultName(shard int) string { return fmt.Sprintf("%06d.jsonl", shard) }

func manifestName(shard int) string { return fmt.Sprintf("%06d.json", shard) }

// path is that of a file among the shards.
func (w *Work[T]) path(name string) string { return remote.Join(w.dir, name) }

// done tells whether a shard is finished.
func (w *Work[T]) done(shard int) (bool, error) { return w.place.has(manifestName(shard)) }

// Run gives the results of a shard, in the order of its rows.
type Run[T any] func(ctx context.Context, s Shard) ([]T, error)

// PassingError says that a shard is not done, because rows failed that may not fail another time. What else was done
// of it is kept.
type PassingError struct {
	Shard, Row   int    // from 1; the first of the rows
	Failed, Rows int    // of the shard
	Why          string // what the first one says
}

func (e *PassingError) Error() string {
	text := fmt.Sprintf("shard %d is not done: at %d of its %d rows a server failed, the first is row %d; the same "+
		"command asks again", e.Shard, e.Failed, e.Rows, e.Row)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Do does the shards that ref names; run gives the results of one, in the order of its rows. It waits for shards that
// other workers have: they finish, or are lost. A context that run is given ends with [ErrLost] when this worker was
// too slow to renew its lease; then it goes on elsewhere. Shards with results that are [Work.Passing] are left to the
// next call: the error joins a [PassingError] for each, after all others are done.
func (w *Work[T]) Do(ctx context.Context, ref Ref, run Run[T]) (*Report, error) {
	if ref.Count != w.Count() {
		return nil, fmt.Errorf("shard %v of work that is cut into %d", ref, w.Count())
	}
	var todo []int
	for k := 1; k <= w.Count(); k++ {
		if ref.Index == 0 || ref.Index == k {
			todo = append(todo, k)
		}
	}
	r := &Report{Shards: []int{}}
	var passing []error
	told := ""
	for first := true; ; first = false {
		var left []int
		waits := ""
		for _, k := range todo {
			busy, err := w.try(ctx, k, r, first, run)
			if errors.As(err, new(*PassingError)) {
				passing = append(passing, err)
			} else if err != nil {
				return r, err
			}
			if busy != "" {
				left, waits = append(left, k), fmt.Sprintf("shard %d is with %s", k, busy)
			}
		}
		if todo = left; len(todo) == 0 {
			return r, errors.Join(passing...)
		}
		if w.Told != nil && waits != told {
			told = waits
			w.Told("waiting: " + waits)
		}
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-time.After(min(w.lease()/4, 5*time.Second)):
		}
	}
}

// try does a shard, unless it is done; busy is who has it.
func (w *Work[T]) try(ctx context.Context, k int, r *Report, first bool, run Run[T]) (busy string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if done, err := w.done(k); err != nil || done {
		if done && first {
			r.Before++
		}
		return "", err
	}
	l, busy, err := w.claim(k)
	if err != nil || busy != "" {
		return busy, err
	}
	if done, err := w.done(k); err != nil { // between the look and the claim
		return "", err
	} else if done {
		return "", w.release(l)
	}
	m, err := w.shard(ctx, l, run)
	switch {
	case errors.Is(err, ErrLost):
		return "the one that took it over", nil
	case err != nil:
		return "", err
	}
	r.Shards = append(r.Shards, k)
	r.Rows, r.Failed = r.Rows+m.Rows, r.Failed+m.Failed
	return "", nil
}

// shard does a shard that is claimed, and commits it.
func (w *Work[T]) shard(ctx context.Context, l *lease, run Run[T]) (*Manifest, error) {
	progress, err := w.place.progress(progressName(l.shard, l.number))
	if err != nil {
		return nil, err
	}
	s := Shard{l.shard, w.plan.Cuts[l.shard-1], w.plan.Cuts[l.shard], progress}
	if err := w.inherit(l, progress); err != nil {
		return nil, err
	}
	kept, stop := w.keep(ctx, l)
	results, err := run(kept, s)
	cause := context.Cause(kept)
	stop()
	if errors.Is(cause, ErrLost) {
		return nil, ErrLost
	}
	if err == nil {
		err = w.final(s, results)
	}
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(*PassingError)) { // whoever comes next need not wait
			err = errors.Join(err, w.place.expire(l.name))
		}
		return nil, err
	}
	if mine, err := w.mine(l); err != nil || !mine {
		return nil, cmp.Or(err, ErrLost)
	}
	if done, err := w.done(l.shard); err != nil {
		return nil, err
	} else if done { // by one that was slow, whose release does not know of this lease
		return nil, cmp.Or(w.release(l), ErrLost)
	}
	m, err := w.commit(s, results)
	if err != nil {
		return nil, err
	}
	return m, w.release(l)
}

// final is the error of results that are not.
func (w *Work[T]) final(s Shard, results []T) error {
	e := &PassingError{Shard: s.Index, Rows: s.To - s.From}
	for _, r := range results {
		if w.Passing == nil || !w.Passing(r) {
			continue
		}
		if e.Failed++; e.Failed == 1 {
			e.Row = w.Place(r) + 1
			if w.Why != nil {
				e.Why = w.Why(r)
			}
		}
	}
	if e.Failed > 0 {
		return e
	}
	return nil
}

// inherit copies what the worker before had done.
func (w *Work[T]) inherit(l *lease, to string) error {
	for n := l.number - 1; n > 0; n-- {
		from, err := w.place.progress(progressName(l.shard, n))
		if err != nil {
			return err
		}
		err = atomicfile.Copy(from, to)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// commit writes the results of a shard, and then its manifest.
func (w *Work[T]) commit(s Shard, results []T) (*Manifest, error) {
	m := &Manifest{
		Format: 1,
		Shard:  s.Index,
		Of:     w.Count(),
		From:   s.From,
		Rows:   len(results),
		Plan:   w.digest(),
	}
	if len(results) != s.To-s.From {
		return nil, fmt.Errorf("shard %d has %d rows, and %d results", s.Index, s.To-s.From, len(results))
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	for i, r := range results {
		if w.Place(r) != s.From+i {
			return nil, fmt.Errorf("shard %d: result %d is of row %d, want %d", s.Index, i+1, w.Place(r)+1, s.From+i+1)
		}
		if w.Failed(r) {
			m.Failed++
		}
		if err := e.Encode(r); err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256(text.Bytes())
	m.Bytes, m.SHA256 = text.Len(), hex.EncodeToString(sum[:])
	if err := w.place.write(resultName(s.Index), text.Bytes()); err != nil {
		return nil, err
	}
	return m, writeOnce(w.place, manifestName(s.Index), m)
}

// digest is that of the plan.
func (w *Work[T]) digest() string {
	raw, _ := json.Marshal(w.plan) // numbers and what was JSON before
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// MissingError says which shards are not done.
type MissingError struct {
	Of      int
	Missing []string // number, and who has it
}

func (e *MissingError) Error() string {
	list := e.Missing
	if len(list) > 20 {
		list = append(list[:20:20], fmt.Sprintf("and %d more", len(e.Missing)-20))
	}
	return fmt.Sprintf("%d of %d shards are not done: %s", len(e.Missing), e.Of, strings.Join(list, ", "))
}

// complete is a [MissingError] if a shard is not done.
func (w *Work[T]) complete() error {
	missing := &MissingError{Of: w.Count()}
	for k := 1; k <= w.Count(); k++ {
		if done, err := w.done(k); err != nil {
			return err
		} else if done {
			w.sweep(k)
			continue
		}
		text := fmt.Sprint(k)
		if n, err := w.last(k); err == nil && n > 0 {
			if who, age, err := w.held(k, n); err == nil && !who.gone() && age < w.lease() {
				text += fmt.Sprintf(" (with process %d on %s)", who.PID, who.Host)
			}
		}
		missing.Missing = append(missing.Missing, text)
	}
	if len(missing.Missing) > 0 {
		return missing
	}
	return nil
}

// Results yields the results of all rows in their order; one shard at a time is in memory. It ends with an error if a
// shard is not done (a [MissingError], before any result), or if a file is not what its manifest says. So it does if a
// row has no result, or two, or is another one now ([Work.Changed]). What was made of the results is to be dropped
// then.
func (w *Work[T]) Results() iter.Seq2[T, error] {
	var none T
	return func(yield func(T, error) bool) {
		if err := w.complete(); err != nil {
			yield(none, err)
			return
		}
		next := 0
		for k := 1; k <= w.Count(); k++ {
			part, err := w.read(k)
			if err == nil {
				err = w.unchanged(k, part)
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, r := range part {
				if w.Place(r) != next {
					yield(none, fmt.Errorf("%s: a result is of row %d, want %d", w.path(resultName(k)), w.Place(r)+1, next+1))
					return
				}
				if next++; !yield(r, nil) {
					return
				}
			}
		}
		if next != w.plan.Rows {
			yield(none, fmt.Errorf("%s: %d results of %d rows", w.dir, next, w.plan.Rows))
		}
	}
}

// looks is how many rows are looked at again at a time: most of it is waiting for a file system or storage.
const looks = 16

// unchanged is an error if rows of a finished shard are others now than when they were done.
func (w *Work[T]) unchanged(k int, part []T) error {
	if w.Changed == nil {
		return nil
	}
	changed := make([]bool, len(part))
	err := workers.Each(len(part), looks, func(i int) (err error) {
		changed[i], err = w.Changed(part[i])
		return err
	})
	first := slices.Index(changed, true)
	if err != nil || first < 0 {
		return err
	}
	name := fmt.Sprintf("row %d", w.Place(part[first])+1)
	if w.Name != nil {
		name = w.Name(part[first])
	}
	return fmt.Errorf("%s was changed since its shard was done, a text or a picture: remove %s and %s, and shard %d is "+
		"done again. With --assume-unchanged rows are merged as they were done", name, w.path(manifestName(k)),
		w.path(resultName(k)), k)
}

// Merge gives what [Work.Results] yields, all at once.
func (w *Work[T]) Merge() ([]T, error) {
	results := make([]T, 0, w.plan.Rows)
	for r, err := range w.Results() {
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// Reader gives results row by row: get wants the rows in their order. All shards are done, else it is a [MissingError].
func (w *Work[T]) Reader() (get func(row int) (r T, ok bool, err error), stop func(), err error) {
	if err := w.complete(); err != nil {
		return nil, nil, err
	}
	next, stop := iter.Pull2(w.Results())
	get = func(row int) (r T, ok bool, err error) {
		r, err, ok = next()
		if err == nil && (!ok || w.Place(r) != row) {
			err = fmt.Errorf("%s: row %d has no result", w.dir, row+1)
		}
		return r, ok, err
	}
	return get, stop, nil
}

// read reads a finished shard, and holds it against its manifest.
func (w *Work[T]) read(k int) (results []T, err error) {
	manifest, result := w.path(manifestName(k)), w.path(resultName(k))
	raw, err := w.place.read(manifestName(k))
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	text, err := w.place.read(resultName(k))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	from, to := w.plan.Cuts[k-1], w.plan.Cuts[k]
	switch {
	case m.Format != 1 || m.Shard != k || m.Of != w.Count() || m.Plan != w.digest() || m.From != from || m.Rows != to-from:
		return nil, fmt.Errorf("%s is not of this plan: remove it, and the shard is done again", manifest)
	case len(text) != m.Bytes || hex.EncodeToString(sum[:]) != m.SHA256:
		return nil, fmt.Errorf("%s is damaged, its digest is not that of %s: remove both, and the shard is done again",
			result, manifest)
	}
	d := json.NewDecoder(bufio.NewReader(bytes.NewReader(text)))
	for {
		var r T
		if err := d.Decode(&r); err == io.EOF {
			return results, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", result, err)
		}
		results = append(results, r)
	}
}

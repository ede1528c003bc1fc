package shards

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"assay/internal/atomicfile"
	"assay/internal/remote"
)

// Shard is one of the parts.
type Shard struct {
	Index    int // from 1
	From, To int // rows from From to before To
	// Progress is a file for partial results; a worker that takes over gets those of the previous worker.
	Progress string
}

// manifest describes a finished shard. Every run of the same work writes the same bytes.
type manifest struct {
	Format int    `json:"format"`
	Shard  int    `json:"shard"`
	Of     int    `json:"of"`
	From   int    `json:"from"` // first row, from 0
	Rows   int    `json:"rows"`
	Failed int    `json:"failed"` // rows with an error
	Bytes  int    `json:"bytes"`  // of the file of results
	SHA256 string `json:"sha256"` // of the file of results
	Plan   string `json:"plan"`   // digest of the plan
}

// Report is the result of [Work.Do].
type Report struct {
	Shards []int `json:"shards"` // done by this worker
	Before int   `json:"before"` // selected shards that were already done
	Rows   int   `json:"rows"`   // in the shards done by this worker
	Failed int   `json:"failed"` // rows with an error
}

func resultName(shard int) string { return fmt.Sprintf("%06d.jsonl", shard) }

func manifestName(shard int) string { return fmt.Sprintf("%06d.json", shard) }

// path returns the path of a file in the folder.
func (w *Work[T]) path(name string) string { return remote.Join(w.dir, name) }

// done reports whether a shard is finished.
func (w *Work[T]) done(shard int) (bool, error) { return w.place.has(manifestName(shard)) }

// TemporaryError means that a shard is not done because some of its rows failed temporarily. Results of the other
// rows are kept.
type TemporaryError struct {
	Shard, Row   int    // from 1; the first failed row
	Failed, Rows int    // in the shard
	Why          string // the error of the first failed row
}

func (e *TemporaryError) Error() string {
	text := fmt.Sprintf("shard %d is not done: a server failed at %d of its %d rows, first at row %d; the same "+
		"command retries", e.Shard, e.Failed, e.Rows, e.Row)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Do does the shards selected by ref. run returns the results of a shard, in the order of its rows. Do waits for
// shards of other workers until they finish or are lost. The context of run ends if this worker was too slow to renew
// its lease; then Do continues with another shard. Shards with temporary failures are left to the next call: the
// error joins a [TemporaryError] for each, after all other shards are done.
func (w *Work[T]) Do(
	ctx context.Context, ref Ref, run func(ctx context.Context, s Shard) ([]T, error),
) (*Report, error) {
	if ref.Count != w.Count() {
		return nil, fmt.Errorf("shard %v of work that is split into %d", ref, w.Count())
	}
	var todo []int
	for k := 1; k <= w.Count(); k++ {
		if ref.Index == 0 || ref.Index == k {
			todo = append(todo, k)
		}
	}
	r := &Report{Shards: []int{}}
	var temporary []error
	told := ""
	for first := true; ; first = false {
		var left []int
		waits := ""
		for _, k := range todo {
			busy, err := w.try(ctx, k, r, first, run)
			if errors.As(err, new(*TemporaryError)) {
				temporary = append(temporary, err)
			} else if err != nil {
				return r, err
			}
			if busy != "" {
				left, waits = append(left, k), fmt.Sprintf("shard %d is held by %s", k, busy)
			}
		}
		if todo = left; len(todo) == 0 {
			return r, errors.Join(temporary...)
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

// try does a shard, unless it is done. busy is the worker that holds it; "": none.
func (w *Work[T]) try(
	ctx context.Context, k int, r *Report, first bool, run func(context.Context, Shard) ([]T, error),
) (busy string, err error) {
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
	if done, err := w.done(k); err != nil { // between the check and the claim
		return "", err
	} else if done {
		return "", w.release(l)
	}
	m, err := w.shard(ctx, l, run)
	switch {
	case errors.Is(err, errLost):
		return "the worker that took it over", nil
	case err != nil:
		return "", err
	}
	r.Shards = append(r.Shards, k)
	r.Rows, r.Failed = r.Rows+m.Rows, r.Failed+m.Failed
	return "", nil
}

// shard does a claimed shard and commits it.
func (w *Work[T]) shard(
	ctx context.Context, l *lease, run func(context.Context, Shard) ([]T, error),
) (*manifest, error) {
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
	if errors.Is(cause, errLost) {
		return nil, errLost
	}
	if err == nil {
		err = w.final(s, results)
	}
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(*TemporaryError)) { // the next worker need not wait
			err = errors.Join(err, w.place.expire(l.name))
		}
		return nil, err
	}
	if mine, err := w.mine(l); err != nil || !mine {
		return nil, cmp.Or(err, errLost)
	}
	if done, err := w.done(l.shard); err != nil {
		return nil, err
	} else if done { // by a slow worker, whose release does not include this lease
		return nil, cmp.Or(w.release(l), errLost)
	}
	m, err := w.commit(s, results)
	if err != nil {
		return nil, err
	}
	return m, w.release(l)
}

// final returns a [TemporaryError] if some of the results are not final.
func (w *Work[T]) final(s Shard, results []T) error {
	e := &TemporaryError{Shard: s.Index, Rows: s.To - s.From}
	for _, r := range results {
		why, temporary := r.Failure()
		if !temporary {
			continue
		}
		if e.Failed++; e.Failed == 1 {
			e.Row, e.Why = r.Place()+1, why
		}
	}
	if e.Failed > 0 {
		return e
	}
	return nil
}

// inherit copies the partial results of the previous worker.
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
func (w *Work[T]) commit(s Shard, results []T) (*manifest, error) {
	m := &manifest{Format: 1, Shard: s.Index, Of: w.Count(), From: s.From, Rows: len(results), Plan: w.digest()}
	if len(results) != s.To-s.From {
		return nil, fmt.Errorf("shard %d has %d rows, but %d results", s.Index, s.To-s.From, len(results))
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	for i, r := range results {
		if r.Place() != s.From+i {
			return nil, fmt.Errorf("shard %d: result %d is for row %d, want %d", s.Index, i+1, r.Place()+1, s.From+i+1)
		}
		if why, _ := r.Failure(); why != "" {
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

// digest returns the digest of the plan.
func (w *Work[T]) digest() string {
	raw, _ := json.Marshal(w.plan) // cannot fail: numbers and valid JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// Collect returns the results of a shard's rows in order. get returns the result of a row, if there is one.
func Collect[T any](s Shard, get func(row int) (r T, ok bool, err error)) ([]T, error) {
	rows := make([]T, 0, s.To-s.From)
	for i := s.From; i < s.To; i++ {
		row, ok, err := get(i)
		if err == nil && !ok {
			err = fmt.Errorf("row %d has no result", i+1)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

package shards

import (
	"bufio"
	"bytes"
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

	"assay/internal/workers"
)

// IncompleteError lists the shards that are not done.
type IncompleteError struct {
	Of      int
	Missing []string // number, and who holds it
}

func (e *IncompleteError) Error() string {
	list := e.Missing
	if len(list) > 20 {
		list = append(list[:20:20], fmt.Sprintf("and %d more", len(e.Missing)-20))
	}
	return fmt.Sprintf("%d of %d shards are not done: %s", len(e.Missing), e.Of, strings.Join(list, ", "))
}

// complete returns an [IncompleteError] if a shard is not done.
func (w *Work[T]) complete() error {
	missing := &IncompleteError{Of: w.Count()}
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
				text += fmt.Sprintf(" (held by process %d on %s)", who.PID, who.Host)
			}
		}
		missing.Missing = append(missing.Missing, text)
	}
	if len(missing.Missing) > 0 {
		return missing
	}
	return nil
}

// Results yields the results of all rows in order; one shard at a time is in memory. It ends with an error if a shard
// is not done (an [IncompleteError], before any result), if a file does not match its manifest, or if a row has no
// result, or two, or has changed ([Work.Changed]). The caller must then discard whatever it has built from the
// results.
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
				if r.Place() != next {
					yield(none, fmt.Errorf("%s: a result is for row %d, want %d", w.path(resultName(k)), r.Place()+1, next+1))
					return
				}
				if next++; !yield(r, nil) {
					return
				}
			}
		}
		if next != w.plan.Rows {
			yield(none, fmt.Errorf("%s: %d results for %d rows", w.dir, next, w.plan.Rows))
		}
	}
}

// looks is how many rows are checked in parallel: most of the time is spent waiting for a file system or storage.
const looks = 16

// unchanged returns an error if rows of a finished shard have changed since it was done.
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
	name := fmt.Sprintf("row %d", part[first].Place()+1)
	if w.Name != nil {
		name = w.Name(part[first])
	}
	return fmt.Errorf("%s has changed since its shard was done, a text or a picture: remove %s and %s to redo "+
		"shard %d, or use --assume-unchanged to merge rows without this check", name, w.path(manifestName(k)),
		w.path(resultName(k)), k)
}

// Reader returns results row by row: get must be called with the rows in order. The error is an [IncompleteError] if
// a shard is not done.
func (w *Work[T]) Reader() (get func(row int) (T, error), stop func(), err error) {
	if err := w.complete(); err != nil {
		return nil, nil, err
	}
	next, stop := iter.Pull2(w.Results())
	get = func(row int) (T, error) {
		r, err, ok := next()
		if err == nil && (!ok || r.Place() != row) {
			err = fmt.Errorf("%s: row %d has no result", w.dir, row+1)
		}
		return r, err
	}
	return get, stop, nil
}

// read reads a finished shard and verifies it against its manifest.
func (w *Work[T]) read(k int) (results []T, err error) {
	manifestPath, result := w.path(manifestName(k)), w.path(resultName(k))
	raw, err := w.place.read(manifestName(k))
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%s is damaged: remove it to redo the shard: %w", manifestPath, err)
	}
	text, err := w.place.read(resultName(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing, although %s exists: remove the manifest to redo the shard", result,
			manifestPath)
	} else if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	from, to := w.plan.Cuts[k-1], w.plan.Cuts[k]
	switch {
	case m.Format != 1 || m.Shard != k || m.Of != w.Count() || m.Plan != w.digest() || m.From != from || m.Rows != to-from:
		return nil, fmt.Errorf("%s does not belong to this plan: remove it to redo the shard", manifestPath)
	case len(text) != m.Bytes || hex.EncodeToString(sum[:]) != m.SHA256:
		return nil, fmt.Errorf("%s is damaged, its digest does not match %s: remove both to redo the shard",
			result, manifestPath)
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

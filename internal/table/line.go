package table

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"assay/data"
	"assay/internal/journal"
	"assay/internal/remote"
	"assay/internal/store"
)

// Line is the result of a row. As JSON it is one object: row, of, the fields of the value, error, unreadable.
type Line[V any] struct {
	Row     int
	Content string // digest of what the result depends on
	Value   V
	Error   string // why the row failed; some values have details

	Unreadable bool // the error is that the answer of a text judge could not be read
	Temporary  bool // the error may be temporary: it is not journaled
}

// Place implements [shards.Outcome].
func (l Line[V]) Place() int { return l.Row }

// Failure implements [shards.Outcome].
func (l Line[V]) Failure() (why string, temporary bool) { return l.Error, l.Temporary }

// The fields before and after the fields of the value.
type (
	lineHead struct {
		Row     int    `json:"row"`
		Content string `json:"of"`
	}
	lineTail struct {
		Error      string `json:"error,omitempty"`
		Unreadable bool   `json:"unreadable,omitempty"`
	}
)

// MarshalJSON concatenates the fields of head, value and tail.
func (l Line[V]) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, part := range []any{lineHead{l.Row, l.Content}, l.Value, lineTail{l.Error, l.Unreadable}} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // the encoder that calls this one may escape
		if err := e.Encode(part); err != nil {
			return nil, err
		}
		fields := bytes.TrimSpace(b.Bytes())
		if len(fields) < 2 || fields[0] != '{' {
			return nil, fmt.Errorf("the value of a row is %.20s, want an object", fields)
		}
		if fields = fields[1 : len(fields)-1]; len(fields) > 0 {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, fields...)
		}
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads a line of MarshalJSON.
func (l *Line[V]) UnmarshalJSON(raw []byte) error {
	var all struct {
		lineHead
		lineTail
	}
	*l = Line[V]{}
	if err := errors.Join(json.Unmarshal(raw, &all), json.Unmarshal(raw, &l.Value)); err != nil {
		return err
	}
	l.Row, l.Content, l.Error, l.Unreadable = all.Row, all.Content, all.Error, all.Unreadable
	return nil
}

// Content is a digest of what a row's result depends on: texts, errors, and pictures by their bytes. Paths are
// relative to folder. unknown is the error if an existing picture cannot be read.
func Content(folder string, parts ...any) (digest string, unknown error) {
	texts := make([]string, len(parts))
	for i, p := range parts {
		m, ok := p.(data.Image)
		if !ok {
			texts[i] = fmt.Sprint(p)
			continue
		}
		key, err := store.Content(folder, m)
		texts[i] = fmt.Sprint(key, err)
		if m.File(folder) != "" && !errors.Is(err, fs.ErrNotExist) {
			unknown = cmp.Or(unknown, err)
		}
		if remote.Failed(err) { // asking for the next picture would take as long
			return "", err
		}
	}
	return store.KeyOf(texts...).String(), unknown
}

// Results are the lines of finished rows. All methods except Has are called by one goroutine at a time.
type Results[V any] interface {
	Has(row int) bool
	Len() int
	Add(lines ...Line[V]) error
	Line(row int) (Line[V], error) // the zero Line if there is none
}

// Memory holds results by their rows.
type Memory[V any] struct {
	mu    *sync.Mutex
	lines map[int]Line[V]
}

// NewMemory returns an empty Memory.
func NewMemory[V any]() Memory[V] { return Memory[V]{new(sync.Mutex), map[int]Line[V]{}} }

// Has reports whether a row is done.
func (m Memory[V]) Has(row int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.lines[row]
	return ok
}

// Len is the number of rows that are done.
func (m Memory[V]) Len() int { return len(m.lines) }

// Add adds lines, replacing earlier ones of their rows.
func (m Memory[V]) Add(lines ...Line[V]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range lines {
		m.lines[l.Row] = l
	}
	return nil
}

// Line returns the line of a row.
func (m Memory[V]) Line(row int) (Line[V], error) { return m.lines[row], nil }

// Journal holds results in a file; in memory a row takes one bit.
type Journal[V any] struct{ index *journal.Index[Line[V]] }

// open opens a journal with the lines of rows that have not changed since.
func (j *Job[Row, V]) open(path string) (*Journal[V], error) {
	head, err := decoded(j.Head)
	if err != nil {
		return nil, err
	}
	x, err := journal.OpenIndex(path, head, j.Rows, func(l Line[V]) int { return l.Row }, func(l Line[V]) bool {
		if j.Skip != nil && j.Skip(l.Row) {
			return false
		}
		changed, _ := j.changed(l)
		return !changed
	})
	if err != nil {
		return nil, err
	}
	return &Journal[V]{x}, nil
}

// changed reports whether a row has changed since its line was written.
func (j *Job[Row, V]) changed(l Line[V]) (changed bool, unknown error) {
	if j.Content == nil {
		return false, nil
	}
	row, err := j.Read(l.Row)
	content, unknown := j.Content(row, err)
	return content != l.Content, unknown
}

// Has reports whether a row is done.
func (k *Journal[V]) Has(row int) bool { return k.index.Has(row) }

// Len is the number of rows that are done.
func (k *Journal[V]) Len() int { return k.index.Len() }

// Add writes lines to the file. Those with a temporary error are held in memory.
func (k *Journal[V]) Add(lines ...Line[V]) error {
	lasting := make([]Line[V], 0, len(lines))
	for _, l := range lines {
		if l.Temporary {
			k.index.Hold(l)
		} else {
			lasting = append(lasting, l)
		}
	}
	return k.index.Write(lasting...)
}

// Line reads the line of a row.
func (k *Journal[V]) Line(row int) (Line[V], error) {
	l, _, err := k.index.Get(row)
	l.Row = row
	return l, err
}

// Close closes the file without removing it.
func (k *Journal[V]) Close() error { return k.index.Close() }

package protocol

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/data"
	"assay/internal/store"
)

// Samples are the rows of tables (Parquet, JSON lines, JSON, CSV) one after the other. They stay open, so that
// pictures inside them can be read on demand.
type Samples struct {
	tables []*data.Table
	rows   []Sample
}

// Sample is a row of a table, from 0.
type Sample struct {
	table *data.Table
	row   int
}

func (p Sample) String() string {
	return fmt.Sprintf("%s, row %d", filepath.Base(p.table.Path()), p.row+1)
}

// noCopies refuses identical files, whose samples would count twice.
func noCopies(files []string) error {
	sizes, first := map[int64][]string{}, map[store.Key]string{}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		sizes[info.Size()] = append(sizes[info.Size()], file)
	}
	for _, same := range sizes {
		if len(same) < 2 {
			continue
		}
		for _, file := range same {
			digest, err := store.FileDigest(file)
			if other, twice := first[digest]; err == nil && twice {
				err = fmt.Errorf("%s and %s are identical: their samples would count twice, so leave one of them out",
					other, file)
			}
			if err != nil {
				return err
			}
			first[digest] = file
		}
	}
	return nil
}

// OpenSamples opens tables that must have the given columns.
func OpenSamples(files []string, columns ...string) (*Samples, error) {
	s := &Samples{}
	if err := noCopies(files); err != nil {
		return nil, err
	}
	for _, file := range files {
		t, err := data.OpenTable(file, data.WithRequired())
		if err != nil {
			return nil, err
		}
		s.tables = append(s.tables, t)
		for i := range t.Len() {
			s.rows = append(s.rows, Sample{t, i})
		}
		if t.Len() == 0 {
			continue
		}
		first, err := t.Record(0)
		if err != nil {
			return nil, err
		}
		for _, c := range columns {
			if _, ok := first.Get(c); !ok {
				var have []string
				for _, f := range first.Fields {
					have = append(have, f.Name)
				}
				return nil, fmt.Errorf("%s: there is no column %q: the columns are %s", file, c,
					strings.Join(have, ", "))
			}
		}
	}
	if len(s.rows) == 0 {
		return nil, fmt.Errorf("%s: no rows", strings.Join(files, ", "))
	}
	return s, nil
}

// Has reports whether the first row has a column.
func (s *Samples) Has(column string) bool {
	r, err := s.rows[0].table.Record(0)
	_, ok := r.Get(column)
	return err == nil && ok
}

// Each calls do with the text of the columns of every row, and collects the problems.
func (s *Samples) Each(columns []string, do func(p Sample, text []string) error) error {
	var list Problems
	for _, p := range s.rows {
		r, err := p.table.Record(p.row)
		if err != nil {
			return err
		}
		text := make([]string, len(columns))
		for i, c := range columns {
			v, _ := r.Get(c)
			if text[i], err = data.Text(v); err != nil {
				list.Add(p.String(), "%s: %v", c, err)
				break
			}
		}
		if err == nil {
			if err := do(p, text); err != nil {
				list.Add(p.String(), "%v", err)
			}
		}
	}
	return list.Err()
}

// Texts reads a column that is a list of strings.
func (p Sample) Texts(column string) ([]string, error) {
	v, err := p.value(column)
	if err != nil {
		return nil, err
	}
	if raw, ok := v.(json.RawMessage); ok {
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("%s: want a list of strings", column)
		}
		return list, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: want a list of strings", column)
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], err = data.Text(e); err != nil {
			return nil, fmt.Errorf("%s: %w", column, err)
		}
	}
	return out, nil
}

func (p Sample) value(column string) (any, error) {
	r, err := p.table.Record(p.row)
	if err != nil {
		return nil, err
	}
	v, ok := r.Get(column)
	if !ok {
		return nil, fmt.Errorf("there is no column %q", column)
	}
	return v, nil
}

// PictureName identifies the picture in a column without opening its file: by its path, or by the digest of bytes that
// are in the table; "" if there is none.
func (p Sample) PictureName(column string) string {
	v, err := p.value(column)
	if err != nil {
		return ""
	}
	m, err := data.ToImage(v)
	if err != nil || len(m.Bytes) == 0 {
		return m.Path
	}
	return fmt.Sprintf("%x", sha256.Sum256(m.Bytes))
}

// Picture returns the picture in a column, or element at of a column of several (at < 0: the column is one picture).
// It is read on demand. Relative paths start at folder, or at the table's folder if that is "".
func (p Sample) Picture(column string, at int, folder string) Picture {
	if folder == "" {
		folder = p.table.Folder()
	}
	return Picture{Read: func() ([]byte, error) {
		v, err := p.value(column)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
		if at >= 0 {
			if raw, ok := v.(json.RawMessage); ok {
				var list []json.RawMessage
				if err := json.Unmarshal(raw, &list); err != nil || at >= len(list) {
					return nil, fmt.Errorf("%v: %s: want a list of pictures", p, column)
				}
				v = list[at]
			} else if list, ok := v.([]any); ok && at < len(list) {
				v = list[at]
			} else {
				return nil, fmt.Errorf("%v: %s: want a list of pictures", p, column)
			}
		}
		m, err := data.ToImage(v)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%v: %s: %w", p, column, err)
		case len(m.Bytes) > 0:
			return m.Bytes, nil
		case m.Path == "":
			return nil, fmt.Errorf("%v: %s: there is no picture", p, column)
		}
		return os.ReadFile(m.File(folder))
	}}
}

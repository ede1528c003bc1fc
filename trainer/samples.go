package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/data"
	"assay/internal/cli"
)

// Samples are the labelled rows of some label tables. Only labels and groups are held; rows are read when they are wanted.
type Samples struct {
	rows []sampleRow
}

type sampleRow struct {
	table *data.Table
	index int
	group string
	label float64

	contents Contents
}

// Len is the number of rows.
func (s *Samples) Len() int { return len(s.rows) }

// Groups are the groups of all rows.
func (s *Samples) Groups() []string {
	out := make([]string, len(s.rows))
	for i, r := range s.rows {
		out[i] = r.group
	}
	return out
}

// choose gives the samples with these indices.
func (s *Samples) choose(rows []int) *Samples {
	out := &Samples{}
	for _, i := range rows {
		out.rows = append(out.rows, s.rows[i])
	}
	return out
}

// Example reads row i; the templates are left to the caller.
func (s *Samples) Example(i int) (Example, error) {
	r := s.rows[i]
	row, err := r.table.Read(r.index)
	if err != nil {
		return Example{}, err
	}
	if row.ID == "" {
		row.ID = fmt.Sprintf("%s row %d", filepath.Base(r.table.Path()), r.index+1)
	}
	return Example{Row: row, Base: r.table.Folder(), Label: r.label, Contents: r.contents}, nil
}

// Examples are what a run learns from or is measured on: rows of label tables, or what a program makes.
type Examples interface {
	Len() int
	Groups() []string // of every example
	Example(i int) (Example, error)
}

// Data is what a run learns from and is measured on.
type Data struct {
	Train, Validation Examples
	Unlabelled        int // rows of the training tables without a label: not used
	tables            []*data.Table
	fingerprint       map[string]string
}

// OpenData opens the tables of a configuration and looks at every row once. The error lists the first rows that are
// wrong.
func OpenData(c *Config) (*Data, error) {
	d := &Data{fingerprint: map[string]string{}}
	if err := d.open(c); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// NewData is data that a program makes. A resumed run must find the same fingerprint again.
func NewData(train, validation Examples, fingerprint map[string]string) *Data {
	return &Data{Train: train, Validation: validation, fingerprint: fingerprint}
}

// Close closes the tables.
func (d *Data) Close() error {
	var err error
	for _, t := range d.tables {
		err = errors.Join(err, t.Close())
	}
	return err
}

func (d *Data) open(c *Config) error {
	s := scan{data: d, columns: c.Data.Columns, digest: sha256.New()}
	all := s.tables(c.Data.Train)
	d.Unlabelled = s.unlabelled
	d.Train = all.split(c.Data.TrainSplit)
	d.Validation = &Samples{}
	d.note("train", &s)
	switch {
	case len(c.Data.Validation.Tables) > 0:
		v := scan{data: d, columns: c.Data.Columns, digest: sha256.New()}
		d.Validation = v.tables(c.Data.Validation.Tables).split(c.Data.ValidationSplit)
		d.note("validation", &v)
		s.problems, s.more = append(s.problems, v.problems...), s.more+v.more
	case c.Data.ValidationSplit != "":
		d.Validation = all.split(c.Data.ValidationSplit)
	case c.Data.Validation.Fraction > 0:
		rows := all.split(c.Data.TrainSplit)
		train, held := holdOut(c.Seed, rows.Groups(), c.Data.Validation.Fraction)
		d.Train, d.Validation = rows.choose(train), rows.choose(held)
	}
	if s.more > 0 {
		s.problems = append(s.problems, fmt.Errorf("and %d more rows", s.more))
	}
	if err := errors.Join(s.problems...); err != nil {
		return fmt.Errorf("the label tables:\n%w", err)
	}
	if d.Train.Len() == 0 {
		return fmt.Errorf("data.train: no labelled rows%s in %s (%d rows have no label)", ofSplit(c.Data.TrainSplit),
			strings.Join(c.Data.Train, ", "), d.Unlabelled)
	}
	if d.Validation.Len() == 0 && (len(c.Data.Validation.Tables) > 0 || c.Data.ValidationSplit != "") {
		return fmt.Errorf("data.validation: no labelled rows%s", ofSplit(c.Data.ValidationSplit))
	}
	return nil
}

func ofSplit(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" with split %q", name)
}

func (d *Data) note(what string, s *scan) {
	d.fingerprint[what+" rows"] = strconv.Itoa(s.rows)
	d.fingerprint[what+" content"] = hex.EncodeToString(s.digest.Sum(nil))[:32]
}

// scan goes through tables once: it hashes them, keeps what is labelled, and notes what is wrong.
type scan struct {
	data       *Data
	columns    map[string]string
	digest     hash.Hash // over the content of all rows
	rows       int
	unlabelled int
	problems   []error
	more       int // problems beyond those listed
}

// splitSamples are samples that still know their split.
type splitSamples struct {
	Samples
	splits []string
}

func (s *splitSamples) split(name string) *Samples {
	var rows []int
	for i, x := range s.splits {
		if name == "" || x == name {
			rows = append(rows, i)
		}
	}
	return s.choose(rows)
}

func (s *scan) tables(paths []string) *splitSamples {
	out := &splitSamples{}
	for _, path := range paths {
		t, err := data.OpenTable(path, data.WithColumns(s.columns))
		if err != nil { // the configuration names no label table
			s.problem(cli.Usage(err))
			continue
		}
		s.data.tables = append(s.data.tables, t)
		i := -1
		for row, err := range t.All() {
			i++
			s.rows++
			var c Contents
			if err == nil {
				c, err = s.row(t, i, &row)
			}
			if err != nil {
				s.problem(err)
				continue
			}
			if row.Label == nil {
				s.unlabelled++
				continue
			}
			group := row.Group
			if group == "" { // on its own
				group = fmt.Sprintf("\x00%d\x00%d", len(s.data.tables), i)
			}
			out.rows = append(out.rows, sampleRow{t, i, group, *row.Label, c})
			out.splits = append(out.splits, row.Split)
		}
	}
	return out
}

// row hashes a row, with the content of its pictures.
func (s *scan) row(t *data.Table, i int, row *data.Row) (c Contents, err error) {
	if err := json.NewEncoder(s.digest).Encode(row.Record()); err != nil {
		return c, err
	}
	if strings.TrimSpace(row.Instruction) == "" {
		return c, fmt.Errorf("%s, row %d: the instruction is empty", t.Path(), i+1)
	}
	for _, p := range []data.Image{row.Source, row.Edit} {
		if path := p.File(t.Folder()); path != "" {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return c, fmt.Errorf("%s, row %d: picture %s is not there", t.Path(), i+1, p.Path)
			}
		}
	}
	if c, err = contentsOf(row, t.Folder()); err != nil {
		return c, fmt.Errorf("%s, row %d: %w", t.Path(), i+1, err)
	}
	for _, k := range c {
		s.digest.Write(k[:])
	}
	return c, nil
}

func (s *scan) problem(err error) {
	if len(s.problems) == 10 {
		s.more++
		return
	}
	s.problems = append(s.problems, err)
}

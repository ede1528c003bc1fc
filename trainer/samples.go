package trainer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/data"
	"assay/internal/exit"
)

// Samples are the labelled rows of some label tables. Only labels and groups are held; rows are read when they are wanted.
type Samples struct {
	rows []sampleRow
}

type sampleRow struct {
	table  *data.Table
	number int // of the table
	index  int
	group  string
	label  float64
	id     string
	digest string // of the content, pictures included
	bad    string // why it cannot be used; "": it can
	step   int64  // at which that was found
	gone   bool   // of a resumed run: the tables do not have it any more

	contents Contents
}

// example reads the row; the templates are left to the caller.
func (r *sampleRow) example() (Example, error) {
	if r.gone {
		return Example{}, errors.New(r.bad)
	}
	row, err := r.table.Read(r.index)
	if err != nil {
		return Example{}, err
	}
	if row.ID == "" {
		row.ID = fmt.Sprintf("%s row %d", filepath.Base(r.table.Path()), r.index+1)
	}
	return Example{Row: row, Base: r.table.Folder(), Label: r.label, Contents: r.contents}, nil
}

func (r *sampleRow) badRow() BadRow {
	return BadRow{Table: r.table.Path(), Row: r.index + 1, ID: r.id, Reason: r.bad, Step: r.step}
}

func (r *sampleRow) tableName() string { return filepath.Base(r.table.Path()) }

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
	return s.rows[i].example()
}

// usable tells whether example i can be used, as far as is known.
func usable(s Examples, i int) bool {
	t, ok := s.(*Samples)
	return !ok || t.rows[i].bad == ""
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
	bad               []unreadRow // rows that could not even be read, of the tables that are used
	fingerprint       map[string]string
}

// unreadRow is a row that is no row of a label table.
type unreadRow struct {
	BadRow
	number int // of the table
}

// OpenData opens the tables of a configuration and looks at every row once. Rows that cannot be used are noted; what is wrong with
// a table as a whole is an error (wrong usage).
func OpenData(c *Config) (*Data, error) {
	d := &Data{fingerprint: map[string]string{}}
	if err := d.open(c); err != nil {
		return nil, also(err, d.Close())
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
		s.problems = append(s.problems, v.problems...)
	case c.Data.ValidationSplit != "":
		d.Validation = all.split(c.Data.ValidationSplit)
	case c.Data.Validation.Fraction > 0:
		rows := all.split(c.Data.TrainSplit)
		train, held := holdOut(c.Seed, rows.Groups(), c.Data.Validation.Fraction)
		d.Train, d.Validation = rows.choose(train), rows.choose(held)
	}
	if err := errors.Join(s.problems...); err != nil {
		return exit.Usage(fmt.Errorf("the label tables:\n%w", err))
	}
	if c.Data.Sampling == "group" && !all.grouped && d.Train.Len() > 0 {
		return exit.Usagef("data.sampling: group, but no row of %s has a group: %s", strings.Join(c.Data.Train, ", "), s.cure("group"))
	}
	if d.Train.Len() == 0 && len(d.bad) == 0 {
		return exit.Usagef("data.train: no labelled rows%s in %s (%d rows, %d without a label)%s", ofSplit(c.Data.TrainSplit),
			strings.Join(c.Data.Train, ", "), s.rows, d.Unlabelled, s.hint(all, c.Data.TrainSplit))
	}
	if d.Validation.Len() == 0 && len(d.bad) == 0 && (len(c.Data.Validation.Tables) > 0 || c.Data.ValidationSplit != "") {
		return exit.Usagef("data.validation: no labelled rows%s", ofSplit(c.Data.ValidationSplit))
	}
	return nil
}

// hint says why no row was found: the table has no column of that name, or other splits.
func (s *scan) hint(all *splitSamples, split string) string {
	if s.rows > 0 && s.unlabelled == s.rows {
		return ": " + s.cure("label")
	}
	if split == "" || len(all.splits) == 0 {
		return ""
	}
	have := slices.Clone(all.splits)
	slices.Sort(have)
	if have = slices.Compact(have); len(have) == 1 && have[0] == "" {
		return ": " + s.cure("split")
	}
	return fmt.Sprintf(": its splits are %q", have)
}

// cure says how to name a column that was not found.
func (s *scan) cure(column string) string {
	names := "none"
	for _, t := range s.data.tables {
		if rec, err := t.Record(0); t.Len() > 0 && err == nil {
			var list []string
			for _, f := range rec.Fields {
				list = append(list, f.Name)
			}
			names = strings.Join(list, ", ")
			break
		}
	}
	own := column
	if name, ok := s.columns[column]; ok {
		own = name
	}
	return fmt.Sprintf("is there a column %q? The columns are %s; name the right one with data: {columns: {%s: NAME}}", own, names, column)
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
	problems   []error // of tables as a whole
}

// splitSamples are samples that still know their split.
type splitSamples struct {
	Samples
	splits  []string
	grouped bool // a row has a group
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
			s.problems = append(s.problems, withCure(err))
			continue
		}
		s.data.tables = append(s.data.tables, t)
		if err := s.mapped(t); err != nil {
			s.problems = append(s.problems, withCure(err))
			continue
		}
		s.table(t, out)
	}
	return out
}

// withCure adds to the error about a column that is not there how to name the right one.
func withCure(err error) error {
	var missing *data.MissingColumnError
	if !errors.As(err, &missing) {
		return err
	}
	return fmt.Errorf("%w: name the column that has it with data: {columns: {%s: NAME}}", err, missing.Column)
}

// mapped looks for the columns that data.columns names.
func (s *scan) mapped(t *data.Table) error {
	wanted := maps.Clone(s.columns)
	var have []string
	for rec, err := range t.Records() {
		if len(wanted) == 0 {
			return nil
		}
		if err != nil {
			continue
		}
		if have == nil {
			for _, f := range rec.Fields {
				have = append(have, f.Name)
			}
		}
		maps.DeleteFunc(wanted, func(_, name string) bool {
			_, ok := rec.Get(name)
			return ok
		})
	}
	if have == nil || len(wanted) == 0 {
		return nil
	}
	ours := slices.Sorted(maps.Keys(wanted))[0]
	return fmt.Errorf("%s: %w", t.Path(), &data.MissingColumnError{Column: ours, Name: wanted[ours], Have: have})
}

// table goes through one table.
func (s *scan) table(t *data.Table, out *splitSamples) {
	number, lacks := len(s.data.tables)-1, map[string]int{}
	var bad []unreadRow
	var lack error
	i := -1
	for row, err := range t.All() {
		i++
		s.rows++
		var missing *data.MissingColumnError
		if errors.As(err, &missing) {
			lacks[missing.Column]++
			lack = missing
		}
		if err != nil {
			bad = append(bad, unreadRow{BadRow{Table: t.Path(), Row: i + 1, ID: row.ID, Reason: err.Error()}, number})
			continue
		}
		contents, unread := contentsOf(&row, t.Folder())
		digest, err := s.content(&row, contents)
		if err != nil {
			bad = append(bad, unreadRow{BadRow{Table: t.Path(), Row: i + 1, ID: row.ID, Reason: err.Error()}, number})
			continue
		}
		if row.Label == nil {
			s.unlabelled++
			continue
		}
		group := row.Group
		out.grouped = out.grouped || group != ""
		if group == "" { // on its own
			group = fmt.Sprintf("\x00%d\x00%d", len(s.data.tables), i)
		}
		sample := sampleRow{table: t, number: number, index: i, group: group, label: *row.Label, id: row.ID, digest: digest, contents: contents}
		if err := cmp.Or(s.row(t, &row), unread); err != nil {
			sample.bad = err.Error()
		}
		out.rows = append(out.rows, sample)
		out.splits = append(out.splits, row.Split)
	}
	for _, n := range lacks {
		if n == t.Len() { // not the rows are wrong, but the name
			s.problems = append(s.problems, withCure(fmt.Errorf("%s: %w", t.Path(), lack)))
			return
		}
	}
	s.data.bad = append(s.data.bad, bad...)
}

// content hashes a row with its pictures: into the table's digest, and on its own.
func (s *scan) content(row *data.Row, pictures Contents) (string, error) {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(row.Record()); err != nil {
		return "", err
	}
	for _, k := range pictures {
		text.Write(k[:])
	}
	s.digest.Write(text.Bytes())
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:8]), nil
}

// row looks whether there is an instruction, and whether the pictures are there.
func (s *scan) row(t *data.Table, row *data.Row) error {
	if strings.TrimSpace(row.Instruction) == "" {
		return errors.New("the instruction is empty")
	}
	for _, p := range []data.Image{row.Source, row.Edit} {
		if len(p.Bytes) > 0 {
			continue
		}
		if _, err := os.Stat(absolute(t.Folder(), p.Path)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("picture %s is not there", p.Path)
		} else if err != nil {
			return err
		}
	}
	return nil
}

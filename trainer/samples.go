package trainer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"assay/chat/table"
	"assay/data"
	"assay/internal/exit"
	"assay/store"
)

// Samples are the labelled rows of some label tables. Only labels and groups are held; rows are read when they are
// wanted.
type Samples struct {
	rows []sampleRow
}

type sampleRow struct {
	table  *data.Edits
	number int // of the table
	index  int
	group  string  // by name: what is drawn from and held out together
	unit   string  // what it is compared in: see comparedIn
	asked  string  // the same for one source and instruction
	label  float64 // 0 without one
	weight float64 // of data.weight
	Said   Said
	id     string
	digest string // of the content, pictures included
	bad    string // why it cannot be used; "": it can
	step   int64  // at which that was found
	gone   bool   // of a resumed run: the tables do not have it any more

	contents Contents

	talks    *table.Conversations // of mode text, in place of table
	pictures []store.Key          // of the conversation: their contents
}

// example reads the row; the templates are left to the caller.
func (r *sampleRow) example() (Example, error) {
	if r.gone {
		return Example{}, errors.New(r.bad)
	}
	if r.talks != nil {
		return r.conversation()
	}
	row, err := r.table.Read(r.index)
	if err != nil {
		return Example{}, err
	}
	if row.ID == "" {
		row.ID = r.table.Place(r.index)
	}
	return Example{Row: row.Row, Base: r.table.Folder(), Label: r.label, Contents: r.contents, Said: r.Said}, nil
}

func (r *sampleRow) badRow() BadRow {
	return BadRow{
		Table:  r.path(),
		Row:    r.index + 1,
		ID:     r.id,
		Reason: r.bad,
		Step:   r.step,
		Place:  placeOf(r.table, r.index),
	}
}

// placeOf names the edit of a table with two edits a row.
func placeOf(t *data.Edits, index int) string {
	if t == nil || t.Each() == 1 {
		return ""
	}
	return t.Place(index)
}

// place is where the row stands.
func (r *sampleRow) place() rowPlace { return rowPlace{filepath.Base(r.path()), r.index} }

// path is the row's table.
func (r *sampleRow) path() string {
	if r.talks != nil {
		return r.talks.Path()
	}
	return r.table.Path()
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

// units are the groups that the edits of all rows are compared in.
func (s *Samples) units() []string {
	out := make([]string, len(s.rows))
	for i, r := range s.rows {
		if out[i] = r.unit; r.unit == "" {
			out[i] = r.group
		}
	}
	return out
}

// regroup says what the groups are that a run orders, and its list of rows keeps.
func (s *Samples) regroup(names []string) {
	for i, name := range names {
		s.rows[i].group = name
	}
}

// choose gives the samples with these indices.
func (s *Samples) choose(rows []int) *Samples {
	out := &Samples{rows: make([]sampleRow, 0, len(rows))}
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
	Unlabelled        int            // rows of the training tables without a label: not used
	Warnings          []string       // of rows that a run can use, but hardly means to
	unread            map[string]int // rows of the training tables by dimensions that no loss reads
	tables            []*data.Edits
	talks             []*table.Conversations // of mode text
	bad               []unreadRow            // rows that could not even be read, of the tables that are used
	fingerprint       map[string]string

	hasLedger bool        // the order of the rows is that of the run directory's list
	ledger    []ledgerRow // that list
	repaired  bool        // a repair of the tables changed what the list says
	excluded  []sampleRow // quarantined when the run began: not in the order
}

// OpenData opens the tables of a configuration and looks at every row once. Rows that cannot be used are noted; what is
// wrong with a table as a whole is an error (wrong usage).
func OpenData(c *Config) (*Data, error) {
	d := &Data{fingerprint: map[string]string{}}
	if err := d.open(c); err != nil {
		return nil, errorsOf(err, d.Close())
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
	for _, t := range d.talks {
		err = errors.Join(err, t.Close())
	}
	return err
}

func (d *Data) open(c *Config) error {
	if c.Mode == ModeText {
		return d.openConversations(c)
	}
	s := scan{
		data:     d,
		columns:  c.Data.Columns,
		digest:   sha256.New(),
		wanted:   c.learnsFrom,
		compares: len(c.Losses) > 0,
		weight:   c.Data.Weight,
		whole:    c.Data.Sampling == WholeGroups,
	}
	all := s.tables(c.Data.Train)
	d.Unlabelled = s.unlabelled
	for dimension, n := range s.said {
		if len(c.Losses) > 0 && !c.reads(dimension) {
			if d.unread == nil {
				d.unread = map[string]int{}
			}
			d.unread[cmp.Or(dimension, "score")] = n
		}
	}
	d.Train = all.split(c.Data.TrainSplit)
	d.Validation = &Samples{}
	if c.Data.ValidationSplit == "" || len(c.Data.Validation.Tables) > 0 {
		all.rows = nil // of many rows each copy counts
	}
	d.note("train", &s)
	switch {
	case len(c.Data.Validation.Tables) > 0:
		v := scan{data: d, columns: c.Data.Columns, digest: sha256.New(), wanted: c.measures, compares: len(c.Losses) > 0,
			whole: s.whole}
		d.Validation = v.tables(c.Data.Validation.Tables).split(c.Data.ValidationSplit)
		d.note("validation", &v)
		s.problems = append(s.problems, v.problems...)
	case c.Data.ValidationSplit != "":
		d.Validation = all.split(c.Data.ValidationSplit)
	case c.Data.Validation.Fraction > 0:
		rows := d.Train.(*Samples)
		train, held := holdOut(c.Seed, rows.Groups(), c.Data.Validation.Fraction)
		d.Train, d.Validation = rows.choose(train), rows.choose(held)
	}
	switch rows := d.Train.(*Samples); c.Data.Sampling {
	case WholeGroups:
		rows.regroup(rows.units())
	case "group":
		rows.regroup(rows.groupKeys())
	}
	d.lookForRepeats(c.Data.Validation.Fraction > 0)
	return d.checkRows(c, &s, all)
}

// checkRows refuses tables that have problems, or no rows for what the configuration asks.
func (d *Data) checkRows(c *Config, s *scan, all *splitSamples) error {
	if err := errors.Join(s.problems...); err != nil {
		return exit.Usage(fmt.Errorf("the label tables:\n%w", err))
	}
	if c.Data.Sampling != "rows" && !all.grouped && d.Train.Len() > 0 {
		return exit.Usagef("data.sampling: %s, but no row of %s has a group: %s", c.Data.Sampling,
			strings.Join(c.Data.Train, ", "), s.columnHint("group"))
	}
	if d.Train.Len() == 0 && len(d.bad) == 0 {
		return exit.Usagef("data.train: no labelled rows%s in %s (%d rows, %d without a label)%s",
			withSplit(c.Data.TrainSplit), strings.Join(c.Data.Train, ", "), s.rows, d.Unlabelled, s.hint(all, c.Data.TrainSplit))
	}
	if d.Validation.Len() == 0 && len(d.bad) == 0 && (len(c.Data.Validation.Tables) > 0 || c.Data.ValidationSplit != "") {
		return exit.Usagef("data.validation: no labelled rows%s", withSplit(c.Data.ValidationSplit))
	}
	return nil
}

func (d *Data) note(what string, s *scan) {
	d.fingerprint[what+" rows"] = strconv.Itoa(s.rows)
	d.fingerprint[what+" content"] = hex.EncodeToString(s.digest.Sum(nil))[:32]
}

// name says where a row stands, for people.
func (s *Samples) name(i int) string {
	r := &s.rows[i]
	if r.table == nil && r.talks == nil {
		return r.id
	}
	return cmp.Or(placeOf(r.table, r.index), r.place().String())
}

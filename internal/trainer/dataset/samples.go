// Package dataset turns label tables, or tables of conversations, into batches of examples.
//
// Open scans every row once: it hashes rows and pictures, groups edits, splits off validation rows and notes rows that
// cannot be used (quarantine.go). An Order says which row comes when, as a function of the seed; a BatchSampler cuts
// the order into batches and micro-batches; a Loader reads them and prefetches the next one. A list of rows in the run
// directory (ledger.go) lets a resumed run find its rows again, even in tables that were repaired or reordered.
package dataset

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
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/trainer/config"
)

// Samples are the rows of label tables, or examples that a program makes. Of rows only labels and groups are held; they
// are read when they are wanted.
type Samples struct {
	Rows []Row
	made Examples // by a program; nil: Rows are of tables
}

// Row is a labelled edit, or a conversation, of a table: what a run keeps of it in memory.
type Row struct {
	table       *data.Edits
	number      int // of the table
	Index       int
	Group       string  // by name: what is drawn from and held out together
	unit        string  // what it is compared in: see comparedIn
	Asked       string  // the same for one source and instruction
	Label       float64 // 0 without one
	weight      float64 // of data.weight
	Annotations data.Annotations
	ID          string
	Digest      string // of the content, pictures included
	Bad         string // why it cannot be used; "": it can
	step        int64  // at which that was found
	gone        bool   // of a resumed run: the tables do not have it any more

	contents Contents

	conversations *table.Conversations // of mode text, in place of table
	pictures      []store.Key          // of the conversation: their contents
}

// example reads the row; the templates are left to the caller.
func (r *Row) example() (Example, error) {
	if r.gone {
		return Example{}, errors.New(r.Bad)
	}
	if r.conversations != nil {
		return r.conversation()
	}
	row, err := r.table.Read(r.Index)
	if err != nil {
		return Example{}, err
	}
	picture := func(m data.Image, content store.Key) RowPicture {
		return RowPicture{File: data.File{Image: m, Folder: r.table.Folder()}, Content: content}
	}
	e := &edit.Edit{Output: picture(row.Edit, r.contents.edit), Instruction: row.Instruction}
	for i, m := range append([]data.Image{row.Source}, row.References...) {
		if i >= len(r.contents.sources) {
			return Example{}, errors.New("the row has more sources than when the run looked at it")
		}
		e.Sources = append(e.Sources, picture(m, r.contents.sources[i]))
	}
	e.ID, e.Group = cmp.Or(row.ID, r.table.Place(r.Index)), row.Group
	return Example{Edit: *e, Label: r.Label, Why: row.Why, Annotations: r.Annotations}, nil
}

func (r *Row) badRow() BadRow {
	return BadRow{Table: r.path(), Row: r.Index + 1, ID: r.ID, Reason: r.Bad, Step: r.step,
		Place: placeOf(r.table, r.Index)}
}

// placeOf names the edit of a table with two edits a row.
func placeOf(t *data.Edits, index int) string {
	if t == nil || t.Each() == 1 {
		return ""
	}
	return t.Place(index)
}

// place is where the row stands.
func (r *Row) place() rowPlace { return rowPlace{filepath.Base(r.path()), r.Index} }

// path is the row's table.
func (r *Row) path() string {
	if r.conversations != nil {
		return r.conversations.Path()
	}
	return r.table.Path()
}

// Len is the number of rows.
func (s *Samples) Len() int {
	if s.made != nil {
		return s.made.Len()
	}
	return len(s.Rows)
}

// Made reports whether a program makes the examples.
func (s *Samples) Made() bool { return s.made != nil }

// Groups are the groups of all rows.
func (s *Samples) Groups() []string {
	if s.made != nil {
		return s.made.Groups()
	}
	out := make([]string, len(s.Rows))
	for i, r := range s.Rows {
		out[i] = r.Group
	}
	return out
}

// Units are the groups that the edits of all rows are compared in.
func (s *Samples) Units() []string {
	out := make([]string, len(s.Rows))
	for i, r := range s.Rows {
		if out[i] = r.unit; r.unit == "" {
			out[i] = r.Group
		}
	}
	return out
}

// regroup says what the groups are that a run orders, and its list of rows keeps.
func (s *Samples) regroup(names []string) {
	for i, name := range names {
		s.Rows[i].Group = name
	}
}

// choose gives the samples with these indices.
func (s *Samples) choose(rows []int) *Samples {
	out := &Samples{Rows: make([]Row, 0, len(rows))}
	for _, i := range rows {
		out.Rows = append(out.Rows, s.Rows[i])
	}
	return out
}

// Example reads row i; the templates are left to the caller.
func (s *Samples) Example(i int) (Example, error) {
	if s.made != nil {
		return s.made.Example(i)
	}
	return s.Rows[i].example()
}

// ID names example i; "" where a program makes it.
func (s *Samples) ID(i int) string {
	if s.made != nil {
		return ""
	}
	return s.Rows[i].ID
}

// Usable reports whether example i can be used, as far as is known.
func (s *Samples) Usable(i int) bool { return s.made != nil || s.Rows[i].Bad == "" }

// Examples are made by a program.
type Examples interface {
	Len() int
	Groups() []string // of every example
	Example(i int) (Example, error)
}

// Data are a run's training and validation examples.
type Data struct {
	Train, Validation *Samples
	Unlabelled        int            // rows of the training tables without a label: not used
	Warnings          []string       // of rows that a run can use, but hardly means to
	Unread            map[string]int // rows of the training tables by dimensions that no loss reads
	Tables            []*data.Edits
	conversations     []*table.Conversations // of mode text
	bad               []unreadRow            // rows that could not even be read, of the tables that are used
	Fingerprint       map[string]string

	hasLedger bool        // the rows are in the order of the run directory's list
	ledger    []ledgerRow // that list
	repaired  bool        // a repair of the tables changed what the list says
	excluded  []Row       // quarantined when the run began: not in the order
}

// Open opens the tables of a configuration and looks at every row once. Rows that cannot be used are noted; what is
// wrong with a table as a whole is an error (wrong usage).
func Open(c *config.Config) (*Data, error) {
	d := &Data{Fingerprint: map[string]string{}}
	if err := d.open(c); err != nil {
		return nil, exit.Join(err, d.Close())
	}
	return d, nil
}

// New is data that a program makes. A resumed run must find the same fingerprint again.
func New(train, validation Examples, fingerprint map[string]string) *Data {
	return &Data{Train: &Samples{made: train}, Validation: &Samples{made: validation}, Fingerprint: fingerprint}
}

// Close closes the tables.
func (d *Data) Close() error {
	var err error
	for _, t := range d.Tables {
		err = errors.Join(err, t.Close())
	}
	for _, t := range d.conversations {
		err = errors.Join(err, t.Close())
	}
	return err
}

func (d *Data) open(c *config.Config) error {
	if c.Mode == config.ModeText {
		return d.openConversations(c)
	}
	s := scan{
		data:     d,
		columns:  c.Data.Columns,
		classes:  c.Classes(),
		unread:   func(dimension string) bool { return !c.Reads(dimension) },
		digest:   sha256.New(),
		wanted:   func(e *data.Row) bool { return learnsFrom(c, e) },
		compares: len(c.Losses) > 0,
		weight:   c.Data.Weight,
		whole:    c.Data.Sampling == config.WholeGroups,
	}
	all := s.tables(c.Data.Train)
	d.Unlabelled = s.unlabelled
	for dimension, n := range s.annotated {
		if len(c.Losses) > 0 && !c.Reads(dimension) {
			if d.Unread == nil {
				d.Unread = map[string]int{}
			}
			d.Unread[cmp.Or(dimension, "score")] = n
		}
	}
	d.Train = all.split(c.Data.TrainSplit)
	d.Validation = &Samples{}
	if c.Data.ValidationSplit == "" || len(c.Data.Validation.Tables) > 0 {
		all.Rows = nil // of many rows each copy counts
	}
	d.note("train", &s)
	switch {
	case len(c.Data.Validation.Tables) > 0:
		v := s
		v.digest, v.wanted, v.weight = sha256.New(), func(e *data.Row) bool { return measures(c, e) }, ""
		v.rows, v.unlabelled, v.annotated, v.problems = 0, 0, nil, nil
		d.Validation = v.tables(c.Data.Validation.Tables).split(c.Data.ValidationSplit)
		d.note("validation", &v)
		s.problems = append(s.problems, v.problems...)
	case c.Data.ValidationSplit != "":
		d.Validation = all.split(c.Data.ValidationSplit)
	case c.Data.Validation.Fraction > 0:
		rows := d.Train
		train, held := holdOut(c.Seed, rows.Groups(), c.Data.Validation.Fraction)
		d.Train, d.Validation = rows.choose(train), rows.choose(held)
	}
	switch rows := d.Train; c.Data.Sampling {
	case config.WholeGroups:
		rows.regroup(rows.Units())
	case "group":
		rows.regroup(rows.groupKeys())
	}
	d.lookForRepeats(c.Data.Validation.Fraction > 0)
	return d.checkRows(c, &s, all)
}

// checkRows refuses tables that have problems, or no rows for what the configuration asks.
func (d *Data) checkRows(c *config.Config, s *scan, all *splitSamples) error {
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
	d.Fingerprint[what+" rows"] = strconv.Itoa(s.rows)
	d.Fingerprint[what+" content"] = hex.EncodeToString(s.digest.Sum(nil))[:32]
}

// Name says where a row stands, for people.
func (s *Samples) Name(i int) string {
	r := &s.Rows[i]
	if r.table == nil && r.conversations == nil {
		return r.ID
	}
	return cmp.Or(placeOf(r.table, r.Index), r.place().String())
}

// IDs lists the ids of examples for people.
func IDs(examples []Example) string {
	var out []string
	for i, e := range examples {
		if i == 16 {
			out = append(out, fmt.Sprintf("and %d more", len(examples)-i))
			break
		}
		out = append(out, e.Edit.ID)
	}
	return strings.Join(out, ", ")
}

// LabelCounts counts labels 0, between, 0.5, between, 1.
func (s *Samples) LabelCounts() (n [5]int) {
	for _, r := range s.Rows {
		switch {
		case r.Bad != "" || !r.labelled():
		case r.Label == 0:
			n[0]++
		case r.Label < 0.5:
			n[1]++
		case r.Label == 0.5:
			n[2]++
		case r.Label < 1:
			n[3]++
		default:
			n[4]++
		}
	}
	return n
}

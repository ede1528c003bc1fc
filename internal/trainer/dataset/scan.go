package dataset

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/remote"
	"assay/internal/store"
)

// unreadRow is a row that is not a valid row of a label table.
type unreadRow struct {
	BadRow
	number int // of the table
}

// scan reads tables once: it hashes them, keeps the labelled rows, and records problems.
type scan struct {
	data       *Data
	columns    map[string]string
	classes    map[string][]string    // names of classes by dimension
	unread     func(string) bool      // reports whether no loss uses the dimension
	compares   bool                   // the run learns from more than score labels
	whole      bool                   // batches hold whole groups
	wanted     func(e *data.Row) bool // reports whether the run can use an edit's annotations
	digest     hash.Hash              // over the content of all rows
	weight     string                 // column of data.weight; "": none
	further    []string               // additional columns of conversations
	rows       int
	unlabelled int
	annotated  map[string]int // number of annotated rows by dimension
	problems   []error        // of tables as a whole
}

// splitSamples are samples that still know their split.
type splitSamples struct {
	Samples
	splits  []string
	grouped bool // a row has a group
}

func (s *splitSamples) split(name string) *Samples {
	if name == "" {
		return &Samples{Rows: slices.Clip(s.Rows)}
	}
	var rows []int
	for i, x := range s.splits {
		if x == name {
			rows = append(rows, i)
		}
	}
	return s.choose(rows)
}

func (s *scan) tables(paths []string) *splitSamples {
	out := &splitSamples{}
	for _, path := range paths {
		t, err := data.OpenEdits(path, s.columns)
		if err != nil { // not a label table
			s.problems = append(s.problems, withColumnHint(err))
			continue
		}
		t.Classes, t.Unread = s.classes, s.unread
		s.data.Tables = append(s.data.Tables, t)
		if err := t.FindColumns(s.columns); err != nil {
			s.problems = append(s.problems, withColumnHint(err))
			continue
		}
		s.table(t, out)
	}
	return out
}

// withColumnHint adds to the error about a missing column how to name the right one.
func withColumnHint(err error) error {
	var missing *data.MissingColumnError
	if !errors.As(err, &missing) {
		return err
	}
	return fmt.Errorf("%w: name the right one with data: {columns: {%s: NAME}}", err, missing.Column)
}

// table scans one table.
func (s *scan) table(t *data.Edits, out *splitSamples) {
	number, lacks := len(s.data.Tables)-1, map[string]int{}
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
		var contents Contents
		var unread error
		var digest string
		if err == nil {
			contents, unread = contentsOf(&row, t.Folder())
			digest, err = s.content(&row, contents)
		}
		if remote.Failed(unread) { // not the fault of the row, and the next row would wait as long
			s.problems = append(s.problems, fmt.Errorf("row %d: %w", i+1, unread))
			return
		}
		if err != nil {
			bad = append(bad, unreadRow{BadRow{Table: t.Path(), Row: i + 1, ID: row.ID, Reason: err.Error(),
				Place: placeOf(t, i)}, number})
			continue
		}
		s.count(&row)
		if !s.wanted(&row) {
			s.unlabelled++
			continue
		}
		sample := Row{table: t, number: number, Index: i, Asked: asked(&contents, row.Instruction),
			Annotations: row.Annotations, ID: row.ID, Digest: digest, contents: contents}
		if err := s.weigh(&sample); err != nil {
			s.problems = append(s.problems, err)
			return
		}
		if err := cmp.Or(s.row(t, &row), unread); err != nil {
			sample.Bad = err.Error()
		}
		s.add(out, &sample, &row)
	}
	if slices.Contains(slices.Collect(maps.Values(lacks)), t.Len()) { // the column name is wrong, not the rows
		s.problems = append(s.problems, withColumnHint(fmt.Errorf("%s: %w", t.Path(), lack)))
		return
	}
	s.data.bad = append(s.data.bad, bad...)
}

// weigh sets the weight of a sample if there is a weight column; the weight is part of its digest.
func (s *scan) weigh(sample *Row) (err error) {
	if s.weight == "" {
		return nil
	}
	if sample.weight, err = s.weightOf(sample.table, sample.Index); err != nil {
		return err
	}
	sample.Digest = weighted(sample.Digest, sample.weight)
	fmt.Fprintln(s.digest, sample.Digest)
	return nil
}

// add adds the sample of a row, in its group and the unit that it is compared in.
func (s *scan) add(out *splitSamples, sample *Row, row *data.Row) {
	sample.Group = sample.groupOf(row, s.whole)
	out.grouped = out.grouped || sample.Group != ""
	if sample.Group == "" { // a group by itself
		sample.Group = fmt.Sprintf("\x00%d\x00%d", len(s.data.Tables), sample.Index)
	}
	sample.unit = sample.comparedIn(row)
	if row.Label != nil {
		sample.Label = *row.Label
	}
	out.Rows = append(out.Rows, *sample)
	out.splits = append(out.splits, row.Split)
}

// count counts the annotated dimensions of a row.
func (s *scan) count(row *data.Row) {
	if s.annotated == nil {
		s.annotated = map[string]int{}
	}
	dimensions := row.Dimensions()
	for _, d := range dimensions {
		s.annotated[d]++
	}
	if p := row.Verdict; p != nil && !slices.Contains(dimensions, p.Dimension) {
		s.annotated[p.Dimension]++
	}
}

// content hashes a row with its pictures, both into the table's digest and separately.
func (s *scan) content(row *data.Row, pictures Contents) (string, error) {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(row.Record()); err != nil {
		return "", err
	}
	if s.compares { // otherwise the digest stays as in earlier versions
		if err := json.NewEncoder(&text).Encode(row.Annotations); err != nil {
			return "", err
		}
	}
	for _, k := range pictures.all() {
		text.Write(k[:])
	}
	s.digest.Write(text.Bytes())
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:8]), nil
}

// asked returns a key that is equal for rows with the same sources and instruction.
func asked(c *Contents, instruction string) string {
	key := c.scene()
	return data.GroupOf(key[:], instruction)
}

// row checks that there is an instruction, and that the pictures exist.
func (s *scan) row(t *data.Edits, row *data.Row) error {
	if strings.TrimSpace(row.Instruction) == "" {
		return errors.New("the instruction is empty")
	}
	for k, p := range append([]data.Image{row.Source, row.Edit}, row.References...) {
		if p.IsZero() { // a list of sources has none without a picture
			return fmt.Errorf("%s: no picture", []string{"source", "edit"}[k])
		}
		if len(p.Bytes) > 0 {
			continue
		}
		if err := there(p.File(t.Folder())); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("picture %s does not exist", p.Path)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// there checks that a file, or an object in storage, exists.
func there(name string) error {
	var err error
	if remote.Is(name) {
		_, err = remote.Stat(context.Background(), name)
	} else {
		_, err = os.Stat(name)
	}
	return err
}

// hint explains why no row was found: the table has no column of that name, or other splits.
func (s *scan) hint(all *splitSamples, split string) string {
	if s.rows > 0 && s.unlabelled == s.rows {
		return ": " + s.columnHint("label")
	}
	if split == "" || len(all.splits) == 0 {
		return ""
	}
	have := slices.Clone(all.splits)
	slices.Sort(have)
	if have = slices.Compact(have); len(have) == 1 && have[0] == "" {
		return ": " + s.columnHint("split")
	}
	return fmt.Sprintf(": its splits are %q", have)
}

// columnHint explains how to name a column that was not found.
func (s *scan) columnHint(column string) string {
	names := "none"
	for _, t := range s.data.Tables {
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
	return fmt.Sprintf("is there a column %q? The columns are %s; name the right one with data: {columns: {%s: NAME}}",
		own, names, column)
}

func withSplit(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" with split %q", name)
}

// theEdit identifies an edit: source, instruction and edited picture.
type theEdit struct {
	asked string
	edit  store.Key
}

func (r *Row) theEdit() theEdit { return theEdit{r.Asked, r.contents.edit} }

// lookForRepeats warns of data that a run can use but probably should not: one edit with two labels, sources and
// edits that look swapped, and validation on edits that are also trained on or, if a fraction is held out, on their
// source pictures.
func (d *Data) lookForRepeats(fraction bool) {
	train, validation := d.Train, d.Validation
	labels, contrary := map[theEdit]float64{}, 0
	for i := range train.Rows {
		r := &train.Rows[i]
		if r.Bad != "" || !r.labelled() {
			continue
		}
		label, before := labels[r.theEdit()]
		if !before {
			labels[r.theEdit()] = r.Label
		} else if label != r.Label {
			contrary++
		}
	}
	if contrary > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d training rows give an edit a different label than an "+
			"earlier row: all of them are trained on", contrary, train.Len()))
	}
	sources, scenes, edits := map[store.Key]bool{}, map[store.Key]bool{}, map[store.Key]bool{}
	for i := range train.Rows {
		if r := &train.Rows[i]; r.Bad == "" && r.contents.known() {
			scenes[r.contents.scene()], edits[r.contents.edit] = true, true
			for _, k := range r.contents.sources {
				sources[k] = true
			}
		}
	}
	if data.LookSwapped(len(scenes), len(edits)) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("the training rows have %d different sources and only %d different "+
			"edits: are the columns source and edit swapped?", len(scenes), len(edits)))
	}
	d.lookForTrained(train, validation, sources, fraction)
}

// lookForTrained warns of validation rows whose edits, or with a held-out fraction whose sources, are also trained
// on.
func (d *Data) lookForTrained(train, validation *Samples, sources map[store.Key]bool, fraction bool) {
	learnt, known, shown := map[theEdit]bool{}, 0, 0
	for i := range train.Rows {
		learnt[train.Rows[i].theEdit()] = true
	}
	for i := range validation.Rows {
		r := &validation.Rows[i]
		if r.Bad == "" && learnt[r.theEdit()] {
			known++
		}
		if r.Bad == "" && fraction && slices.ContainsFunc(r.contents.sources, func(k store.Key) bool { return sources[k] }) {
			shown++
		}
	}
	if known > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d validation rows are edits that are also trained on: their "+
			"metrics say nothing about other edits", known, validation.Len()))
	}
	if shown > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d validation rows have a source picture that is also trained "+
			"on: a fraction holds out whole groups, so give all rows of one picture the same `group`", shown, validation.Len()))
	}
}

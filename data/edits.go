package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The layouts of tables that training reads.
const (
	LayoutLabels      = "labels"      // a label table, one row per edit; label_<dimension>, rank, rank_<dimension>, votes
	LayoutPreferences = "preferences" // TRL's: prompt, source, chosen, rejected, margin; votes; see PreferenceColumns
	LayoutEditReward  = "editreward"  // EditReward-Data: left and right outputs, scores on two dimensions, a vote
)

// PreferenceColumns are the columns of the preferences layout that label tables lack.
var PreferenceColumns = []Column{
	{"prompt", KindText}, {"chosen", KindImage}, {"rejected", KindImage}, {"margin", KindNumber},
	{"votes_chosen", KindNumber}, {"votes_tie", KindNumber}, {"votes_rejected", KindNumber}, {"dimension", KindText},
}

// CheckEditColumn refuses a name that is not one of our columns in any layout.
func CheckEditColumn(name string) error {
	named := func(c Column) bool { return c.Name == name }
	if name == sourcesColumn || name == "rank" || name == "votes" || name == ratingsColumn ||
		strings.HasPrefix(name, "label_") ||
		strings.HasPrefix(name, "rank_") || slices.ContainsFunc(LabelColumns, named) ||
		slices.ContainsFunc(PreferenceColumns, named) {
		return nil
	}
	return fmt.Errorf("want one of our columns: %s", strings.Join(columnNames(LabelColumns), ", "))
}

// Edits is a table of edits in any of the layouts, read with their annotations. A row with two edits counts twice:
// edit i is in row i/2 of the table.
type Edits struct {
	*Table
	Layout  string
	Classes map[string][]string         // by dimension: the names that label_<dimension> holds instead of numbers
	Unread  func(dimension string) bool // the dimension is not used, so its labels may be any names; nil: all are used
	names   map[string]string           // our column -> the table's
	own     map[string]string           // the table's column -> ours, for renamed columns
}

// OpenEdits opens a table and detects its layout from its columns. columns maps our names (the label table's columns,
// label_<dimension>, rank, rank_<dimension>, votes, and PreferenceColumns) to the table's. options apply to label
// tables, such as [WithRequired].
func OpenEdits(path string, columns map[string]string, options ...Option) (*Edits, error) {
	e := &Edits{Layout: LayoutLabels, names: columns, own: map[string]string{}}
	known := map[string]string{}
	for ours, name := range columns {
		if err := CheckEditColumn(ours); err != nil {
			return nil, fmt.Errorf("column map: %s: %w", ours, err)
		}
		e.own[name] = ours
		if ours == sourcesColumn || slices.ContainsFunc(LabelColumns, func(c Column) bool { return c.Name == ours }) {
			known[ours] = name
		}
	}
	probe, err := OpenTable(path, WithRequired())
	if err != nil {
		return nil, err
	}
	have := probe.Columns()
	if have == nil && probe.Len() > 0 {
		if rec, err := probe.Record(0); err == nil {
			have = rec.names()
		}
	}
	has := func(ours string) bool { return slices.Contains(have, e.name(ours)) }
	switch {
	case has("chosen") && has("rejected") && !has("edit"):
		e.Layout = LayoutPreferences
	case slices.Contains(have, "left_output_image") && slices.Contains(have, "right_output_image"):
		e.Layout = LayoutEditReward
	}
	if e.Layout != LayoutLabels {
		options = []Option{WithRequired()}
	}
	if err := probe.Close(); err != nil {
		return nil, err
	}
	e.Table, err = OpenTable(path, append(options, WithColumns(known))...)
	return e, err
}

// name returns the table's name for one of our columns.
func (e *Edits) name(ours string) string {
	if own, ok := e.names[ours]; ok {
		return own
	}
	return ours
}

// Each is the number of edits per row of the table.
func (e *Edits) Each() int {
	if e.Layout == LayoutLabels {
		return 1
	}
	return 2
}

// Len is the number of edits.
func (e *Edits) Len() int { return e.Each() * e.Table.Len() }

// Read returns edit i, from 0.
func (e *Edits) Read(i int) (Row, error) {
	if i < 0 || i >= e.Len() {
		return Row{}, fmt.Errorf("%s: no edit %d, there are %d", e.Path(), i, e.Len())
	}
	rec, err := e.Record(i / e.Each())
	if err != nil {
		return Row{}, err
	}
	var out Row
	switch e.Layout {
	case LayoutPreferences:
		out, err = e.preference(&rec, i%2 == 1)
	case LayoutEditReward:
		out, err = e.editReward(&rec, i%2 == 1)
	default:
		out, err = e.labels(rec)
	}
	if err != nil {
		return out, e.At(i/e.Each(), err)
	}
	if out.Label != nil {
		err = put(&out.Labels, "", *out.Label, 0, 1)
	}
	return out, err
}

// All yields every edit in table order. An edit that cannot be read is yielded as an error, and iteration continues.
func (e *Edits) All() iter.Seq2[Row, error] { return each(e.Len(), e.Read) }

// labels reads a row of a label table, with its dimensions.
func (e *Edits) labels(rec Record) (Row, error) {
	out, err := e.Row(rec)
	if err != nil {
		return out, err
	}
	for _, f := range rec.Fields {
		name := f.Name
		if ours, ok := e.own[name]; ok {
			name = ours
		} else if _, elsewhere := e.names[name]; elsewhere {
			continue // our column of this name is mapped to another one
		}
		dimension, isLabel := strings.CutPrefix(name, "label_")
		rank, isRank := strings.CutPrefix(name, "rank_")
		switch {
		case isLabel && e.Classes[dimension] != nil:
			err = putClass(&out.Labels, dimension, f.Value, e.Classes[dimension])
		case isLabel && e.Unread != nil && e.Unread(dimension) && isName(f.Value):
		case isLabel && dimension != "":
			err = put(&out.Labels, dimension, f.Value, 0, 1)
		case isRank && rank != "":
			err = put(&out.Ranks, rank, f.Value, math.Inf(-1), math.Inf(1))
		case name == "rank":
			err = put(&out.Ranks, "", f.Value, math.Inf(-1), math.Inf(1))
		case name == "votes":
			out.Votes, err = count(f.Value)
		case name == ratingsColumn:
			err = out.rate(f.Value)
		}
		if err != nil {
			return out, fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	return out, nil
}

// ratingsColumn is the column with several labels per edit: a list of numbers.
const ratingsColumn = "ratings"

// rate sets the ratings of a row. A row without a label gets their mean.
func (r *Row) rate(v any) (err error) {
	if r.Ratings, err = Numbers(v); err != nil {
		return err
	}
	total := 0.0
	for _, x := range r.Ratings {
		if x < 0 || x > 1 {
			return fmt.Errorf("ratings must be between 0 and 1, not %v", x)
		}
		total += x
	}
	if r.Label == nil && len(r.Ratings) > 0 {
		r.Label = new(total / float64(len(r.Ratings)))
	}
	return nil
}

// Numbers parses a list of finite numbers, or the JSON text of one; nil for null.
func Numbers(v any) ([]float64, error) {
	list, _, err := listOf(v, "numbers, as [0.5, 1]")
	if err != nil {
		return nil, err
	}
	var out []float64
	for _, e := range list {
		x, err := Finite(e)
		if err != nil {
			return nil, err
		}
		if x == nil {
			return nil, errors.New("null in a list of numbers")
		}
		out = append(out, *x)
	}
	return out, nil
}

// put stores a number unless it is null.
func put(into *map[string]float64, key string, v any, lo, hi float64) error {
	x, err := Finite(v)
	if err != nil || x == nil {
		return err
	}
	if *x < lo || *x > hi {
		return fmt.Errorf("%v is outside %g..%g: divide the labels by their largest value", *x, lo, hi)
	}
	if *into == nil {
		*into = map[string]float64{}
	}
	(*into)[key] = *x
	return nil
}

// isName reports whether a label is text that is not a number.
func isName(v any) bool {
	s, err := Text(v)
	if err != nil || s == "" {
		return false
	}
	_, err = strconv.ParseFloat(s, 64)
	return err != nil
}

// putClass stores the position of a name among a dimension's classes, in equal steps from 0 to 1, unless it is null
// or empty.
func putClass(into *map[string]float64, key string, v any, names []string) error {
	name, err := Text(v)
	if err != nil || name == "" {
		return err
	}
	k := slices.Index(names, name)
	if k < 0 {
		return fmt.Errorf("%q is not one of the classes %s", name, strings.Join(names, ", "))
	}
	return put(into, key, float64(k)/float64(len(names)-1), 0, 1)
}

// count reads a number of votes; 0 for null.
func count(v any) (float64, error) {
	x, err := Finite(v)
	if err != nil || x == nil {
		return 0, err
	}
	if *x < 0 {
		return 0, fmt.Errorf("want a number of votes, have %v", *x)
	}
	return *x, nil
}

// preference reads one of the two edits of a row in TRL's columns.
func (e *Edits) preference(rec *Record, second bool) (out Row, err error) {
	c := cells{rec: rec, edits: e}
	out.Instruction = c.prompt()
	out.Source = c.picture("source")
	c.fail(sourcesColumn, out.readSources(rec, e.names))
	side := "chosen"
	if second {
		side = "rejected"
	}
	out.Edit = c.picture(side)
	out.ID, out.Group, out.Split, out.Dataset = c.text("id"), c.text("group"), c.text("split"), c.text("dataset")
	if out.ID != "" {
		out.ID += "/" + side
	}
	p := &Verdict{Second: second, Dimension: c.text("dimension"), Margin: c.number("margin")}
	for i, name := range []string{"votes_chosen", "votes_tie", "votes_rejected"} {
		if x := c.number(name); x != nil {
			p.Votes[i], p.Counted = *x, true
			if *x < 0 {
				c.fail(name, fmt.Errorf("want a number of votes, have %v", *x))
			}
		}
	}
	if !p.Counted {
		p.Votes[0] = 1
	} else if p.Votes[0]+p.Votes[1]+p.Votes[2] == 0 {
		c.fail("votes_chosen", errors.New("no votes: all counts are 0"))
	}
	if p.Margin != nil && *p.Margin < 0 {
		c.fail("margin", fmt.Errorf("%v is below 0: swap chosen and rejected", *p.Margin))
	}
	out.Verdict = p
	return out, c.done(&out)
}

// EditReward-Data's scores by dimension, with their range; the overall score is the sum of the other two.
var editRewardMarks = []struct {
	dimension, column string
	lo, hi            float64
}{
	{"", "overall_score", 2, 8},
	{"following", "instruction_following_score", 1, 4},
	{"quality", "quality_aesthetic_score", 1, 4},
}

// editReward reads one of the two outputs of a row of EditReward-Data.
func (e *Edits) editReward(rec *Record, second bool) (out Row, err error) {
	c := cells{rec: rec, edits: e}
	side := "left"
	if second {
		side = "right"
	}
	out.Instruction = c.text("instruction")
	out.Source, out.Edit = c.picture("source_img"), c.picture(side+"_output_image")
	if out.Source.IsZero() {
		out.Source = c.picture("source_image")
	}
	out.ID, out.Method, out.Split = c.text("unique_key"), c.text(side+"_model"), c.text("split")
	if out.ID != "" {
		out.ID += "/" + side
	}
	for _, m := range editRewardMarks {
		x := c.number(side + "_" + m.column)
		if x == nil {
			continue
		}
		y := (*x - m.lo) / (m.hi - m.lo)
		if y < 0 || y > 1 {
			c.fail(side+"_"+m.column, fmt.Errorf("%v is outside %g..%g", *x, m.lo, m.hi))
		}
		if m.dimension == "" {
			out.Label = &y
			continue
		}
		c.fail(side+"_"+m.column, put(&out.Labels, m.dimension, y, 0, 1))
	}
	p := &Verdict{Second: second}
	switch vote := strings.ToLower(c.text("vote_type")); {
	case strings.HasPrefix(vote, "left"):
		p.Votes[0] = 1
	case strings.HasPrefix(vote, "right"):
		p.Votes[2] = 1
	case strings.HasPrefix(vote, "tie"), strings.HasPrefix(vote, "both"):
		p.Votes[1] = 1
	default:
		c.fail("vote_type", fmt.Errorf("want leftvote, rightvote or tie, have %q", vote))
	}
	out.Verdict = p
	return out, c.done(&out)
}

// GroupOf returns the group of an edit that does not name one: edits with the same source and instruction share it.
// picture identifies the source.
func GroupOf(picture []byte, instruction string) string {
	h := sha256.New()
	h.Write(picture)
	h.Write([]byte{0})
	h.Write([]byte(instruction))
	return "\x01" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Place names edit i in messages: its row, and which of the two edits it is.
func (e *Edits) Place(i int) string {
	base := filepath.Base(e.Path())
	if e.Each() == 1 {
		return fmt.Sprintf("%s row %d", base, i+1)
	}
	return fmt.Sprintf("%s row %d/%d", base, i/2+1, i%2+1)
}

package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/jsonfile"
)

// RowsFile is a run's list of its rows, in the order that sample indices refer to. Each line is a JSON array [what
// for, digest, group, table, row, twin, gone, id]. It is written when the run begins. A resumed run uses it to find
// its rows, wherever they are in the tables now.
const RowsFile = "rows.jsonl"

// ledgerRow is a line of RowsFile.
type ledgerRow struct {
	For    string // train, validation; aside: set aside at the start, for the whole run
	Digest string // of the content
	Group  int    // the same number for all rows of a group
	Table  int    // number of the table
	Row    int    // row in the table, from 0
	Twin   int    // number of earlier rows with the same content
	Gone   bool   // it was bad, and has been removed from the tables
	ID     string // if unique
}

// fields returns the elements of the array.
func (l *ledgerRow) fields() []any {
	return []any{&l.For, &l.Digest, &l.Group, &l.Table, &l.Row, &l.Twin, &l.Gone, &l.ID}
}

// MarshalJSON writes the array.
func (l *ledgerRow) MarshalJSON() ([]byte, error) { return json.Marshal(l.fields()) }

// UnmarshalJSON reads the array.
func (l *ledgerRow) UnmarshalJSON(raw []byte) error {
	var values []json.RawMessage
	fields := l.fields()
	err := json.Unmarshal(raw, &values)
	if err == nil && len(values) != len(fields) {
		err = fmt.Errorf("it has %d values, want %d", len(values), len(fields))
	}
	for i := 0; i < len(fields) && err == nil; i++ {
		err = json.Unmarshal(values[i], fields[i])
	}
	return err
}

const (
	forTrain      = "train"
	forValidation = "validation"
	forQuarantine = "aside"
)

// rowKey identifies a row: by its id, or by its content and the number of earlier rows with the same content.
type rowKey struct {
	id, digest string
	twin       int
}

// key returns the id if it is unique, else the content.
func (l *ledgerRow) key() rowKey {
	if l.ID != "" {
		return rowKey{id: l.ID}
	}
	return l.contentKey()
}

func (l *ledgerRow) contentKey() rowKey { return rowKey{digest: l.Digest, twin: l.Twin} }

// ledgerOf describes rows; groups are numbered in the order of their first rows.
func ledgerOf(what string, rows []Row, groups map[string]int) []ledgerRow {
	out := make([]ledgerRow, len(rows))
	for i, r := range rows {
		if _, ok := groups[r.Group]; !ok {
			groups[r.Group] = len(groups)
		}
		out[i] = ledgerRow{For: what, ID: r.ID, Digest: r.Digest, Group: groups[r.Group], Table: r.number, Row: r.Index}
	}
	return out
}

// identify clears ids that several rows of the list share, and numbers rows with the same content.
func identify(rows []ledgerRow) {
	count, twins := map[string]int{}, map[string]int{}
	for i := range rows {
		count[rows[i].ID]++
	}
	for i := range rows {
		r := &rows[i]
		if count[r.ID] > 1 {
			r.ID = ""
		}
		r.Twin = twins[r.Digest]
		twins[r.Digest]++
	}
}

// writeLedger writes the row list of a new run.
func (d *Data) writeLedger(out string) error {
	train, valid := d.Train, d.Validation
	if train.Made() || valid.Made() {
		return nil
	}
	groups := map[string]int{}
	rows := ledgerOf(forTrain, train.Rows, groups)
	rows = append(rows, ledgerOf(forValidation, valid.Rows, groups)...)
	rows = append(rows, ledgerOf(forQuarantine, d.excluded, groups)...)
	identify(rows)
	for _, b := range d.bad { // could not be read: identified only by position
		rows = append(rows, ledgerRow{For: forQuarantine, Table: b.number, Row: b.Row - 1})
	}
	return writeRows(out, rows)
}

func writeRows(out string, rows []ledgerRow) error {
	return jsonfile.WriteLines(filepath.Join(out, RowsFile), rows)
}

// readLedger reads RowsFile; nil if there is none.
func readLedger(out string) (rows []ledgerRow, err error) {
	for r, err := range jsonfile.Lines[ledgerRow](filepath.Join(out, RowsFile)) {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w (start over with --fresh)", err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// MatchLedger finds the rows listed in a run directory, and puts them into the list's order. diff lists what makes
// this a different run; listed is false if there is no list.
func (d *Data) MatchLedger(out string) (diff []string, listed bool, err error) {
	ledger, err := readLedger(out)
	if err != nil || ledger == nil {
		return nil, false, err
	}
	if diff, err = d.arrange(out, ledger); err != nil {
		return nil, true, err
	}
	if d.hasLedger = len(diff) == 0; d.hasLedger {
		d.ledger = ledger
	}
	return diff, true, nil
}

// badBefore are the rows that a run has recorded as bad.
type badBefore struct {
	ids    map[string]bool
	places map[rowPlace]bool
}

// wasBad reads the bad rows of a run.
func wasBad(out string) (badBefore, error) {
	known := badBefore{ids: map[string]bool{}, places: map[rowPlace]bool{}}
	for b, err := range jsonfile.Lines[BadRow](filepath.Join(out, BadRowsFile)) {
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return known, err
		}
		if b.ID != "" {
			known.ids[b.ID] = true
		}
		known.places[rowPlace{filepath.Base(b.Table), b.Row - 1}] = true
	}
	return known, nil
}

// rowPlace is the position of a row.
type rowPlace struct {
	table string // the file's name
	row   int    // from 0
}

func (p rowPlace) String() string { return fmt.Sprintf("row %d of %s", p.row+1, p.table) }

// arrange puts the rows of the tables into the order in which the run began, and lists what makes this a different
// run. A row is the same wherever it is, in any file format. A repair may change or remove rows that were recorded as
// bad. Good rows must still exist with the same content, and there must be no new rows.
func (d *Data) arrange(out string, ledger []ledgerRow) (diff []string, err error) {
	train, valid := d.Train, d.Validation
	if train.Made() || valid.Made() {
		return nil, nil
	}
	m, err := d.newMatcher(out, train.Rows, valid.Rows)
	if err != nil {
		return nil, err
	}
	found := make([]int, len(ledger))
	for k := range ledger { // all of them, before a position is matched to another row
		found[k] = m.find(&ledger[k])
	}
	newTrain, newValid, excluded := arrangedLike(ledger)
	for k := range ledger {
		l := &ledger[k]
		row, problem := d.recall(m, l, found[k])
		if problem != "" {
			diff = append(diff, problem)
		}
		row.Group = fmt.Sprint(l.Group)
		switch l.For {
		case forTrain:
			newTrain.Rows = append(newTrain.Rows, row)
		case forValidation:
			newValid.Rows = append(newValid.Rows, row)
		default:
			excluded = append(excluded, row)
		}
	}
	for i := range m.now {
		if !m.used[i] {
			diff = append(diff, fmt.Sprintf("data: %s is new: %v", m.now[i].name(), m.rows[i].place()))
		}
	}
	if len(diff) == 0 {
		d.Train, d.Validation, d.excluded = newTrain, newValid, excluded
	}
	return diff, nil
}

// arrangedLike allocates exactly as much as the rows of a ledger need: there may be millions.
func arrangedLike(ledger []ledgerRow) (train, valid *Samples, excluded []Row) {
	count := map[string]int{}
	for k := range ledger {
		count[ledger[k].For]++
	}
	room := func(n int) []Row { return make([]Row, 0, n) }
	rest := len(ledger) - count[forTrain] - count[forValidation]
	return &Samples{Rows: room(count[forTrain])}, &Samples{Rows: room(count[forValidation])}, room(rest)
}

// matcher finds the rows of a ledger in the tables.
type matcher struct {
	rows    []*Row      // of the tables
	now     []ledgerRow // the same, as ledger rows
	used    []bool      // which of them have been found
	byKey   map[rowKey]int
	byPlace map[rowPlace]int
	unread  map[rowPlace]unreadRow
	bad     badBefore
}

func (d *Data) newMatcher(out string, tables ...[]Row) (*matcher, error) {
	m := &matcher{unread: map[rowPlace]unreadRow{}}
	groups := map[string]int{}
	for _, rows := range tables {
		m.now = append(m.now, ledgerOf("", rows, groups)...)
		for i := range rows {
			m.rows = append(m.rows, &rows[i])
		}
	}
	m.used = make([]bool, len(m.rows))
	m.byKey, m.byPlace = make(map[rowKey]int, 2*len(m.rows)), make(map[rowPlace]int, len(m.rows))
	identify(m.now)
	for i := range m.now {
		m.byKey[m.now[i].key()] = i
		m.byKey[m.now[i].contentKey()] = i // an id may have become unique
		m.byPlace[m.rows[i].place()] = i
	}
	for _, b := range d.bad {
		m.unread[rowPlace{filepath.Base(b.Table), b.Row - 1}] = b
	}
	var err error
	m.bad, err = wasBad(out)
	return m, err
}

// find returns the index of the row with the id or the content of l, or -1.
func (m *matcher) find(l *ledgerRow) int {
	i, ok := m.byKey[l.key()]
	if !ok || m.used[i] {
		return -1
	}
	m.used[i] = true
	return i
}

// recall returns the row that l refers to, or describes what is wrong with it; i is the result of find. It updates
// the ledger row.
func (d *Data) recall(m *matcher, l *ledgerRow, i int) (row Row, problem string) {
	where := rowPlace{d.tableName(l), l.Row}
	known := l.For == forQuarantine || l.Gone || m.bad.places[where] || m.bad.ids[l.ID]
	if here, ok := m.byPlace[where]; i < 0 && known && ok && !m.used[here] { // repaired, and even its id has changed
		i, m.used[here] = here, true
	}
	row = Row{gone: true, ID: l.ID, Index: l.Row, Bad: "no longer in the tables"}
	if i >= 0 {
		now := &m.now[i]
		if !known && now.Digest != l.Digest {
			return row, fmt.Sprintf("data: %s changed: %v", l.name(), where)
		}
		d.repaired = d.repaired || now.Digest != l.Digest || now.Row != l.Row || now.Table != l.Table || l.Gone
		l.Digest, l.Twin, l.Row, l.Table, l.Gone = now.Digest, now.Twin, now.Row, now.Table, false
		return *m.rows[i], ""
	}
	if b, here := m.unread[where]; here { // counted among the tables' bad rows
		row.Bad = b.Reason
		return row, ""
	}
	if !known {
		return row, fmt.Sprintf("data: %s is missing: %v", l.name(), where)
	}
	d.repaired = d.repaired || !l.Gone
	l.Gone = true
	return row, ""
}

func (l *ledgerRow) name() string {
	if l.ID != "" {
		return "row " + l.ID
	}
	return "a row without a unique id"
}

func (d *Data) tableName(l *ledgerRow) string {
	if l.Table < len(d.conversations) {
		return filepath.Base(d.conversations[l.Table].Path())
	}
	if l.Table < len(d.Tables) {
		return filepath.Base(d.Tables[l.Table].Path())
	}
	return "a table that is no longer configured"
}

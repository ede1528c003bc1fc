package calibrate

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/t2i"
)

// table is an open table of labelled edits.
type table struct {
	*data.Edits
	rows    []row
	problem map[int]error // of rows that cannot be read, by their index

	unmatched  int             // labels of a separate table whose id no row has
	unlabelled int             // rows without a label, among the rows in use
	repeated   int             // rows that repeat another one, and do not count again
	wanted     map[string]bool // columns that --columns names and no row has had so far
}

// row is an edit with a label.
type row struct {
	index        int
	id           string
	label        float64
	source, edit store.Key // digests of the pictures; of several sources a joint digest
	sources      []store.Key
	instruction  string
	by           []string // values of the column --by, of all rows of the edit
}

// openTable reads the labelled rows of a table.
func openTable(path, labels string, o *Options) (*table, error) {
	given, err := readLabels(labels, o)
	if err != nil {
		return nil, err
	}
	var options []data.Option
	if t2i.Is(o.Scorer) { // which uses no source
		options = append(options, data.WithRequired("edit", "instruction"))
	}
	edits, err := data.OpenEdits(path, o.Columns, options...)
	if err != nil {
		return nil, exit.Usage(err)
	}
	edits.Unread = func(dimension string) bool { return dimension != o.Model.Dimension } // may hold names
	t := &table{Edits: edits, problem: map[int]error{}, wanted: given.lacks(o.Columns)}
	if edits.Layout != data.LayoutLabels {
		return nil, errors.Join(fmt.Errorf("%s has comparisons: a calibration needs a label for each edit", path),
			edits.Close())
	}
	outside, first := 0, error(nil)
	for i := range edits.Len() {
		err := t.read(i, o, given)
		if err == nil {
			continue
		}
		t.problem[i] = err
		var outOfRange *data.LabelRangeError
		if errors.As(err, &outOfRange) {
			if outside++; outside == 1 {
				first = fmt.Errorf("row %d: %w", i+1, outOfRange)
			}
		}
	}
	if outside > 0 { // a map of the other rows would cover only the low labels
		return nil, errors.Join(exit.Usagef("%s: %d of %d rows have labels outside 0..1; the first is %w", path, outside,
			edits.Len(), first), edits.Close())
	}
	for _, i := range t.problems() { // --labels would override a label
		if own := new(ownLabelError); errors.As(t.problem[i], &own) {
			return nil, errors.Join(exit.Usagef("%s, row %d: %w", path, i+1, own), edits.Close())
		}
	}
	if len(t.wanted) > 0 && edits.Len() > 0 {
		return nil, errors.Join(exit.Usagef("%s has no column %s, which --columns names", path,
			strings.Join(slices.Sorted(maps.Keys(t.wanted)), ", ")), edits.Close())
	}
	if err := t.merge(); err != nil {
		return nil, errors.Join(exit.Usagef("%s: %w", path, err), edits.Close())
	}
	if len(t.rows) == 0 {
		column := "label"
		if o.Model.Dimension != "" {
			column += "_" + o.Model.Dimension
		}
		err := fmt.Errorf("%s: no row has a label (column %s)", path, column)
		if o.Split != "" {
			err = fmt.Errorf("%w and %q in its column split (--split)", err, o.Split)
		}
		if bad := t.problems(); len(bad) > 0 {
			err = fmt.Errorf("%w, except those that cannot be used: %d of %d; the first is row %d: %w", err, len(bad),
				edits.Len(), bad[0]+1, t.problem[bad[0]])
			return nil, errors.Join(exit.Named(err), edits.Close())
		}
		return nil, errors.Join(exit.Usage(err), edits.Close())
	}
	if given != nil {
		t.unmatched = len(given.labels) - len(given.used)
	}
	return t, nil
}

// problems returns the rows that cannot be read.
func (t *table) problems() []int { return slices.Sorted(maps.Keys(t.problem)) }

// read adds a row, if it has a label.
func (t *table) read(i int, o *Options, given *given) error {
	if err := t.look(i); err != nil {
		return err
	}
	e, err := t.Edits.Read(i)
	if err != nil {
		return err
	}
	label, ok := e.Labels[o.Model.Dimension]
	if given != nil {
		if label, ok, err = given.of(e.ID, label, ok); err != nil {
			return err
		}
	}
	if o.Split != "" && e.Split != o.Split {
		return nil
	}
	if !ok {
		t.unlabelled++
		return nil
	}
	if label < 0 || label > 1 { // of a dimension
		return &data.LabelRangeError{Label: label}
	}
	r := row{index: i, id: e.ID, label: label, instruction: e.Instruction}
	for k, m := range e.Sources() {
		key, err := store.Content(t.Folder(), m)
		if err != nil {
			return fmt.Errorf("%s: %w", edit.SourceRole(k), err)
		}
		r.sources = append(r.sources, key)
	}
	r.source = sourcesKey(r.sources)
	if r.edit, err = store.Content(t.Folder(), e.Edit); err != nil {
		return fmt.Errorf("edit: %w", err)
	}
	if o.By != "" {
		rec, err := t.Record(i)
		if err != nil {
			return err
		}
		v, found := rec.Get(o.By)
		if !found {
			return fmt.Errorf("no column %q (--by)", o.By)
		}
		r.by = []string{fmt.Sprint(v)}
	}
	t.rows = append(t.rows, r)
	return nil
}

// sourcesKey identifies the sources of an edit: one by its own key; zero: there are none.
func sourcesKey(sources []store.Key) store.Key {
	if len(sources) == 0 {
		return store.Key{}
	}
	if len(sources) == 1 {
		return sources[0]
	}
	var parts []string
	for _, k := range sources {
		parts = append(parts, string(k[:]))
	}
	return store.KeyOf(parts...)
}

// look records the columns of a row that --columns names.
func (t *table) look(i int) error {
	if len(t.wanted) == 0 {
		return nil
	}
	rec, err := t.Record(i)
	for _, f := range rec.Fields {
		delete(t.wanted, f.Name)
	}
	return err
}

// scenes returns the number of the scene of each row: rows that share a source picture (any of several) or a value of
// --by are in the same scene.
func (t *table) scenes() []int {
	number := map[string]int{}
	parent := []int{}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	node := func(key string) int {
		if _, ok := number[key]; !ok {
			number[key] = len(parent)
			parent = append(parent, len(parent))
		}
		return find(number[key])
	}
	first := make([]int, len(t.rows))
	for i, r := range t.rows {
		pictures := r.sources
		if len(pictures) == 0 { // no source: a judge of one picture
			pictures = []store.Key{r.edit}
		}
		first[i] = node("picture " + pictures[0].String())
		for _, k := range pictures[1:] {
			parent[node("picture "+k.String())] = find(first[i])
		}
		for _, by := range r.by {
			parent[node("by "+by)] = find(first[i])
		}
	}
	for i := range first {
		first[i] = find(first[i])
	}
	return first
}

// split splits rows into parts of about the given shares (the last part has the rest), scene by scene in an order
// drawn from the seed.
func split(scenes []int, seed uint64, shares ...float64) [][]int {
	members := map[int][]int{}
	var order []int
	for i, s := range scenes {
		if members[s] == nil {
			order = append(order, s)
		}
		members[s] = append(members[s], i)
	}
	rng := rand.New(rand.NewPCG(seed, 0xca11))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	parts := make([][]int, len(shares)+1)
	part, goal := 0, 0.0
	if len(shares) > 0 {
		goal = shares[0] * float64(len(scenes))
	}
	taken := 0
	for _, s := range order {
		for part < len(shares) && float64(taken) >= goal-1e-9 {
			if part++; part < len(shares) {
				goal += shares[part] * float64(len(scenes))
			}
		}
		parts[part] = append(parts[part], members[s]...)
		taken += len(members[s])
	}
	return parts
}

// learned is a training table of the scorer.
type learned struct {
	path    string
	columns map[string]string
	split   string // its rows in use; "": all
}

// lost counts what is not known of training tables.
type lost struct {
	rows  int
	first error
}

func (l *lost) add(err error) {
	if l.rows++; l.rows == 1 {
		l.first = err
	}
}

// pictures returns the digests of all pictures of training tables, whatever their labels, and the rows whose pictures
// cannot be read.
func pictures(tables []learned) (out map[store.Key]bool, without lost, err error) {
	out = map[store.Key]bool{}
	for _, l := range tables {
		edits, err := data.OpenEdits(l.path, l.columns)
		if err != nil {
			return nil, without, fmt.Errorf("training table: %w", err)
		}
		edits.Unread = func(string) bool { return true } // the run knows the classes of its labels
		for e, err := range edits.All() {
			if err != nil {
				without.add(err)
				continue
			}
			if l.split != "" && e.Split != "" && e.Split != l.split { // training left it out as well
				continue
			}
			var unread error
			for _, m := range append([]data.Image{e.Source, e.Edit}, e.References...) {
				if m.IsZero() {
					continue
				}
				k, err := store.Content(edits.Folder(), m)
				if err != nil {
					unread = err
					continue
				}
				out[k] = true
			}
			if unread != nil {
				without.add(unread)
			}
		}
		if err := edits.Close(); err != nil {
			return nil, without, err
		}
	}
	return out, without, nil
}

// seen counts the rows with a picture from the scorer's training.
func (t *table) seen(trained map[store.Key]bool) (n int, first string) {
	for _, r := range t.rows {
		if trained[r.edit] || slices.ContainsFunc(r.sources, func(k store.Key) bool { return trained[k] }) {
			if n++; n == 1 {
				first = fmt.Sprintf("%s, row %d", filepath.Base(t.Path()), r.index+1)
			}
		}
	}
	return n, first
}

// content identifies an edit: rows with the same content are the same edit.
type content struct {
	source, edit store.Key
	instruction  string
}

// maxNamed limits the contradictions that an error lists.
const maxNamed = 100

// merge joins rows of the same edit with the same label (two editors may return the same picture): an edit counts
// once, in one part. An edit with two labels, and an id with two edits, are errors.
func (t *table) merge() error {
	first := map[content]int{} // place in kept
	same := map[content][]row{}
	ids := map[string]content{}
	var kept []row
	var order []content // edits with two labels
	split := map[content]bool{}
	var wrong []string
	for _, r := range t.rows {
		c := content{r.source, r.edit, r.instruction}
		if other, ok := ids[r.id]; ok && r.id != "" && other != c {
			wrong = append(wrong, fmt.Sprintf("rows %d and %d have the id %s and are different edits",
				same[other][0].index+1, r.index+1, r.id))
		} else {
			ids[r.id] = c
		}
		same[c] = append(same[c], r)
		at, twice := first[c]
		if !twice {
			first[c] = len(kept)
			kept = append(kept, r)
			continue
		}
		kept[at].by = append(kept[at].by, r.by...)
		if kept[at].label == r.label {
			t.repeated++
		} else if !split[c] {
			order, split[c] = append(order, c), true
		}
	}
	for _, c := range order {
		var rows, labels []string
		for _, r := range same[c] {
			rows, labels = append(rows, fmt.Sprint(r.index+1)), append(labels, fmt.Sprint(r.label))
		}
		wrong = append(wrong, fmt.Sprintf("rows %s are one edit with the labels %s", strings.Join(rows, ", "),
			strings.Join(labels, ", ")))
	}
	advice := ""
	if len(order) > 0 {
		advice = "; keep one row of such an edit, or give all its rows the mean of their labels"
	}
	if len(wrong) == 0 {
		t.rows = kept
		return nil
	}
	rest := ""
	if n := len(wrong) - maxNamed; n > 0 {
		wrong, rest = wrong[:maxNamed], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("every edit counts once, with one label: %s%s%s", strings.Join(wrong, "; "), rest, advice)
}

package calibrate

import (
	"fmt"

	"assay/data"
	"assay/internal/exit"
)

// given are labels of a separate table, by id.
type given struct {
	labels  map[string]float64
	used    map[string]bool // ids that a row has
	columns map[string]bool // of that table
}

// ownLabelError reports that the label of a row and its label in --labels differ.
type ownLabelError struct{ own, given string }

func (e *ownLabelError) Error() string {
	return fmt.Sprintf("its own label is %s, but --labels has %s: remove one of the two", e.own, e.given)
}

// lacks returns the columns of --columns that the table of labels (if any) does not have.
func (g *given) lacks(columns map[string]string) map[string]bool {
	out := map[string]bool{}
	for _, name := range columns {
		if g == nil || !g.columns[name] {
			out[name] = true
		}
	}
	return out
}

// of returns the label of an id. own is the row's own label, if has is set.
func (g *given) of(id string, own float64, has bool) (label float64, ok bool, err error) {
	if label, ok = g.labels[id]; ok {
		g.used[id] = true
	}
	if !has || ok && label == own {
		return label, ok, nil
	}
	said := "none"
	if ok {
		said = fmt.Sprint(label)
	}
	return 0, false, &ownLabelError{fmt.Sprint(own), said}
}

// readLabels reads labels by id from a separate table; nil: there is none.
func readLabels(path string, o *Options) (*given, error) {
	if path == "" {
		return nil, nil
	}
	t, err := data.OpenTable(path, data.WithRequired())
	if err != nil {
		return nil, exit.Usage(err)
	}
	defer t.Close()
	name := "label"
	if o.Model.Dimension != "" {
		name = "label_" + o.Model.Dimension
	}
	if own, ok := o.Columns[name]; ok {
		name = own
	}
	out := &given{map[string]float64{}, map[string]bool{}, map[string]bool{}}
	for i := range t.Len() {
		rec, err := t.Record(i)
		if err != nil {
			return nil, err
		}
		for _, f := range rec.Fields {
			out.columns[f.Name] = true
		}
		at := func(err error) error { return fmt.Errorf("%s, row %d: %w", path, i+1, err) }
		id, ok := rec.Get("id")
		v, labelled := rec.Get(name)
		if !ok || !labelled {
			return nil, at(fmt.Errorf("want the columns id and %s", name))
		}
		text, err := data.Text(id)
		if err != nil {
			return nil, at(err)
		}
		label, err := data.Finite(v)
		if err != nil {
			return nil, at(fmt.Errorf("column %q: %w", name, err))
		}
		if label == nil {
			continue
		}
		if other, twice := out.labels[text]; twice && other != *label || *label < 0 || *label > 1 {
			return nil, at(fmt.Errorf("id %s with label %g: want one label per id, and labels on 0..1", text, *label))
		}
		out.labels[text] = *label
	}
	return out, nil
}

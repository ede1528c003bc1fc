package dataset

import (
	"fmt"

	"assay/data"
	"assay/store"
)

// theEdit tells an edit from others, wherever it stands: by source and instruction, and by the edited picture.
type theEdit struct {
	asked string
	edit  store.Key
}

func (r *Row) theEdit() theEdit { return theEdit{r.Asked, r.contents[1]} }

// lookForRepeats notes what a run can do, but hardly means: one edit with two labels, sources and edits that look
// swapped, and validation by edits that are learnt from or, where a fraction is held out, by their source pictures.
func (d *Data) lookForRepeats(fraction bool) {
	train, ok := d.Train.(*Samples)
	validation, both := d.Validation.(*Samples)
	if !ok || !both {
		return
	}
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
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d training rows give an edit another label than a row before "+
			"them: all are learnt from", contrary, train.Len()))
	}
	sources, edits := train.distinct(0), train.distinct(1)
	if data.LookSwapped(len(sources), len(edits)) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("the training rows have %d different sources and only %d different "+
			"edits: are the columns source and edit the other way round?", len(sources), len(edits)))
	}
	d.lookForTrained(train, validation, sources, fraction)
}

// lookForTrained notes validation rows whose edits, or with a held-out fraction whose sources, are trained on as well.
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
		if r.Bad == "" && fraction && sources[r.contents[0]] {
			shown++
		}
	}
	if known > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d validation rows are edits that are trained on as well: what "+
			"validation says of them is no measure of other edits", known, validation.Len()))
	}
	if shown > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d validation rows have a source picture that is trained on as "+
			"well: a fraction holds out whole groups, so give all rows of one picture one `group`", shown, validation.Len()))
	}
}

// distinct are the contents of the sources (0) or edits (1) of all rows that can be used.
func (s *Samples) distinct(which int) map[store.Key]bool {
	out := map[store.Key]bool{}
	for i := range s.Rows {
		if r := &s.Rows[i]; r.Bad == "" && r.contents != (Contents{}) {
			out[r.contents[which]] = true
		}
	}
	return out
}

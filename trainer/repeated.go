package trainer

import (
	"fmt"

	"assay/store"
)

// theEdit tells an edit from others, wherever it stands: by source and instruction, and by the edited picture.
type theEdit struct {
	asked string
	edit  store.Key
}

func (r *sampleRow) theEdit() theEdit { return theEdit{r.asked, r.contents[1]} }

// lookForRepeats notes what a run can do, but hardly means: one edit with two labels, and validation by edits that are
// learnt from.
func (d *Data) lookForRepeats() {
	train, ok := d.Train.(*Samples)
	validation, both := d.Validation.(*Samples)
	if !ok || !both {
		return
	}
	labels, contrary := map[theEdit]float64{}, 0
	for i := range train.rows {
		r := &train.rows[i]
		if r.bad != "" || !r.labelled() {
			continue
		}
		label, before := labels[r.theEdit()]
		if !before {
			labels[r.theEdit()] = r.label
		} else if label != r.label {
			contrary++
		}
	}
	if contrary > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d training rows give an edit another label than a row before "+
			"them: all are learnt from", contrary, train.Len()))
	}
	if validation.Len() == 0 {
		return
	}
	learnt, known := map[theEdit]bool{}, 0
	for i := range train.rows {
		learnt[train.rows[i].theEdit()] = true
	}
	for i := range validation.rows {
		if r := &validation.rows[i]; r.bad == "" && learnt[r.theEdit()] {
			known++
		}
	}
	if known > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d validation rows are edits that are trained on as well: what "+
			"validation says of them is no measure of other edits", known, validation.Len()))
	}
}

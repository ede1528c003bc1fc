package calibrate

import (
	"fmt"
	"strings"

	"assay/internal/store"
)

// content identifies an edit: rows with the same content are the same edit.
type content struct {
	source, edit store.Key
	instruction  string
}

// mostNamed bounds the contradictions that an error lists.
const mostNamed = 100

// merge joins rows of the same edit with the same label (two editors may give the same picture): an edit counts once,
// in one part. An edit with two labels, and an id of two edits, are errors.
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
	if n := len(wrong) - mostNamed; n > 0 {
		wrong, rest = wrong[:mostNamed], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("every edit counts once, with one label: %s%s%s", strings.Join(wrong, "; "), rest, advice)
}

package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/benchmarks/protocol"
	"assay/internal/jsonfile"
	"assay/textjudge"
)

// Failure is an item that a judge could not judge: a line of failed.jsonl, next to predictions.jsonl.
type Failure struct {
	protocol.Key
	Error      string `json:"error"`
	Unreadable bool   `json:"unreadable"` // the answer cannot be parsed
}

// Asked counts the outcomes of the items that a text judge was asked about.
type Asked struct {
	Judged int `json:"judged"`
	Failed int `json:"failed"`
	// failed items whose answers cannot be parsed
	Unreadable      int              `json:"unreadable"`
	UnreadableShare float64          `json:"unreadable_share"` // of all items that were answered
	Orders          *textjudge.Pairs `json:"orders,omitempty"` // of a judge of pairs
	File            string           `json:"file,omitempty"`   // of the failed items
}

// String returns a summary for readers.
func (a *Asked) String() string {
	text := fmt.Sprintf("answers that could not be read: %d items (%.2f %%)", a.Unreadable, 100*a.UnreadableShare)
	if a.Failed > 0 {
		text += fmt.Sprintf("; %d items have no score (reasons in %s)", a.Failed, a.File)
	}
	if o := a.Orders; o != nil {
		text += fmt.Sprintf("; the two orders disagree in %d of %d pairs (%.2f %%): the first shown wins twice in %d, the "+
			"second in %d", o.Disagree, o.Agree+o.Disagree, 100*o.DisagreeShare, o.FirstShown, o.SecondShown)
	}
	return text
}

// asked counts the predictions in the file and the failures, and writes failed.jsonl, or removes an old one.
func (r *Run) asked(predictions string, failures []Failure) (*Asked, error) {
	a := &Asked{Failed: len(failures)}
	counted := map[string]bool{} // pairs
	for p, err := range jsonfile.Lines[Prediction](predictions) {
		if err != nil {
			return nil, err
		}
		a.Judged++
		if len(p.Orders) != 2 || counted[p.ID] {
			continue
		}
		counted[p.ID] = true
		if a.Orders == nil {
			a.Orders = &textjudge.Pairs{}
		}
		a.Orders.Count(p.Orders[0], p.Orders[1])
	}
	for _, f := range failures {
		if f.Unreadable {
			a.Unreadable++
		}
	}
	if n := a.Judged + a.Unreadable; n > 0 {
		a.UnreadableShare = float64(a.Unreadable) / float64(n)
	}
	path := filepath.Join(r.Dir, "failed.jsonl")
	if len(failures) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return a, nil
	}
	a.File = path
	return a, jsonfile.WriteLines(path, failures)
}

package labeling

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"math"
	"strconv"
	"strings"

	"assay/data"
	"assay/heuristics"
	"assay/internal/labeling/nearcopy"
)

// row is an edit of a data set with its similarities, before rules are applied: a line of a part. A line that is not
// an edit records an unusable row (Bad) or a sample that is left out (Left).
type row struct {
	source, number int // index of the data set; index of the edit among all, in the order of parts

	Sample int    `json:"sample"` // number in the data set, from 0
	ID     string `json:"id,omitempty"`
	Bad    string `json:"bad,omitempty"`  // why it is unusable
	Left   string `json:"left,omitempty"` // why its sample is left out on purpose

	Session     string   `json:"session,omitempty"`
	Split       string   `json:"split,omitempty"`
	Source      *picture `json:"source,omitempty"`
	Edit        *picture `json:"edit,omitempty"`
	Target      *picture `json:"target,omitempty"`
	Instruction string   `json:"instruction,omitempty"`

	heuristics.Candidate        // the input of the rules
	By                   string `json:"by,omitempty"` // the profile of similarities that came with the data

	Chain string  `json:"chain,omitempty"` // chains only: the reason for the label
	Label float64 `json:"label,omitempty"` // chains only

	Vote *vote `json:"vote,omitempty"` // between this row and an earlier one
}

// vote is a preference between two rows of a sample.
type vote struct {
	Left   string `json:"left"` // ids
	Right  string `json:"right"`
	Winner string `json:"winner"` // left, right, tie
}

// picture is the path of a picture, its digest and its thumbnail.
type picture struct {
	Path      string             `json:"path"`           // relative to the output folder
	Pixels    string             `json:"pixels"`         // digest of width, height and pixels
	Thumbnail nearcopy.Thumbnail `json:"look,omitempty"` // only at the first mention of the picture in a part

	// Only while measuring: why it is unreadable, its pixels until they are embedded, and its embeddings (nil: none).
	err        error
	decoded    *data.Picture
	clip, dino []float32
}

// isEdit reports whether the row is an edit.
func (r *row) isEdit() bool { return r.Bad == "" && r.Left == "" }

// group returns a digest that is the same for all edits of one source with one instruction.
func (r *row) group() string {
	sum := sha256.Sum256([]byte(r.Source.Pixels + "\x00" + r.Instruction))
	return hex.EncodeToString(sum[:8])
}

// key identifies an edit: rows with the same key are the same edit.
func (r *row) key() [16]byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.group(), strconv.Itoa(int(r.Kind)), r.Editor, r.Edit.Pixels,
		r.Chain}, "\x00")))
	return [16]byte(sum[:16])
}

// method is the name in the table of what produced the edit.
func (r *row) method() string {
	switch {
	case r.Chain != "":
		return "chain"
	case r.Kind == heuristics.Source:
		return "source"
	case r.Kind == heuristics.Target, r.Kind == heuristics.Foreign:
		return "target"
	}
	return r.Editor
}

// pictures yields the pictures of a row.
func (r *row) pictures() iter.Seq[*picture] {
	return func(yield func(*picture) bool) {
		_ = yield(r.Source) && (r.Target == nil || yield(r.Target)) && yield(r.Edit)
	}
}

// claims returns the part of a row that another row of the same edit must not contradict.
func (r *row) claims() *row {
	return &row{source: r.source, number: r.number, Sample: r.Sample, ID: r.ID, By: r.By, Candidate: r.Candidate}
}

// contradicts names a value that another row of the edit sets differently, or sets although this row does not; "" if
// dropping that row loses nothing. Numbers that differ by at most 1e-6 count as equal.
func (r *row) contradicts(again *row) string {
	const digits = 1e-6
	if g := again.Given; g != nil && (r.Given == nil || math.Abs(*g-*r.Given) > digits) {
		return "label"
	}
	if r.By == "" || again.By == "" { // similarities are measured here
		return ""
	}
	first := maps.Collect(r.Similarities())
	for name, s := range again.Similarities() {
		a, one := first[name].Value()
		b, two := s.Value()
		if two && (!one || math.Abs(a-b) > digits) {
			return name
		}
	}
	return ""
}

// thumbnailOnce keeps each thumbnail only at the first mention of its picture in the rows.
func thumbnailOnce(rows []row) {
	seen := map[string]bool{}
	for i := range rows {
		for _, p := range []**picture{&rows[i].Source, &rows[i].Target, &rows[i].Edit} {
			if *p == nil {
				continue
			}
			if seen[(*p).Pixels] {
				*p = &picture{Path: (*p).Path, Pixels: (*p).Pixels}
			} else {
				seen[(*p).Pixels] = true
			}
		}
	}
}

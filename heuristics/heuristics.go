// Package heuristics implements ADIEE's label rules, which assign an edit a label from 0 (failed) to 1 (done). Rules
// look at the edit's similarities to source and target (CLIP-D, CLIP-I, DINO-I), the editor that made it, and its
// position in a chain of edits; the first rule that applies decides. A Profile fixes a consistent set of similarity
// definitions, encoders, thresholds and rules. Everything here is a pure function; nothing reads a file or a picture.
package heuristics

import (
	"iter"
	"strings"
	"unicode"
)

// Kind is the role of a picture with respect to the instruction it is judged by.
type Kind int

const (
	Output  Kind = iota // an editor made it
	Source              // the picture before the edit, shown as if it were the result: a failure
	Target              // the desired result
	Foreign             // the desired result of another instruction: a failure
)

// Candidate is a picture to be labelled, as seen by the rules.
type Candidate struct {
	Kind   Kind       `json:"kind,omitempty"`
	Editor string     `json:"editor,omitempty"` // the editor that made it, if it is an Output
	Given  *float64   `json:"given,omitempty"`  // a label that came with the data, 0 to 1, such as a human score
	ClipD  Similarity `json:"clip_d,omitzero"`
	ClipI  Similarity `json:"clip_i,omitzero"`
	DinoI  Similarity `json:"dino_i,omitzero"`
}

// Similarities yields the three similarities with their column names.
func (c *Candidate) Similarities() iter.Seq2[string, Similarity] {
	return func(yield func(string, Similarity) bool) {
		_ = yield("clip_d", c.ClipD) && yield("clip_i", c.ClipI) && yield("dino_i", c.DinoI)
	}
}

// Measured reports whether any of the similarities is known or undefined.
func (c *Candidate) Measured() bool {
	return !c.ClipD.Unknown() || !c.ClipI.Unknown() || !c.DinoI.Unknown()
}

// editorKey reduces an editor's name to its letters and digits, in lower case, so that "Pix2Pix-Zero" matches
// "pix2pix_zero".
func editorKey(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

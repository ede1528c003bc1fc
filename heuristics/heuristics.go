// Package heuristics holds the label rules of ADIEE. They give an edit a label from 0 (failed) to 1 (done). They look
// at its similarities to source and target, the editor that made it, and its place in a chain of edits. Everything here
// is a pure function; nothing reads a file or a picture.
package heuristics

import (
	"iter"
	"strings"
	"unicode"
)

// Kind says what a picture is to the instruction that it is judged by.
type Kind int

const (
	Output  Kind = iota // an editor made it
	Source              // the picture before the edit, shown as if it were the result: a failure
	Target              // the wanted result
	Foreign             // the wanted result of another instruction: a failure
)

// Candidate is a picture to be labelled, as a rule sees it.
type Candidate struct {
	Kind   Kind       `json:"kind,omitempty"`
	Editor string     `json:"editor,omitempty"` // who made it, if it is an Output
	Given  *float64   `json:"given,omitempty"`  // a label that came with the data, 0 to 1: a person's vote
	ClipD  Similarity `json:"clip_d,omitzero"`
	ClipI  Similarity `json:"clip_i,omitzero"`
	DinoI  Similarity `json:"dino_i,omitzero"`
}

// Similarities are the three similarities, by the names of their columns.
func (c *Candidate) Similarities() iter.Seq2[string, Similarity] {
	return func(yield func(string, Similarity) bool) {
		_ = yield("clip_d", c.ClipD) && yield("clip_i", c.ClipI) && yield("dino_i", c.DinoI)
	}
}

// Measured reports whether any of the similarities is known, or known not to exist.
func (c *Candidate) Measured() bool {
	return !c.ClipD.Unknown() || !c.ClipI.Unknown() || !c.DinoI.Unknown()
}

// editorKey is an editor's name by its letters and digits alone: "Pix2Pix-Zero" is "pix2pix_zero".
func editorKey(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

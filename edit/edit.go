// Package edit holds what all of Assay speaks: an [Edit], the [Score] that a [Judge] gives it, and the [Gradient] of
// that score.
//
// An edit comes from a table's row, a benchmark, a request, a training example or a Go program. Its pictures are
// decoded when a judge looks at them. A judge prepares edits, several at a time (decoding, tokens, pixels), and scores
// batches of what it prepared. Scorers, released reward models, models that answer in words, similarities and metrics
// are judges: whoever holds edits need not know which.
package edit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"assay/data"
)

// Edit is an edit of pictures by an instruction.
type Edit struct {
	ID     string // of the edit, for people and files; "": none
	Editor string // who made the output, where edits of one ID differ in it; "": not known
	Group  string // the same for all edits of one source and instruction; "": not known

	Sources     []Picture // what was edited, then further references, in the order in which the instruction counts them
	Output      Picture   // what the editor made
	Instruction string
	Requirement string // what the edit must also fulfil, for judges that ask about it

	Kind     string             // of the edit, by which some judges ask other questions
	Pictures map[string]Picture // further pictures by role: target, reference, ...
	Texts    map[string]string  // further texts by role: caption, source_caption, ...
}

// New returns an edit of one source.
func New(source, output Picture, instruction string) *Edit {
	return &Edit{Sources: []Picture{source}, Output: output, Instruction: instruction}
}

// Source is the first source; nil: there is none.
func (e *Edit) Source() Picture {
	if len(e.Sources) == 0 {
		return nil
	}
	return e.Sources[0]
}

// Picture is the picture with a role: source, source2 (the second source) and so on, edit (the output), or one of
// Pictures; nil: there is none.
func (e *Edit) Picture(role string) Picture {
	if role == "edit" {
		return e.Output
	}
	if n := SourceOf(role); n > 0 {
		if n > len(e.Sources) {
			return nil
		}
		return e.Sources[n-1]
	}
	return e.Pictures[role]
}

// Set sets the picture with a role: see [Edit.Picture].
func (e *Edit) Set(role string, p Picture) {
	n := SourceOf(role)
	switch {
	case role == "edit":
		e.Output = p
	case n > 0:
		for len(e.Sources) < n {
			e.Sources = append(e.Sources, nil)
		}
		e.Sources[n-1] = p
	default:
		if e.Pictures == nil {
			e.Pictures = map[string]Picture{}
		}
		e.Pictures[role] = p
	}
}

// SourceOf is the place of the source that a role names: 1 of source, 2 of source2; 0: it names none.
func SourceOf(role string) int {
	number, is := strings.CutPrefix(role, "source")
	if n, err := strconv.Atoi(number); is && err == nil && n > 1 {
		return n
	}
	if role == "source" {
		return 1
	}
	return 0
}

// SourceRole is the role of source i, from 0: source, source2, source3 and so on.
func SourceRole(i int) string {
	if i == 0 {
		return "source"
	}
	return fmt.Sprintf("source%d", i+1)
}

// Text is the text with a role: instruction, or one of Texts.
func (e *Edit) Text(role string) string {
	if role == "instruction" {
		return e.Instruction
	}
	return e.Texts[role]
}

// Picture is a picture of an edit. A [data.Picture] is one that is decoded; others read and decode a file when they are
// asked to. Decode is called from several goroutines; nobody changes what it returns.
type Picture interface {
	Decode() (*data.Picture, error)
}

// Keyed is a [Picture] that knows what it will be before it is decoded: pictures of equal keys have equal pixels. A
// judge that has features of a picture in its cache does not decode it again.
type Keyed interface {
	Picture
	Key() string // "": not known
}

// KeyOf is the key of a picture; "" if it has none.
func KeyOf(p Picture) string {
	if k, ok := p.(Keyed); ok {
		return k.Key()
	}
	return ""
}

// Decode decodes a picture, and refuses one that is not there.
func Decode(p Picture) (*data.Picture, error) {
	if p == nil {
		return nil, errors.New("there is no picture")
	}
	picture, err := p.Decode()
	if err != nil {
		return nil, err
	}
	return picture, picture.Check()
}

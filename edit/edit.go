// Package edit defines the types that all of Assay shares: an [Edit], the [Score] that a [Judge] assigns to it, and
// the [Gradient] of that score.
//
// An edit comes from a table row, a benchmark, a request, a training example or a Go program. Its pictures are
// decoded only when a judge looks at them. A judge prepares edits (decoding, tokenising, pixel preprocessing),
// several concurrently, and scores the prepared inputs in batches. Scorers, released reward models, VLM judges,
// similarities and metrics are all judges, so callers need not know which one they have.
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
	ID     string // of the edit, for messages and files; "": none
	Editor string // the editor that made the output, which distinguishes edits of one ID; "": not known
	Group  string // the same for all edits of one source and instruction; "": not known

	Sources     []Picture // the edited picture, then references, in the order in which the instruction numbers them
	Output      Picture   // the result of the editor
	Instruction string
	Requirement string // an additional requirement, for judges that ask about one

	Kind     string             // of the edit; some judges ask different questions depending on it
	Pictures map[string]Picture // further pictures by role: target, reference, ...
	Texts    map[string]string  // further texts by role: caption, source_caption, ...
}

// New returns an edit of one source.
func New(source, output Picture, instruction string) *Edit {
	return &Edit{Sources: []Picture{source}, Output: output, Instruction: instruction}
}

// Source is the first source; nil if there is none.
func (e *Edit) Source() Picture {
	if len(e.Sources) == 0 {
		return nil
	}
	return e.Sources[0]
}

// Picture returns the picture with a role: source, source2 (the second source) and so on, edit (the output), or one
// of Pictures; nil if there is none.
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

// SourceOf is the number of the source that a role names: 1 for source, 2 for source2; 0 if it names none.
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

// Text returns the text with a role: instruction, or one of Texts.
func (e *Edit) Text(role string) string {
	if role == "instruction" {
		return e.Instruction
	}
	return e.Texts[role]
}

// Picture is a picture of an edit. A [data.Picture] is already decoded; others read and decode a file on demand.
// Decode may be called concurrently; callers must not modify its result.
type Picture interface {
	Decode() (*data.Picture, error)
}

// Keyed is a [Picture] with a key that is known before decoding: pictures with equal keys have equal pixels. A judge
// that has cached features of a picture need not decode it again.
type Keyed interface {
	Picture
	Key() string // "": not known
}

// KeyOf returns the key of a picture; "" if it has none.
func KeyOf(p Picture) string {
	if k, ok := p.(Keyed); ok {
		return k.Key()
	}
	return ""
}

// Decode decodes and validates a picture; a nil picture is an error.
func Decode(p Picture) (*data.Picture, error) {
	if p == nil {
		return nil, errors.New("no picture")
	}
	picture, err := p.Decode()
	if err != nil {
		return nil, err
	}
	return picture, picture.Check()
}

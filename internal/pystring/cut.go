package pystring

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Piece is a part of a prompt: text, or a mark that something stands in the place of.
type Piece struct{ Text, Mark string }

// Cut takes a prompt apart at its marks, each of which must be there; marks has what each stands for. With format other
// braces are doubled in it, as Python's str.format wants them.
func Cut(source string, marks map[string]string, format bool) (pieces []Piece, err error) {
	names := slices.SortedFunc(maps.Keys(marks), func(a, b string) int { return len(b) - len(a) })
	var quoted []string
	for _, mark := range names {
		if !strings.Contains(source, mark) {
			return nil, fmt.Errorf("the prompt has no %s, which stands for the %s", mark, marks[mark])
		}
		quoted = append(quoted, regexp.QuoteMeta(mark))
	}
	if format {
		quoted = append([]string{`\{\{`, `\}\}`}, quoted...)
		quoted = append(quoted, `[{}]`)
	}
	if len(quoted) == 0 {
		return []Piece{{Text: source}}, nil
	}
	at := 0
	for _, m := range regexp.MustCompile(strings.Join(quoted, "|")).FindAllStringIndex(source, -1) {
		pieces = append(pieces, Piece{Text: source[at:m[0]]})
		at = m[1]
		switch mark := source[m[0]:m[1]]; {
		case marks[mark] != "":
			pieces = append(pieces, Piece{Mark: mark})
		case len(mark) == 2:
			pieces = append(pieces, Piece{Text: mark[:1]})
		default:
			return nil, fmt.Errorf("the prompt has a single %s at byte %d, which Python's str.format does not take", mark,
				m[0])
		}
	}
	return append(pieces, Piece{Text: source[at:]}), nil
}

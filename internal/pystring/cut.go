package pystring

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Piece is a part of a prompt: text, or a mark to be replaced.
type Piece struct{ Text, Mark string }

// Cut splits a prompt at its marks, each of which must occur. The values of marks describe what each stands for, for
// errors. With format, other braces are doubled, as Python's str.format requires.
func Cut(source string, marks map[string]string, format bool) (pieces []Piece, err error) {
	names := slices.SortedFunc(maps.Keys(marks), func(a, b string) int { return len(b) - len(a) })
	var quoted []string
	for _, mark := range names {
		if !strings.Contains(source, mark) {
			return nil, fmt.Errorf("the prompt has no %s, the placeholder of the %s", mark, marks[mark])
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
			return nil, fmt.Errorf("the prompt has a single %s at byte %d, which Python's str.format refuses", mark,
				m[0])
		}
	}
	return append(pieces, Piece{Text: source[at:]}), nil
}

package house

import (
	"reflect"
	"strings"
	"testing"
)

// words splits a shell command into words, as far as the documentation needs it: quotes, and comments at the end.
// Everything after the first command of a line (;, |, &, <, >) is dropped.
func words(line string) (list []string) {
	var word strings.Builder
	begun, quote, depth := false, rune(0), 0
	end := func() {
		if begun {
			list = append(list, word.String())
		}
		begun = false
		word.Reset()
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '(' || r == ')':
			depth += map[rune]int{'(': 1, ')': -1}[r]
			word.WriteRune(r)
		case depth > 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun || strings.ContainsRune(";|&<>", r):
			end()
			return list
		case r == ' ' || r == '\t':
			end()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return list
}

func TestWords(t *testing.T) {
	got := words(`A=$(cat x) score  pair --instruction "make it 'red'" --edit='a b.png' # why`)
	want := []string{"A=$(cat x)", "score", "pair", "--instruction", "make it 'red'", "--edit=a b.png"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

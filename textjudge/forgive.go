package textjudge

import (
	"encoding/json"
	"regexp"
	"strings"
)

// straight replaces curly quotes with straight ones.
var straight = strings.NewReplacer("\u201c", `"`, "\u201d", `"`, "\u2018", "'", "\u2019", "'")

const (
	space   = `\s\v\p{Z}\x{85}\x{1c}-\x{1f}` // as Python's \s
	blanks  = `[` + space + `]*`
	decimal = `-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?` // as in JSON: without leading zeros
)

// forgive reads an object of a text and one value that is not valid JSON. Curly quotes become straight ones. The
// object must then hold the two keys in either order, each string in one kind of quotes, and the value must be plain
// decimals as in JSON. The text may contain anything, including quotes and line breaks, except the value's key in
// quotes with a colon, which would make the object ambiguous.
func (g *Grammar) forgive(span string) (map[string]json.RawMessage, error) {
	text, key, value := g.two()
	if key == "" {
		return nil, unreadable("bad_json", "the text in braces is not JSON")
	}
	shape := decimal
	if len(value.List) > 0 {
		shape = `\[` + blanks + decimal + `(?:` + blanks + `,` + blanks + decimal + `)*` + blanks + `\]`
	}
	colon, comma := blanks+":"+blanks, blanks+","+blanks
	words := quoted(text) + colon + `(?:"((?s:.*))"|'((?s:.*))')`
	numbers := quoted(key) + colon + `(` + shape + `)`
	plain := straight.Replace(span)
	for _, order := range []struct {
		pattern string
		first   int // group of the first kind of text
		numbers int
	}{{words + comma + numbers, 1, 3}, {numbers + comma + words, 2, 1}} {
		m := regexp.MustCompile(`^\{` + blanks + order.pattern + blanks + `\}$`).FindStringSubmatch(plain)
		if m == nil {
			continue
		}
		again := regexp.MustCompile(`["']` + regexp.QuoteMeta(key) + `["']` + blanks + ":") // the two quotes may differ
		if again.MatchString(m[order.first] + m[order.first+1]) {
			return nil, unreadable("ambiguous", "%q occurs more than once", key)
		}
		return map[string]json.RawMessage{key: json.RawMessage(withoutBlanks(m[order.numbers]))}, nil
	}
	return nil, unreadable("bad_json", "the text in braces is not JSON")
}

// two returns the keys of a grammar that has a text and one value of numbers, and that value; key is "" for other
// grammars.
func (g *Grammar) two() (text, key string, value Value) {
	if len(g.Object) != 2 {
		return "", "", value
	}
	for name, v := range g.Object {
		switch {
		case v.Text:
			text = name
		case len(v.Choice) == 0:
			key, value = name, v
		}
	}
	if text == "" {
		key = ""
	}
	return text, key, value
}

func quoted(key string) string {
	key = regexp.QuoteMeta(key)
	return `(?:"` + key + `"|'` + key + `')`
}

// withoutBlanks makes plain decimals valid JSON, which allows fewer kinds of whitespace.
func withoutBlanks(numbers string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789.-,[]", r) {
			return r
		}
		return -1
	}, numbers)
}

package pystring

import (
	"strings"
	"unicode"
)

// Lines is str.splitlines, without the empty lines.
func Lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r)
	})
}

// Strip is str.strip. Unlike [strings.TrimSpace] it also removes U+001C to U+001F.
func Strip(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' })
}

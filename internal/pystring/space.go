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

// Decimal returns the digits of a text of decimal digits of any script, which Python's int reads as it reads ASCII's;
// false for other texts.
func Decimal(text string) (digits string, ok bool) {
	ok = text != ""
	return strings.Map(func(r rune) rune {
		zero := r
		for unicode.Is(unicode.Nd, zero-1) { // digits follow one another, in tens
			zero--
		}
		ok = ok && unicode.Is(unicode.Nd, r)
		return '0' + (r-zero)%10
	}, text), ok
}

package text

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	endOfRaw = regexp.MustCompile(`\{%[-+]?\s*endraw`)
	isRaw    = regexp.MustCompile(`^\{%[-+]?\s*raw\s*[-+]?%\}$`)
	closers  = map[string]string{"{{": "}}", "{%": "%}", "{#": "#}"}
)

// respellLiterals rewrites the string literals of a Jinja source so that the library reads what Jinja reads. The
// library rejects escapes that Go does not know, which Python keeps unchanged ('<\s>' in a published template), and
// takes '\\' for an unclosed literal.
func respellLiterals(source string) string {
	var b strings.Builder
	for source != "" {
		open := strings.IndexByte(source, '{')
		if open < 0 || open+2 > len(source) {
			break
		}
		closer, ok := closers[source[open:open+2]]
		if !ok {
			open-- // a lone brace
			closer = ""
		}
		b.WriteString(source[:open+2])
		source = source[open+2:]
		if closer == "" {
			continue
		}
		source = respellTag(&b, source, closer)
	}
	b.WriteString(source)
	return b.String()
}

// respellTag copies a tag whose opening is already written, and a raw block up to its end; it returns the rest.
func respellTag(b *strings.Builder, source, closer string) string {
	start := b.Len() - 2
	for source != "" {
		switch {
		case strings.HasPrefix(source, closer):
			b.WriteString(closer)
			source = source[2:]
			if isRaw.MatchString(b.String()[start:]) {
				if end := endOfRaw.FindStringIndex(source); end != nil {
					b.WriteString(source[:end[0]])
					return source[end[0]:]
				}
			}
			return source
		case closer != "#}" && (source[0] == '\'' || source[0] == '"'):
			source = respellLiteral(b, source)
		default:
			b.WriteByte(source[0])
			source = source[1:]
		}
	}
	return ""
}

// respellLiteral copies one literal, decoding Python's escapes and writing backslashes and quotes as \xNN.
func respellLiteral(b *strings.Builder, source string) string {
	quote := source[0]
	b.WriteByte(quote)
	for i := 1; i < len(source); {
		switch c := source[i]; {
		case c == quote:
			b.WriteByte(quote)
			return source[i+1:]
		case c == '\\' && i+1 < len(source):
			text, size := unescapePython(source[i:])
			for _, r := range text {
				writeRune(b, r)
			}
			i += size
		default:
			r, size := utf8.DecodeRuneInString(source[i:])
			writeRune(b, r)
			i += size
		}
	}
	return ""
}

func writeRune(b *strings.Builder, r rune) {
	switch r {
	case '\\':
		b.WriteString(`\x5c`)
	case '\'':
		b.WriteString(`\x27`)
	case '"':
		b.WriteString(`\x22`)
	default:
		b.WriteRune(r)
	}
}

// unescapePython decodes the escape at the start of s and returns its length in bytes. Unknown escapes stay unchanged.
func unescapePython(s string) (string, int) {
	const simple, meaning = `abfnrtv\'"` + "\n", "\a\b\f\n\r\t\v\\'\""
	if k := strings.IndexByte(simple, s[1]); k >= len(meaning) {
		return "", 2 // an escaped line end joins lines
	} else if k >= 0 {
		return meaning[k : k+1], 2
	}
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]; digits > 0 && len(s) >= 2+digits {
		if v, err := strconv.ParseUint(s[2:2+digits], 16, 32); err == nil {
			return string(rune(v)), 2 + digits
		}
	}
	end := 1
	for end < 4 && end < len(s) && s[end] >= '0' && s[end] <= '7' {
		end++
	}
	if v, err := strconv.ParseUint(s[1:end], 8, 32); err == nil {
		return string(rune(v)), end
	}
	return s[:2], 2
}

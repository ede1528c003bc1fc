package t2i

import (
	"errors"
	"html"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Parts of texts that ftfy changes.
var (
	entity   = regexp.MustCompile(`&#?[0-9A-Za-z]{1,24};`)
	terminal = regexp.MustCompile(`\x1b\[[0-9;]*[a-zA-Z]`)
	garbled  = regexp.MustCompile(`[ÂÃ][` + misread + `]|[ÄÅÎÏÐÑØÙ][` + letterly + `]|â[` + misread + `]{2}|` +
		`[àá][` + misread + `][` + letterly + `]|[ãäåæçèéêëìí][` + letterly + `]{2}|ð[Ÿ\x{9f}][` + misread + `]{2}|ï»¿|` +
		`[\x{80}-\x{9f}]`)
	letters = strings.NewReplacer(
		"Ĳ", "IJ", "ĳ", "ij", "ŉ", "ʼn", "Ǳ", "DZ", "ǲ", "Dz", "ǳ", "dz", "Ǆ", "DŽ", "ǅ", "Dž", "ǆ", "dž", "Ǉ", "LJ",
		"ǈ", "Lj", "ǉ", "lj", "Ǌ", "NJ", "ǋ", "Nj", "ǌ", "nj", "ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl",
		"ﬅ", "ſt", "ﬆ", "st",
		"\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\u3000", " ",
	)
)

// misread are the bytes 0x80 to 0xbf, the continuation bytes of UTF-8, decoded as Windows-1252 or unchanged.
const misread = `\x{80}-\x{bf}€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ`

// letterly are the misread bytes that otherwise rarely follow a letter, unlike quotation marks and dashes.
const letterly = `\x{80}-\x{ad}\x{af}-\x{ba}\x{bc}-\x{be}€‚ƒ„†‡ˆ‰Š‹ŒŽ˜š›œžŸ`

var errGarbled = errors.New("the text looks like UTF-8 that was read as Windows-1252 (Ã© for é). HPSv2's code " +
	"guesses the original text: use that instead")

// clean does to a text what open_clip's tokenizer does before splitting it: ftfy.fix_text, unescaping HTML entities
// twice, collapsing white space. Garbled text is refused instead of guessed. The tokenizer itself converts to lower
// case.
func clean(text string) (string, error) {
	for before := ""; text != before; {
		before = text
		if !strings.Contains(text, "<") {
			text = entity.ReplaceAllStringFunc(text, html.UnescapeString)
		}
		if garbled.MatchString(text) {
			return "", errGarbled
		}
		text = strings.Map(plain, letters.Replace(text))
		text = terminal.ReplaceAllString(text, "")
		text = norm.NFC.String(strings.Map(visible, text))
	}
	text = html.UnescapeString(html.UnescapeString(text))
	return strings.Join(strings.FieldsFunc(text, unicode.IsSpace), " "), nil
}

// plain maps full-width and half-width characters to their usual form, and straightens quotation marks.
func plain(r rune) rune {
	switch {
	case r >= 0xff01 && r < 0xfff0:
		if usual := []rune(norm.NFKC.String(string(r))); len(usual) == 1 {
			return usual[0]
		}
	case r == '\u02bc' || r >= '\u2018' && r <= '\u201b':
		return '\''
	case r >= '\u201c' && r <= '\u201f':
		return '"'
	}
	return r
}

// visible drops control characters.
func visible(r rune) rune {
	switch {
	case r < 0x09, r == 0x0b, r >= 0x0e && r < 0x20, r == 0x7f, r >= 0x206a && r < 0x2070, r == 0xfeff,
		r >= 0xfff9 && r < 0xfffd:
		return -1
	}
	return r
}

package textjudge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"assay/internal/pystring"
)

// check checks that a grammar is exactly one of the forms of an answer.
func (g *Grammar) check(key string, problem func(key, format string, args ...any)) {
	forms := 0
	for _, is := range []bool{g.Value != nil, len(g.Object) > 0, g.Lines != nil} {
		if is {
			forms++
		}
	}
	if forms != 1 {
		problem(key, "want one of object, value and lines")
	}
	if g.After != "" && (g.Value == nil || len(g.Value.List) > 0) {
		problem(key+".after", "needs a value that is a number or a choice")
	}
	if g.Tag != "" && (g.Value == nil || g.After != "" || !tagName.MatchString(g.Tag)) {
		problem(key+".tag", "want the name of a tag, such as answer, and a value without after")
	}
	if g.Lines != nil && len(g.Lines.List) == 0 {
		problem(key+".lines", "want a list")
	}
}

// spoken describes, for messages, where the numbers are in an answer with free text around them.
func (g *Grammar) spoken() string {
	if g.Lines != nil {
		return "read by lines"
	}
	if g.Tag != "" {
		return fmt.Sprintf("inside <%s>", g.Tag)
	}
	return fmt.Sprintf("a number after %q", g.After)
}

var tagName = regexp.MustCompile(`^[a-z_]+$`)

// say returns a choice as the model must write it.
func (g *Grammar) say(word string) string {
	if g.Tag == "" {
		return word
	}
	return "<" + g.Tag + ">" + word + "</" + g.Tag + ">"
}

// inTag returns the text inside the tag, which must occur exactly once, opened and closed.
func (g *Grammar) inTag(text string) (string, error) {
	if g.Tag == "" {
		return text, nil
	}
	opening, closing := "<"+g.Tag+">", "</"+g.Tag+">"
	_, inside, begins := strings.Cut(text, opening)
	inside, after, ends := strings.Cut(inside, closing)
	switch {
	case !begins || !ends:
		return "", unreadable("no_tag", "no %s...%s in it", opening, closing)
	case strings.Contains(inside+after, opening) || strings.Contains(after, closing):
		return "", unreadable("ambiguous", "%s occurs several times", opening)
	}
	return inside, nil
}

// behind returns the number after the words After, at the first place where digits follow them, with stars,
// Python's whitespace and commas between and after; if there is none, the number after the same words with an s (Final
// Scores), as RISE-Bench's program. There must be one whole number, on the scale that was asked for.
func (g *Grammar) behind(text string) (string, error) {
	if g.After == "" {
		return text, nil
	}
	var places [][]int
	for _, words := range []string{g.After, g.After + "s"} {
		place := regexp.MustCompile(`(?i)` + regexp.QuoteMeta(words) + `\*{0,2}:?` + blanks +
			`([\p{Nd}*,` + space + `]*)`)
		places = append(places, place.FindAllStringSubmatchIndex(text, -1)...)
	}
	for _, m := range places {
		digits := text[m[2]:m[3]]
		found := strings.FieldsFunc(digits, func(r rune) bool { return !unicode.IsDigit(r) })
		switch len(found) {
		case 0:
			continue
		case 1:
			if !digitsAlone.MatchString(found[0]) { // ４, which Python's int reads
				return "", unreadable("not_a_number", "%q after %q is not a plain number", found[0], g.After)
			}
			return found[0], g.goesOn(digits, text[m[3]:])
		}
		return "", unreadable("ambiguous", "several numbers after %q: %s", g.After, strings.Join(found, ", "))
	}
	return "", unreadable("no_number", "no number after %q", g.After)
}

var (
	fraction = regexp.MustCompile(`^\.[0-9]`)
	span     = regexp.MustCompile(`^(?:[-–—~]|to |or )[ *]*[0-9]`)
	scale    = regexp.MustCompile(`^(?:/|out of )[ *]*([0-9]+(?:\.[0-9]+)?)`)
)

// goesOn refuses a number that continues on its line as a fraction, a range of numbers, or a number on another scale.
func (g *Grammar) goesOn(digits, rest string) error {
	if strings.Contains(digits[strings.LastIndexAny(digits, "0123456789"):], "\n") {
		return nil
	}
	if fraction.MatchString(rest) || span.MatchString(rest) {
		return unreadable("not_a_number", "not a whole number after %q: %s%.10s", g.After, digits, rest)
	}
	if of := scale.FindStringSubmatch(rest); of != nil && of[1] != g.Value.top() {
		return unreadable("other_scale", "the number after %q is out of %s, not out of %s", g.After, of[1], g.Value.top())
	}
	return nil
}

// top returns the largest number that a value can be, as text.
func (v *Value) top() string {
	if len(v.Range) == 2 {
		return strconv.FormatFloat(v.Range[1], 'f', -1, 64)
	}
	return slices.Max(slices.Collect(maps.Keys(v.Choice)))
}

var (
	digitsAlone = regexp.MustCompile(`^[0-9]+$`)
	// otherNumber matches a line whose number after the first words is decorated or continues.
	otherNumber = regexp.MustCompile("^[^:=]*[:=][-+~*_`\"'(\\[ ]*\\p{Nd}+" +
		"(?:[ .,/*_`\"')\\]-]|out|of|to|or|[0-9])*(?:$|[(:;–—]| - )")
)

// lines reads numbers in order, one per line, each after words, a colon and a space; there must be as many as there
// are names. Lines without a number there are skipped. A number that is not whole is an error, because the next
// line's number would take its place.
func (v *Value) lines(text string, numbers map[string]float64) error {
	var found []float64
	for _, line := range pystring.Lines(text) {
		line = pystring.Strip(line)
		parts := strings.Split(line, ": ")
		if len(parts) != 2 || !digitsAlone.MatchString(parts[1]) {
			if otherNumber.MatchString(line) {
				return unreadable("not_a_number", "%.60q has no whole number after a colon and a space", line)
			}
			continue
		}
		x, err := number([]byte(parts[1]))
		if err != nil {
			return err
		}
		found = append(found, x)
	}
	return v.list(found, numbers)
}

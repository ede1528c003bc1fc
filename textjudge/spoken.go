package textjudge

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// check checks which of the forms of an answer is meant.
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
		problem(key+".after", "belongs to a value that is a number or a choice")
	}
	if g.Tag != "" && (g.Value == nil || g.After != "" || !tagName.MatchString(g.Tag)) {
		problem(key+".tag", "want the name of a tag, such as answer, around a value without after")
	}
	if g.Lines != nil && len(g.Lines.List) == 0 {
		problem(key+".lines", "want a list")
	}
}

// spoken says where numbers stand in an answer that has words beside them.
func (g *Grammar) spoken() string {
	if g.Lines != nil {
		return "read by lines"
	}
	if g.Tag != "" {
		return fmt.Sprintf("inside <%s>", g.Tag)
	}
	return fmt.Sprintf("a number behind %q", g.After)
}

var tagName = regexp.MustCompile(`^[a-z_]+$`)

// say is a choice as the model has to say it.
func (g *Grammar) say(word string) string {
	if g.Tag == "" {
		return word
	}
	return "<" + g.Tag + ">" + word + "</" + g.Tag + ">"
}

// inTag is what stands inside the tag, which has to be there once as a whole.
func (g *Grammar) inTag(text string) (string, error) {
	if g.Tag == "" {
		return text, nil
	}
	opening, closing := "<"+g.Tag+">", "</"+g.Tag+">"
	_, inside, begins := strings.Cut(text, opening)
	inside, after, ends := strings.Cut(inside, closing)
	switch {
	case !begins || !ends:
		return "", unreadable("no_tag", "there is no %s...%s in it", opening, closing)
	case strings.Contains(inside+after, opening) || strings.Contains(after, closing):
		return "", unreadable("ambiguous", "%s is there several times", opening)
	}
	return inside, nil
}

// behind is what stands behind the words After: of the first place where digits follow, with stars, blanks and commas
// between and after them. There must be one whole number, of the scale that was asked for.
func (g *Grammar) behind(text string) (string, error) {
	if g.After == "" {
		return text, nil
	}
	place := regexp.MustCompile(`(?i)` + regexp.QuoteMeta(g.After) + `\*{0,2}:?\s*([\d*\s,]*)`)
	for _, m := range place.FindAllStringSubmatchIndex(text, -1) {
		digits := text[m[2]:m[3]]
		found := strings.FieldsFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], g.goesOn(digits, text[m[3]:])
		}
		return "", unreadable("ambiguous", "several numbers stand behind %q: %s", g.After, strings.Join(found, ", "))
	}
	return "", unreadable("no_number", "no number stands behind %q", g.After)
}

var (
	fraction = regexp.MustCompile(`^\.[0-9]`)
	span     = regexp.MustCompile(`^(?:[-–—~]|to |or )[ *]*[0-9]`)
	scale    = regexp.MustCompile(`^(?:/|out of )[ *]*([0-9]+(?:\.[0-9]+)?)`)
)

// goesOn refuses a number that goes on in its line: as a fraction, as a span of numbers, or as one of another scale.
func (g *Grammar) goesOn(digits, rest string) error {
	if strings.Contains(digits[strings.LastIndexAny(digits, "0123456789"):], "\n") {
		return nil
	}
	if fraction.MatchString(rest) || span.MatchString(rest) {
		return unreadable("not_a_number", "what stands behind %q is no whole number: %s%.10s", g.After, digits, rest)
	}
	if of := scale.FindStringSubmatch(rest); of != nil && of[1] != g.Value.top() {
		return unreadable("other_scale", "the number behind %q is one of %s, not of %s", g.After, of[1], g.Value.top())
	}
	return nil
}

// top is the largest number that a value can be, as it is written.
func (v *Value) top() string {
	if len(v.Range) == 2 {
		return strconv.FormatFloat(v.Range[1], 'f', -1, 64)
	}
	return slices.Max(slices.Collect(maps.Keys(v.Choice)))
}

var (
	digitsAlone = regexp.MustCompile(`^[0-9]+$`)
	// otherNumber is a line with a number behind its first words that is dressed up, or goes on.
	otherNumber = regexp.MustCompile("^[^:=]*[:=][-+~*_`\"'(\\[ ]*[0-9]+" +
		"(?:[ .,/*_`\"')\\]-]|out|of|to|or|[0-9])*(?:$|[(:;–—]| - )")
)

// lines reads numbers that stand one on a line, behind words, a colon and a blank, in their order: as many as there are
// names. Lines without a number there are not read; a number that is not whole is an error, since the next line's would
// take its place.
func (v *Value) lines(text string, numbers map[string]float64) error {
	var found []float64
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		parts := strings.Split(line, ": ")
		if len(parts) != 2 || !digitsAlone.MatchString(parts[1]) {
			if otherNumber.MatchString(line) {
				return unreadable("not_a_number", "%.60q has no whole number behind a colon and a blank", line)
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

package textjudge

import (
	"fmt"
	"regexp"
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
	if g.Lines != nil && len(g.Lines.List) == 0 {
		problem(key+".lines", "want a list")
	}
}

// spoken says where numbers stand in an answer that has words beside them.
func (g *Grammar) spoken() string {
	if g.Lines != nil {
		return "read by lines"
	}
	return fmt.Sprintf("a number behind %q", g.After)
}

// behind is what stands behind the words After: of the first place where digits follow, with stars, blanks and commas
// between and after them. There must be one number.
func (g *Grammar) behind(text string) (string, error) {
	if g.After == "" {
		return text, nil
	}
	place := regexp.MustCompile(`(?i)` + regexp.QuoteMeta(g.After) + `\*{0,2}:?\s*([\d*\s,]*)`)
	for _, m := range place.FindAllStringSubmatch(text, -1) {
		found := strings.FieldsFunc(m[1], func(r rune) bool { return r < '0' || r > '9' })
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return "", unreadable("ambiguous", "several numbers stand behind %q: %s", g.After, strings.Join(found, ", "))
	}
	return "", unreadable("no_number", "no number stands behind %q", g.After)
}

// lines reads numbers that stand one on a line, behind words, a colon and a blank, in their order: as many as there are
// names. Other lines are not read.
func (v *Value) lines(text string, numbers map[string]float64) error {
	var found []float64
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ": ")
		if len(parts) != 2 || parts[1] == "" || strings.Trim(parts[1], "0123456789") != "" {
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

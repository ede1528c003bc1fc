package pystring

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/testfile"
)

// literals are CPython's results for sources and templates (tools/oracle/literals.py); nil: an error, or not a
// string.
type literals struct {
	Sources, Templates [][2]*string
	Texts              [][3]any // a text, its lines without empty ones, the stripped text
}

// TestFindIsPythons: Find returns the string that Python assigns to A, and an error if that is not a string.
func TestFindIsPythons(t *testing.T) {
	var rows literals
	testfile.ReadJSON(t, "testdata/literals.json", &rows)
	for _, row := range rows.Sources {
		t.Run(*row[0], func(t *testing.T) { check(t, row, func(s string) (string, error) { return Find(s, "A") }) })
	}
}

// TestCutIsPythons: the pieces, with the marks replaced by their values, equal the result of str.format.
func TestCutIsPythons(t *testing.T) {
	var rows literals
	testfile.ReadJSON(t, "testdata/literals.json", &rows)
	for _, row := range rows.Templates {
		t.Run(*row[0], func(t *testing.T) {
			check(t, row, func(template string) (string, error) {
				marks := map[string]string{}
				for _, name := range []string{"x", "y", "xy"} {
					if mark := "{" + name + "}"; strings.Contains(template, mark) {
						marks[mark] = "<" + name + ">"
					}
				}
				pieces, err := Cut(template, marks, true)
				var b strings.Builder
				for _, p := range pieces {
					b.WriteString(p.Text + marks[p.Mark])
				}
				return b.String(), err
			})
		})
	}
}

// TestSpaceIsPythons: texts are cut at the characters at which Python cuts them, and nowhere else.
func TestSpaceIsPythons(t *testing.T) {
	var rows literals
	testfile.ReadJSON(t, "testdata/literals.json", &rows)
	for _, row := range rows.Texts {
		text := row[0].(string)
		if got, want := fmt.Sprintf("%q", Lines(text)), fmt.Sprintf("%q", row[1]); got != want {
			t.Errorf("lines of %q: got %s, want %s", text, got, want)
		}
		if got := Strip(text); got != row[2] {
			t.Errorf("%q stripped: got %q, want %q", text, got, row[2])
		}
	}
	if len(rows.Texts) == 0 {
		t.Error("got no texts, want Python's results")
	}
}

func check(t *testing.T, row [2]*string, f func(string) (string, error)) {
	t.Helper()
	switch got, err := f(*row[0]); {
	case row[1] == nil && err == nil:
		t.Errorf("got %q, want an error", got)
	case row[1] != nil && (err != nil || got != *row[1]):
		t.Errorf("got %q, %v, want %q", got, err, *row[1])
	}
}

// TestCutPlain: without format braces are text, and of two marks with the same prefix the longest one matches.
func TestCutPlain(t *testing.T) {
	pieces, err := Cut("{{ [A] [AB]}", map[string]string{"[A]": "a", "[AB]": "b", "[A": "c"}, false)
	if got, want := fmt.Sprint(pieces), "[{{{  } { [A]} {  } { [AB]} {} }]"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if pieces, err = Cut("as it is {", nil, false); err != nil || len(pieces) != 1 || pieces[0].Text != "as it is {" {
		t.Errorf("without marks: got %v, %v, want the prompt", pieces, err)
	}
	_, err = Cut("a", map[string]string{"[A]": "answer"}, false)
	if err == nil || !strings.Contains(err.Error(), "answer") {
		t.Errorf("got error %v, want one that says what the missing mark stands for", err)
	}
	if _, err = Cut("ab}", nil, true); err == nil || !strings.Contains(err.Error(), "single } at byte 2") {
		t.Errorf("got error %v, want one with the position of the brace", err)
	}
}

package textjudge

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/store"
)

// authorsAlone reports whether a shipped judge has only its authors' prompts; the tests of score judge cover those
// judges with made-up copies.
func authorsAlone(name string) bool {
	_, err := Open(name, always(""), Settings{})
	return err != nil && strings.Contains(err.Error(), "only in the authors' code")
}

// TestSpoken: numbers on lines and after words are read as ImgEdit's and RISE-Bench's programs read them, if these
// read one number; a number that they would misread is an error.
func TestSpoken(t *testing.T) {
	lines := Grammar{Lines: &Value{List: []string{"a", "b", "c"}, Range: []float64{1, 5}}}
	number := Grammar{Value: &Value{Number: "a", Range: []float64{1, 5}}, After: "Final Score"}
	yes := Grammar{Value: &Value{Choice: map[string]float64{"0": 1, "1": 5}, As: "a"}, After: "Final Score"}
	for _, tt := range []struct {
		g    Grammar
		text string
		want map[string]float64 // nil: unreadable
	}{
		{lines, "Brief reasoning: it is 3: fine.\nPrompt: 5\r\n A & B: 4 \nLast: 1",
			map[string]float64{"a": 5, "b": 4, "c": 1}},
		{lines, "a: 5\x1f\n\x1fb: 4\u2028c: 1\x1c", map[string]float64{"a": 5, "b": 4, "c": 1}}, // lines to Python
		{lines, "a: 5\rb: 4\vc: 1", map[string]float64{"a": 5, "b": 4, "c": 1}},
		{lines, "a: 5\nb: 4", nil},
		{lines, "a: 5\nb: 4\nc: 3\nd: 2", nil},
		{lines, "a: 5\nb: 4\nc: 6", nil},
		{lines, "a: 5\nb: 4\nc: 3/5", nil},
		{number, "So.\n**Final Score:** **4**", map[string]float64{"a": 4}},
		{number, "final score 3.", map[string]float64{"a": 3}},
		{number, "Final Score: X would be wrong.\nFinal Score: 2/5", map[string]float64{"a": 2}},
		{lines, "Seen: 2 cups are gone\na: 5\nb: 4\nc: 3", map[string]float64{"a": 5, "b": 4, "c": 3}},
		{lines, "a: 4.5\nb: 4\nc: 3\nOverall: 2", nil}, // the last line would be c
		{lines, "a: 4/5\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: -4\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: 4 out of 5\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: **4**\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: `4`\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: [4]\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: 4 (good)\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: 4 - good\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a:4\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a = 4\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "a: 4: good\nb: 4\nc: 3\nOverall: 2", nil},
		{lines, "Seen: a 3-D look, 2 of 3\na: 5\nb: 4\nc: 3", map[string]float64{"a": 5, "b": 4, "c": 3}},
		{lines, "Seen: 3-D looks\na: 5\nb: 4\nc: 3", map[string]float64{"a": 5, "b": 4, "c": 3}},
		{lines, "a: 4; good\nb: 4\nc: 3\nOverall: 2", nil},
		{number, "Final Score: 4 out of 5", map[string]float64{"a": 4}},
		{number, "Final Score: 4\n- 5 cups\n", map[string]float64{"a": 4}},
		{number, "Final Score: 4.", map[string]float64{"a": 4}},
		{number, "Final Score: 4.5", nil},
		{number, "Final Score: **4**/10", nil},
		{number, "Final Score: 4 out of 10", nil},
		{number, "Final Score: 3-4", nil},
		{number, "Final Score: 3 – 4", nil},
		{number, "Final Score: 3 or 4", nil},
		{yes, "Final Score: 1/1", map[string]float64{"a": 5}},
		{yes, "Final Score: 1/5", nil},
		{number, "Final Score: 4, 5", nil},
		{number, "Score: 4", nil},
		{number, "Final Score:\u00a04", map[string]float64{"a": 4}},
		{number, "Final Score:\u00a04\n\nFinal Score: 3", map[string]float64{"a": 4}},
		{number, "Final Score: ４\nFinal Score: 3", nil}, // Python reads a 4
		{lines, "a: ４\nb: 4\nc: 3\nOverall: 2", nil},
		{number, "**Final Scores:** 4", map[string]float64{"a": 4}}, // read second by RISE-Bench's program
		{number, "Final Scores: 5\nFinal Score: 4", map[string]float64{"a": 4}},
		{number, "Final Scores: 4, 5", nil},
		{yes, "Final Scores: 1", map[string]float64{"a": 5}},
		{number, "Final Score: 0", nil},
		{yes, "**Final Score**: **1**", map[string]float64{"a": 5}},
		{yes, "Final Score: 5", nil},
	} {
		got, err := tt.g.Read(tt.text)
		if err == nil != (tt.want != nil) || err == nil && !maps.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if _, err := tt.g.language(); err == nil {
			t.Error("words of the model's own are constrained")
		}
	}
}

// TestBareSpace: around a bare value, white space is what Python's str.strip removes.
func TestBareSpace(t *testing.T) {
	g := Grammar{Value: &Value{Number: "a", Range: []float64{1, 5}}}
	for text, want := range map[string]bool{"\x1c 4\x1f\u3000": true, "\u200b4": false, "4\x1f4": false} {
		if got, err := g.Read(text); err == nil != want || want && got["a"] != 4 {
			t.Errorf("%q: got %v, %v, want it read as 4: %t", text, got, err, want)
		}
	}
}

// TestMarks: placeholders are replaced once; with str.format, doubled braces become single ones, and single ones are
// refused, as in Python.
func TestMarks(t *testing.T) {
	r := Released{File: "f.py", Instruction: "{instruct}", Fields: map[string]string{"reference": "{reference}"},
		Format: true}
	p, err := r.fill(`{{"a": {instruct}}} {reference}`, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.render(&edit.Edit{Instruction: "{reference}", Texts: map[string]string{"reference": "{{x}}"}})
	if want := `{"a": {reference}} {{x}}`; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	_, err = p.render(&edit.Edit{Instruction: "a"})
	if err == nil || !strings.Contains(err.Error(), "there is no reference") {
		t.Errorf("%v", err)
	}
	for want, text := range map[string]string{"has no {reference}": "{instruct}",
		"a single { at byte 23": "{instruct} {reference} {other}"} {
		if _, err := r.fill(text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestKinds: judges that ask by kind report all problems of their questions at once, and refuse other kinds.
func TestKinds(t *testing.T) {
	c := &Config{Format: 1, Kind: "text", Name: "n", Rule: "r", Kinds: []string{"a", "b", "c"}, Passes: 1,
		Average: AverageLast, ScoreRange: []float64{0, 1}, Score: Formula{By: "mean", Of: []string{"x"}}}
	ask := func(name string, kinds ...string) Question {
		return Question{Name: name, Kinds: kinds, Prompt: "p.jinja", Answer: Grammar{Value: &Value{Number: "x",
			Range: []float64{0, 1}}}}
	}
	problems := func(questions ...Question) string {
		c.Questions = questions
		var list []string
		c.check(func(key, format string, args ...any) { list = append(list, key+" "+format) })
		return strings.Join(list, "\n")
	}
	if got := problems(ask("1", "a"), ask("2", "b", "c")); got != "" {
		t.Errorf("a number of two questions that no kind is asked both: %s", got)
	}
	for want, questions := range map[string][]Question{
		"want a name that no other number has": {ask("1", "a", "b"), ask("2", "b", "c")},
		"want one of the judge's kinds":        {ask("1", "a", "b", "c"), ask("2", "d")},
		"no question is asked about this kind": {ask("1", "a"), ask("2", "b")},
	} {
		if got := problems(questions...); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	j := &Judge{Config: *c}
	if _, err := j.shown("z"); err == nil || !strings.Contains(err.Error(), `"z" is not one of a, b, c`) {
		t.Errorf("%v", err)
	}
}

// TestScaleByKind: a number is mapped from the range of the question that was asked, even if another kind's question
// has the same number on another range.
func TestScaleByKind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"p.jinja": "{{ instruction }}", "judge.yaml": `format: 1
kind: text
name: n
rule: r
kinds: [a, b]
questions:
  - {name: of a, kinds: [a], pictures: [edit], prompt: p.jinja, answer: {value: {number: x, range: [0, 25]}}}
  - {name: of b, kinds: [b], pictures: [edit], prompt: p.jinja, answer: {value: {number: x, range: [0, 10]}}}
scale: [0, 10]
score: {by: mean, of: [x]}
score_range: [0, 10]
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kind, said string
		want       float64
	}{{"a", "20", 8}, {"a", "2.5", 1}, {"b", "7", 7}} {
		e := &edit.Edit{Instruction: "i", Kind: c.kind, Output: plain(1)}
		r, err := open(t, dir, always(c.said), Settings{}).Ask(t.Context(), e)
		if err != nil || r.Score != c.want || r.Dimensions["x"] != c.want {
			t.Errorf("%s of kind %s: got score %g, dimensions %v, %v, want %g", c.said, c.kind, r.Score, r.Dimensions, err,
				c.want)
		}
	}
	j := open(t, dir, always("1"), Settings{})
	settings, err := json.Marshal(j.Config)
	if err != nil {
		t.Fatal(err)
	}
	// Such a judge used to map all kinds from one range: a table that it began is not continued.
	before := store.KeyOf("textjudge-1", "scripted", j.prompts[0].source, j.prompts[1].source, string(settings)).String()
	if got, err := j.Fingerprint(); err != nil || got == before {
		t.Errorf("got fingerprint %s, %v, want another one than before", got, err)
	}
}

// framed is a model that shows every two pictures as the frames of one.
type framed struct{ scripted }

func (framed) Frames() bool { return true }

// TestFrames: a judge that shows one picture, or one between texts, is refused over such a model before any row.
func TestFrames(t *testing.T) {
	for _, c := range []struct{ pictures, captions, want string }{
		{"[source, edit]", "[]", ""},
		{"[source, edit]", "[The pictures, '']", ""},
		{"[edit]", "[]", "question q shows 1 pictures in a row"},
		{"[source, edit]", "[Before, After]", "question q shows 1 pictures in a row"},
		{"[sources, edit]", "[]", ""}, // of one source or three
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"p.jinja": "{{ instruction }}", "judge.yaml": `format: 1
kind: text
name: n
rule: r
questions:
  - {name: q, pictures: ` + c.pictures + ", captions: " + c.captions + `, prompt: p.jinja,
     answer: {value: {number: x, range: [0, 25]}}}
score: {by: mean, of: [x]}
score_range: [0, 25]
`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(dir, framed{always("1")}, Settings{})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("pictures %s, captions %s: got %v, want %q", c.pictures, c.captions, err, c.want)
		}
		if _, err := Open(dir, always("1"), Settings{}); err != nil {
			t.Errorf("pictures %s one by one: got %v", c.pictures, err)
		}
	}
}

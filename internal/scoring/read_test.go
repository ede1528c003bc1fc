package scoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
)

func scoresOf(t *testing.T, lines ...string) (Scores, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scores.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	return Read(table)
}

func line(more string) string {
	return `{"source": "a.png", "edit": "b.png", "instruction": "x", ` + more + `}`
}

// TestReadRange: a table's scores stay on the range of its scorer, which follows from score and score01.
func TestReadRange(t *testing.T) {
	read := func(want edit.Range, lines ...string) Scores {
		t.Helper()
		s, err := scoresOf(t, lines...)
		if err != nil || s.Range != want {
			t.Errorf("Read = %v, %v; want the range %v", s, err, want)
		}
		return s
	}
	five := read(edit.Range{0, 5}, line(`"score": 3.15, "score01": 0.63`), line(`"score": 1.1, "score01": 0.22`))
	if a, b := five.Lines[0].Value.Value, five.Lines[1].Value.Value; a != 3.15 || b != 1.1 {
		t.Errorf("scores %g and %g, want 3.15 and 1.1", a, b)
	}
	ten := read(edit.Range{0, 10}, line(`"score": 6.3, "score01": 0.63`),
		line(`"score": null, "score01": null, "error": "e"`))
	read(edit.Range{0, 10}, line(`"score01": 0.63`))
	read(edit.Range{-1, 1}, line(`"score": 0, "score01": 0.5`), line(`"score": 0.5, "score01": 0.75`))
	alone := read(edit.Range{3.15, 3.15}, line(`"score": 3.15, "score01": 0.63`))
	free := read(edit.NoRange(), line(`"score": -2.5, "score01": null`))
	for _, lines := range [][]string{
		{line(`"score": 3.15, "score01": 0.63`), line(`"score": 2.2, "score01": 0.22`), line(`"score": 1, "score01": 0.2`)},
		{line(`"score": 3.15, "score01": 0.63`), line(`"score": 2.2, "score01": null`)},
	} {
		if _, err := scoresOf(t, lines...); err == nil || !strings.Contains(err.Error(), "different scorers") {
			t.Errorf("%q: error %v", lines, err)
		}
	}
	names := []string{"before", "after"}
	for _, pair := range [][2]Scores{{five, five}, {five, alone}, {alone, five}, {free, free}} {
		if err := OneRange(names, pair[:]...); err != nil {
			t.Error(err)
		}
	}
	for _, pair := range [][2]Scores{{five, ten}, {ten, alone}, {free, five}, {ten, free}} {
		if err := OneRange(names, pair[:]...); err == nil || !strings.Contains(err.Error(), "after") {
			t.Errorf("%v: error %v", pair, err)
		}
	}
}

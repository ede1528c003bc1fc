package encoders

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/table"
)

// TestSeveralSources: similarities compare with one source; a row with a list of several is refused.
func TestSeveralSources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	rows := `{"sources": ["a.png", "b.png"], "edit": "c.png"}
{"sources": ["a.png"], "edit": "c.png"}`
	if err := os.WriteFile(path, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	rowsOf, err := data.OpenTable(path, data.WithRequired("source", "edit"))
	if err != nil {
		t.Fatal(err)
	}
	defer rowsOf.Close()
	const want = "the edit has 2 sources, but similarities compare with one"
	if _, err := readEdit(rowsOf, nil, 0); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("two sources: got error %v, want one with %q", err, want)
	}
	if e, err := readEdit(rowsOf, nil, 1); err != nil || len(e.Sources) != 1 {
		t.Errorf("a list of one: got %d sources (%v), want 1", len(e.Sources), err)
	}
}

// TestNotMeasured: values of an encoder that is not given stay as they are. NaN is also named in the column undefined.
func TestNotMeasured(t *testing.T) {
	var rec data.Record
	rec.Set("clip_d", math.NaN())
	rec.Set("clip_i", "high")
	rec.Set("dino_i", 0.5)
	r := &TableResult{Known: map[string]int{}}
	if err := (&Measurer{}).set(&table.Line[Numbers]{}, &rec, r, table.Options{Out: "out.jsonl"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"clip_d": "NaN", "clip_i": "high", "dino_i": "0.5", "undefined": "clip_d"} {
		if got, _ := rec.Get(name); fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
	if r.Not["clip_d"] != 1 || r.Known["dino_i"] != 1 || r.Known["clip_i"] != 0 {
		t.Errorf("got %d undefined and %v known, want clip_d undefined and dino_i known", r.Not["clip_d"], r.Known)
	}
}

// TestTextForNumber: a column of numbers in Parquet cannot hold a text, so it becomes null, and the row says why. A row
// that says so already keeps its error.
func TestTextForNumber(t *testing.T) {
	for _, c := range []struct{ before, want string }{
		{"", `column "clip_t": want a number, have "high"`},
		{"no picture", "no picture"},
	} {
		var rec data.Record
		rec.Set("clip_t", "high")
		r := &TableResult{Known: map[string]int{}}
		line := &table.Line[Numbers]{Error: c.before}
		if err := (&Measurer{}).set(line, &rec, r, table.Options{Out: "out.parquet"}); err != nil {
			t.Fatal(err)
		}
		value, _ := rec.Get("clip_t")
		if got, _ := rec.Get("error"); value != nil || got != c.want || r.Failed != 1 {
			t.Errorf("got clip_t %v, error %q, %d failed, want null, %q, 1", value, got, r.Failed, c.want)
		}
	}
}

// TestWithoutTexts: a CLIP without a text tower measures clip_i alone. The table's clip_d and its profile stay.
func TestWithoutTexts(t *testing.T) {
	m := &Measurer{CLIP: openCached(t, open(t, filepath.Join(fixtures, "dino_giant")), t.TempDir())}
	if m.CLIP.HasTexts() {
		t.Fatal("got a text tower, want none")
	}
	var rec data.Record
	rec.Set("clip_d", 0.25)
	rec.Set("clip_i", 0.5)
	rec.Set("clip_t", 0.75)
	rec.Set("profile", "adiee-released/1")
	measured := 0.875
	r := &TableResult{Known: map[string]int{}}
	line := &table.Line[Numbers]{Value: Numbers{ClipI: &measured}}
	if err := m.set(line, &rec, r, table.Options{Out: "out.jsonl"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"clip_d": "0.25", "clip_i": "0.875", "clip_t": "0.75",
		"profile": "adiee-released/1"} {
		if got, _ := rec.Get(name); fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
}

package jsonfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := Write(path, map[string]string{"a": "<&>"}); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "{\n  \"a\": \"<&>\"\n}\n" {
		t.Fatalf("Write: got %q, %v, want %q", raw, err, "{\n  \"a\": \"<&>\"\n}\n")
	}
	rows := []string{"a\nb", "<&>", ""}
	if err := WriteLines(path, rows); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != "\"a\\nb\"\n\"<&>\"\n\"\"\n" {
		t.Fatalf("WriteLines: got %q, %v, want %q", raw, err, "\"a\\nb\"\n\"<&>\"\n\"\"\n")
	}
	var got []string
	for row, err := range Lines[string](path) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	if !slices.Equal(got, rows) {
		t.Errorf("read %q, want %q", got, rows)
	}
	for range Lines[string](path) {
		break // a reader may stop early
	}
	for cut, want := range map[int]string{0: "", 9: "x: line 2: unexpected EOF", -1: "no such file"} {
		if err := os.WriteFile(path, raw[:max(cut, 0)], 0o666); err != nil {
			t.Fatal(err)
		}
		from := path
		if cut < 0 {
			from += "none"
		}
		said := ""
		for _, err := range Lines[string](from) {
			if err != nil {
				said = err.Error()
			}
		}
		if said == "" != (want == "") || !strings.Contains(said, want) {
			t.Errorf("cut at %d: %q, want %q", cut, said, want)
		}
	}
}

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/lab/internal/tree"
)

// TestDrawing draws a -> b -> c and a -> c, an internal package that only a test imports, and a command.
func TestDrawing(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module tree\n",
		"a/a.go":                "package a\n\nimport (\n\t_ \"tree/b\"\n\t_ \"tree/c\"\n)\n",
		"a/a_test.go":           "package a\n\nimport _ \"tree/internal/help\"\n",
		"b/b.go":                "package b\n\nimport _ \"tree/c\"\n",
		"c/c.go":                "package c\n",
		"internal/help/help.go": "package help\n",
		"cmd/x/main.go":         "package main\n\nimport _ \"tree/a\"\n",
		"lab/y/main.go":         "package main\n\nimport _ \"tree/a\"\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read, err := tree.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	g := newGraph(read, []string{"lab"})
	picture := g.draw("Tree & imports", 7)
	if g.arrows != 4 || len(g.nodes) != 4 || len(g.rows) != 4 {
		t.Errorf("got %d imports of %d packages in %d rows, want 4, 4, 4", g.arrows, len(g.nodes), len(g.rows))
	}
	if got := strings.Count(picture, "<path"); got != 3 { // a -> c is implied
		t.Errorf("got %d arrows, want 3", got)
	}
	for above, row := range map[string]int{"cmd/x": 3, "a": 2, "b": 1, "c": 0} {
		if got := g.rows[row][0].name; got != above {
			t.Errorf("row %d has %s, want %s", row, got, above)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is not XML: %v\n%s", err, picture)
		}
	}
}

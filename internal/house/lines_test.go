package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the longest line of Go; a tab counts as one column, as in the linter lll.
const columns = 120

// TestLongLines: no line of Go is longer.
func TestLongLines(t *testing.T) {
	for name, text := range goFiles(t) {
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%s:%d has %d columns, %d are enough: break it", name, number, n, columns)
			}
		}
	}
}

// manyFields is how many fields of a struct literal ask for a line each.
const manyFields = 6

// TestLiterals: of struct literals with many fields, each field begins a line. Tests, maps and rows of tables may be
// denser.
func TestLiterals(t *testing.T) {
	for name, text := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset, file := parse(t, name, text)
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CompositeLit); ok && dense(fset, c) {
				t.Errorf("%s: a struct literal has %d fields: one a line", fset.Position(c.Pos()), len(c.Elts))
			}
			return true
		})
	}
}

// dense reports whether a literal has many named fields, and one of them stands behind another.
func dense(fset *token.FileSet, c *ast.CompositeLit) bool {
	if _, ok := c.Type.(*ast.MapType); ok || c.Type == nil || len(c.Elts) < manyFields { // rows leave their type out
		return false
	}
	line := fset.Position(c.Lbrace).Line
	for _, e := range c.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		if _, ok := field.Key.(*ast.Ident); !ok { // a map's, whose type has a name
			return false
		}
		if fset.Position(e.Pos()).Line == line {
			return true
		}
		line = fset.Position(e.End()).Line
	}
	return false
}

package house

import (
	"go/ast"
	"strings"
	"testing"
)

// A function has at most maxParameters parameters and maxLines lines. Tests, which are often tables, may be longer.
const (
	maxParameters = 7
	maxLines      = 100
)

// TestFunctions limits the number of parameters and the length of functions.
func TestFunctions(t *testing.T) {
	for name, text := range goFiles(t) {
		fset, file := parse(t, name, text)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncType:
				if n.Params.NumFields() > maxParameters {
					t.Errorf("%s: got a function of %d parameters, want at most %d: group them", fset.Position(n.Pos()),
						n.Params.NumFields(), maxParameters)
				}
			case *ast.FuncDecl:
				lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
				if lines > maxLines && !strings.HasSuffix(name, "_test.go") {
					t.Errorf("%s: %s: got %d lines, want at most %d: split it", fset.Position(n.Pos()), n.Name.Name, lines, maxLines)
				}
			}
			return true
		})
	}
}

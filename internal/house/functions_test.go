package house

import (
	"go/ast"
	"strings"
	"testing"
)

// A function takes at most mostParameters, and has at most mostLines lines; tests, which are often tables, may be
// longer.
const (
	mostParameters = 7
	mostLines      = 100
)

// TestFunctions bounds the parameters of functions and their length.
func TestFunctions(t *testing.T) {
	for name, text := range goFiles(t) {
		fset, file := parse(t, name, text)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncType:
				if n.Params.NumFields() > mostParameters {
					t.Errorf("%s: got a function of %d parameters, want at most %d: group them", fset.Position(n.Pos()),
						n.Params.NumFields(), mostParameters)
				}
			case *ast.FuncDecl:
				lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
				if lines > mostLines && !strings.HasSuffix(name, "_test.go") {
					t.Errorf("%s: %s: got %d lines, want at most %d: split it", fset.Position(n.Pos()), n.Name.Name, lines, mostLines)
				}
			}
			return true
		})
	}
}

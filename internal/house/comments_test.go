package house

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestDocComments requires a doc comment on every exported name of the packages outside internal/, and a package
// comment on each of them.
func TestDocComments(t *testing.T) {
	packages := map[string]bool{}
	for name, text := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(strings.Split(path.Dir(name), "/"), "internal") {
			continue
		}
		fset, file := parse(t, name, text)
		dir := path.Dir(name)
		packages[dir] = packages[dir] || file.Doc.Text() != ""
		if file.Name.Name == "main" {
			continue
		}
		for _, d := range file.Decls {
			for _, missing := range undocumented(d) {
				t.Errorf("%s: %s: got no doc comment, want one", fset.Position(missing.Pos()), missing.Name)
			}
		}
	}
	for dir, documented := range packages {
		if !documented {
			t.Errorf("package %s: got no doc comment, want one", dir)
		}
	}
}

// known are methods of well-known interfaces; they need no comment.
var known = []string{"Error", "Unwrap", "String"}

// undocumented lists the exported names of a declaration that have no comment. A comment on a group of constants or
// variables, or at the end of the line, is enough.
func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Doc.Text() != "" || d.Recv != nil && slices.Contains(known, d.Name.Name) {
			return nil
		}
		if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc.Text() == "" && (d.Lparen.IsValid() || d.Doc.Text() == "") {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc.Text()+s.Doc.Text()+s.Comment.Text() == "" {
						names = append(names, n)
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// Package tree reads the Go source text of a repository: parsed files with their packages and the packages of the
// repository that they import. Nothing is type-checked, so a tree need not build. Generated files, testdata and
// build/ are left out; modules below the root (lab/) belong to the tree.
package tree

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// File is a parsed Go file.
type File struct {
	Dir, Name string // Dir is below the root, "." for the root itself
	Lines     int
	Comments  int // lines
	AST       *ast.File
}

// IsTest reports whether the file is a test.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// Tree is the source text of a repository.
type Tree struct {
	Root, Module string
	Files        []*File
	DocLines     int // of docs/*.md
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Root returns the folder of a tree: named, or this checkout if named is "".
func Root(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse: %w (outside of a checkout, name the tree)", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Read parses a tree.
func Read(root string) (*Tree, error) {
	t := &Tree{Root: root}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	t.Module = strings.TrimPrefix(first, "module ")
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (name == "build" || name == "bin" || name == "testdata" || name[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		return t.add(file)
	})
	return t, err
}

func (t *Tree) add(file string) error {
	inside, err := filepath.Rel(t.Root, file)
	if err != nil {
		return err
	}
	dir, name := path.Split(filepath.ToSlash(inside))
	dir = path.Clean(dir)
	isGo := strings.HasSuffix(name, ".go")
	if !isGo && !(dir == "docs" && strings.HasSuffix(name, ".md")) {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := bytes.Count(text, []byte("\n"))
	if !isGo {
		t.DocLines += lines
		return nil
	}
	if generated.Match(text) {
		return nil
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("%s: %w", inside, err)
	}
	f := &File{Dir: dir, Name: name, AST: parsed, Lines: lines}
	for _, c := range parsed.Comments {
		f.Comments += fset.Position(c.End()).Line - fset.Position(c.Pos()).Line + 1
	}
	t.Files = append(t.Files, f)
	return nil
}

// Imports returns the folders of the tree's packages that a file imports, by their name in the file.
func (t *Tree) Imports(f *File) map[string]string {
	imports := map[string]string{}
	for _, i := range f.AST.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil || p != t.Module && !strings.HasPrefix(p, t.Module+"/") {
			continue
		}
		as := path.Base(p)
		if i.Name != nil {
			as = i.Name.Name
		}
		if as == "_" || as == "." { // not unique
			as += p
		}
		imports[as] = path.Clean("./" + strings.TrimPrefix(strings.TrimPrefix(p, t.Module), "/"))
	}
	return imports
}

// Receiver returns the name of the type that a method belongs to.
func Receiver(method *ast.FuncDecl) string {
	name := ""
	ast.Inspect(method.Recv.List[0].Type, func(n ast.Node) bool { // *T, T[K] or T
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// Package house tests the repository's conventions: the length of lines and functions, doc comments, and that links
// and commands in the documentation and help texts work. It also has the dry run of the reproduction book.
package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository's folder.
const root = "../.."

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// goFiles returns every Go file of the repository that is not generated, by its path below root.
func goFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range filesBelow(t, ".go") {
		text := read(t, name)
		if !generated.Match(text) {
			files[name] = text
		}
	}
	return files
}

// filesBelow lists the repository's files whose names have this ending, as paths below root.
func filesBelow(t *testing.T, ending string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && (name == "build" || name == "bin" || name == "testdata" || name[0] == '.') {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ending) {
			inside, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(inside))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// read returns a file of the repository with CRLF converted to LF.
func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
}

// parse parses a Go file with its comments.
func parse(t *testing.T, name string, text []byte) (*token.FileSet, *ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return fset, file
}

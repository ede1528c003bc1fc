package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Count is a number of something by name.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Figures are the numbers of a tree.
type Figures struct {
	Lines         int     `json:"lines"` // without tests and generated files, lab/ included
	LabLines      int     `json:"lab_lines"`
	TestLines     int     `json:"test_lines"`
	Files         int     `json:"files"`
	Packages      int     `json:"packages"`
	Comments      float64 `json:"comments"` // share of the lines
	DocLines      int     `json:"doc_lines"`
	Errors        float64 `json:"errors_per_1000_lines"`
	Exported      int     `json:"exported"` // package-level names
	Unnamed       int     `json:"unnamed"`  // of these, those that no other package names
	Homonyms      int     `json:"homonyms"` // exported types whose name another package exports, too
	GotWant       float64 `json:"got_want"`
	Messages      int     `json:"test_messages"`
	Subtests      int     `json:"subtests"`
	LargePackages []Count `json:"large_packages"`
	Methods       []Count `json:"methods"`
	Fields        []Count `json:"fields"`
	Prefixes      []Count `json:"prefixes"`
}

// source is a parsed file.
type source struct {
	dir, name string // dir below the root
	test      bool
	lines     int
	file      *ast.File
	comments  int
}

type tree struct {
	root, module string
	sources      []source
	docLines     int
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// read parses every Go file of a tree that is not generated, and counts the lines of docs/*.md.
func read(root string) (*tree, error) {
	t := &tree{root: root}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	t.module = strings.TrimPrefix(first, "module ")
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

func (t *tree) add(file string) error {
	inside, err := filepath.Rel(t.root, file)
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
	if !isGo {
		t.docLines += bytes.Count(text, []byte("\n"))
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
	s := source{dir: dir, name: name, test: strings.HasSuffix(name, "_test.go"), file: parsed,
		lines: bytes.Count(text, []byte("\n"))}
	for _, c := range parsed.Comments {
		s.comments += fset.Position(c.End()).Line - fset.Position(c.Pos()).Line + 1
	}
	t.sources = append(t.sources, s)
	return nil
}

// figures counts.
func (t *tree) figures() *Figures {
	f := &Figures{DocLines: t.docLines}
	lines, files, prefixes := map[string]int{}, map[string]int{}, map[string]int{}
	comments, errors, gotWant := 0, 0, 0
	for _, s := range t.sources {
		if s.test {
			f.TestLines += s.lines
			m, both, runs := messages(s.file)
			f.Messages, gotWant, f.Subtests = f.Messages+m, gotWant+both, f.Subtests+runs
			continue
		}
		f.Lines, f.Files = f.Lines+s.lines, f.Files+1
		if s.dir == "lab" || strings.HasPrefix(s.dir, "lab/") {
			f.LabLines += s.lines
		}
		comments += s.comments
		errors += errorCalls(s.file)
		lines[s.dir] += s.lines
		files[s.dir]++
		if prefix, _, ok := strings.Cut(s.name, "_"); ok {
			prefixes[s.dir+"/"+prefix+"_"]++
		}
	}
	f.Packages = len(lines)
	f.Comments = float64(comments) / float64(max(1, f.Lines))
	f.Errors = 1000 * float64(errors) / float64(max(1, f.Lines))
	f.GotWant = float64(gotWant) / float64(max(1, f.Messages))
	for dir, n := range lines {
		if n > 6000 || files[dir] > 45 {
			f.LargePackages = append(f.LargePackages, Count{fmt.Sprintf("%s (%d files)", dir, files[dir]), n})
		}
	}
	f.LargePackages = largest(f.LargePackages, 20)
	for name, n := range prefixes {
		if n >= 3 {
			f.Prefixes = append(f.Prefixes, Count{name, n})
		}
	}
	f.Prefixes = largest(f.Prefixes, 20)
	t.names(f)
	t.types(f)
	return f
}

// named is a package-level name.
type named struct{ pkg, name string }

// names counts exported package-level names, and those that no other package selects.
func (t *tree) names(f *Figures) {
	exported, types := t.exported()
	used := t.selected()
	f.Exported = len(exported)
	for n := range exported {
		if !used[n] {
			f.Unnamed++
		}
	}
	for _, n := range types {
		if n > 1 {
			f.Homonyms += n
		}
	}
}

// exported are the exported package-level names, and how many packages export a type of each name.
func (t *tree) exported() (names map[named]bool, types map[string]int) {
	names, types = map[named]bool{}, map[string]int{}
	for _, s := range t.sources {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			for _, id := range declared(d) {
				if id.IsExported() {
					names[named{s.dir, id.Name}] = true
				}
			}
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				if id := spec.(*ast.TypeSpec).Name; id.IsExported() {
					types[id.Name]++
				}
			}
		}
	}
	return names, types
}

// selected are the names that a file of another package selects.
func (t *tree) selected() map[named]bool {
	used := map[named]bool{}
	for _, s := range t.sources {
		imports := map[string]string{}
		for _, i := range s.file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil || p != t.module && !strings.HasPrefix(p, t.module+"/") {
				continue
			}
			as := path.Base(p)
			if i.Name != nil {
				as = i.Name.Name
			}
			imports[as] = path.Clean("./" + strings.TrimPrefix(strings.TrimPrefix(p, t.module), "/"))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && imports[x.Name] != "" && imports[x.Name] != s.dir {
					used[named{imports[x.Name], sel.Sel.Name}] = true
				}
			}
			return true
		})
	}
	return used
}

// declared are the package-level names of a declaration, without methods.
func declared(d ast.Decl) (out []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out = append(out, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name)
			case *ast.ValueSpec:
				out = append(out, s.Names...)
			}
		}
	}
	return out
}

// types finds those with the most methods and fields.
func (t *tree) types(f *Figures) {
	methods, fields := map[string]int{}, map[string]int{}
	for _, s := range t.sources {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && len(n.Recv.List) == 1 {
					methods[s.dir+"."+receiver(n.Recv.List[0].Type)]++
				}
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok {
					fields[s.dir+"."+n.Name.Name] = st.Fields.NumFields()
				}
			}
			return true
		})
	}
	list := func(m map[string]int) (all []Count) {
		for name, n := range m {
			all = append(all, Count{name, n})
		}
		return largest(all, 10)
	}
	f.Methods, f.Fields = list(methods), list(fields)
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

var saysWant = regexp.MustCompile(`(?i)\b(want|wanted|expected|expects?)\b`)

// messages counts the messages of failing tests that have a text of their own, those that say
// what was wanted beside a value, and calls of Run.
func messages(file *ast.File) (all, both, runs int) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch sel.Sel.Name {
		case "Errorf", "Fatalf", "Error", "Fatal":
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "t" && x.Name != "b" {
				return true
			}
			var text strings.Builder
			literal := false
			for _, a := range call.Args {
				ast.Inspect(a, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.BasicLit:
						literal = literal || n.Kind == token.STRING
						text.WriteString(n.Value + " ")
					case *ast.Ident:
						text.WriteString(n.Name + " ")
					}
					return true
				})
			}
			if !literal { // t.Fatal(err)
				return true
			}
			all++
			if len(call.Args) > 1 && saysWant.MatchString(text.String()) {
				both++
			}
		case "Run":
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "t" {
				runs++
			}
		}
		return true
	})
	return all, both, runs
}

// errorCalls counts calls that make an error with a text.
func errorCalls(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				switch sel.Sel.Name {
				case "Errorf", "Usagef":
					n++
				case "New":
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "errors" {
						n++
					}
				}
			}
		}
		return true
	})
	return n
}

// largest are the first few by their counts.
func largest(list []Count, most int) []Count {
	slices.SortFunc(list, func(a, b Count) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name)) })
	return list[:min(most, len(list))]
}

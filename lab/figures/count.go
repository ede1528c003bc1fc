package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"assay/lab/internal/tree"
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
	Exported      int     `json:"exported"`   // package-level names
	Unnamed       int     `json:"unnamed"`    // of these, not named by any other package's code
	OnlyTests     int     `json:"only_tests"` // of the unnamed, named by other packages' tests
	Homonyms      int     `json:"homonyms"`   // exported types whose name another package also exports
	GotWant       float64 `json:"got_want"`
	Messages      int     `json:"test_messages"`
	Tests         int     `json:"tests"`
	Subtests      int     `json:"subtests"`       // calls of t.Run
	LargestFiles  []Count `json:"most_files"`     // the package with the most files
	LargestLines  []Count `json:"most_lines"`     // the package with the most lines
	LargePackages []Count `json:"large_packages"` // of more than 6,000 lines or 45 files
	Methods       []Count `json:"methods"`
	Fields        []Count `json:"fields"`
	Prefixes      []Count `json:"prefixes"`

	unnamed map[string][]string // by package; those that other packages' tests name are marked with a star
}

// count computes the figures of a tree.
func count(t *tree.Tree) *Figures {
	f := &Figures{DocLines: t.DocLines}
	lines, files, prefixes := map[string]int{}, map[string]int{}, map[string]int{}
	comments, errors, gotWant := 0, 0, 0
	for _, s := range t.Files {
		if s.IsTest() {
			f.TestLines += s.Lines
			m, both, runs := messages(s.AST)
			f.Messages, gotWant, f.Subtests = f.Messages+m, gotWant+both, f.Subtests+runs
			f.Tests += tests(s.AST)
			continue
		}
		f.Lines, f.Files = f.Lines+s.Lines, f.Files+1
		if s.Dir == "lab" || strings.HasPrefix(s.Dir, "lab/") {
			f.LabLines += s.Lines
		}
		comments += s.Comments
		errors += errorCalls(s.AST)
		lines[s.Dir] += s.Lines
		files[s.Dir]++
		if prefix, _, ok := strings.Cut(s.Name, "_"); ok {
			prefixes[s.Dir+"/"+prefix+"_"]++
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
	f.LargestFiles = largest(counts(files), 1)
	f.LargestLines = largest(counts(lines), 1)
	for name, n := range prefixes {
		if n >= 3 {
			f.Prefixes = append(f.Prefixes, Count{name, n})
		}
	}
	f.Prefixes = largest(f.Prefixes, 20)
	names(t, f)
	largestTypes(t, f)
	return f
}

// named is a package-level name.
type named struct{ pkg, name string }

// names counts exported package-level names, and those that no other package selects.
func names(t *tree.Tree, f *Figures) {
	exported, types := exportedNames(t)
	inCode, inTests := selected(t)
	f.Exported, f.unnamed = len(exported), map[string][]string{}
	for n := range exported {
		if inCode[n] {
			continue
		}
		f.Unnamed++
		name := n.name
		if inTests[n] {
			f.OnlyTests++
			name += "*"
		}
		f.unnamed[n.pkg] = append(f.unnamed[n.pkg], name)
	}
	for _, n := range types {
		if n > 1 {
			f.Homonyms += n
		}
	}
}

// exportedNames returns the exported package-level names, and the number of packages that export a type with each
// name.
func exportedNames(t *tree.Tree) (names map[named]bool, types map[string]int) {
	names, types = map[named]bool{}, map[string]int{}
	for _, s := range t.Files {
		if s.IsTest() || s.AST.Name.Name == "main" {
			continue
		}
		for _, d := range s.AST.Decls {
			for _, id := range declared(d) {
				if id.IsExported() {
					names[named{s.Dir, id.Name}] = true
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

// selected returns the names that files of other packages select, in code and in tests.
func selected(t *tree.Tree) (inCode, inTests map[named]bool) {
	inCode, inTests = map[named]bool{}, map[named]bool{}
	for _, s := range t.Files {
		imports, used := t.Imports(s), inCode
		if s.IsTest() {
			used = inTests
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && imports[x.Name] != "" && imports[x.Name] != s.Dir {
					used[named{imports[x.Name], sel.Sel.Name}] = true
				}
			}
			return true
		})
	}
	return inCode, inTests
}

// declared returns the package-level names of a declaration, without methods.
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

// largestTypes finds the types with the most methods and fields.
func largestTypes(t *tree.Tree, f *Figures) {
	methods, fields := map[string]int{}, map[string]int{}
	for _, s := range t.Files {
		if s.IsTest() {
			continue
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[s.Dir+"."+tree.Receiver(n)]++
				}
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok {
					fields[s.Dir+"."+n.Name.Name] = st.Fields.NumFields()
				}
			}
			return true
		})
	}
	f.Methods, f.Fields = largest(counts(methods), 10), largest(counts(fields), 10)
}

var saysWant = regexp.MustCompile(`(?i)\b(want|wanted|expected|expects?)\b`)

// messages counts the messages of failing tests with a literal text, those that state a wanted value next to the
// actual one, and calls of Run.
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

// tests counts the tests of a file.
func tests(file *ast.File) (n int) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			n++
		}
	}
	return n
}

// errorCalls counts calls that create an error with a text.
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

func counts(m map[string]int) (all []Count) {
	for name, n := range m {
		all = append(all, Count{name, n})
	}
	return all
}

// largest returns the entries with the largest counts.
func largest(list []Count, most int) []Count {
	slices.SortFunc(list, func(a, b Count) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name)) })
	return list[:min(most, len(list))]
}

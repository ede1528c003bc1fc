package house

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// longest is the number of words that a sentence may have. proseLeast is the least number of words that makes a string
// constant a text for readers: a message, a help text.
const (
	longest    = 30
	proseLeast = 13
)

// TestSentencesInGo counts the words of each sentence in comments and in string constants.
func TestSentencesInGo(t *testing.T) {
	for name, text := range goFiles(t) {
		fset, file := parse(t, name, text)
		lines := strings.Split(string(text), "\n")
		pieces := append(commentPieces(fset, file, lines), stringPieces(file, strings.HasSuffix(name, "_test.go"))...)
		for _, p := range pieces {
			reportLong(t, fset.Position(p.pos).String(), p.text)
		}
	}
}

// TestSentencesInPages counts the words of each sentence in the documentation.
func TestSentencesInPages(t *testing.T) {
	for _, page := range pages(t) {
		for _, p := range pagePieces(string(read(t, page))) {
			reportLong(t, page, p)
		}
	}
}

// reportLong fails the test for each sentence of a text that has too many words.
func reportLong(t *testing.T, where, text string) {
	t.Helper()
	for _, s := range sentences(text) {
		if n := countWords(s); n > longest {
			t.Errorf("%s: a sentence of %d words, and %d are allowed: %s",
				where, n, longest, strings.Join(strings.Fields(s), " "))
		}
	}
}

// piece is a paragraph, a list item or a text on its own.
type piece struct {
	pos  token.Pos
	text string
}

// commentPieces gives the paragraphs and list items of comments. A comment at the end of a line goes on in the comment
// right below it, if that begins in the same column and stands alone in its line. What is above import "C" is C.
func commentPieces(fset *token.FileSet, file *ast.File, lines []string) (out []piece) {
	var ofC *ast.CommentGroup
	for _, d := range file.Decls {
		if imports, ok := d.(*ast.GenDecl); ok && imports.Tok == token.IMPORT &&
			imports.Specs[0].(*ast.ImportSpec).Path.Value == `"C"` {
			ofC = imports.Doc
		}
	}
	var joined []*ast.CommentGroup
	for _, g := range file.Comments {
		if g == ofC {
			continue
		}
		if len(joined) > 0 {
			last := joined[len(joined)-1]
			begun, end, next := fset.Position(last.Pos()), fset.Position(last.End()), fset.Position(g.Pos())
			alone := strings.HasPrefix(strings.TrimSpace(lines[next.Line-1]), "//")
			if alone && next.Line == end.Line+1 && next.Column == begun.Column {
				joined[len(joined)-1] = &ast.CommentGroup{List: append(append([]*ast.Comment{}, last.List...), g.List...)}
				continue
			}
		}
		joined = append(joined, g)
	}
	var reader comment.Parser
	for _, g := range joined {
		for _, text := range docPieces(reader.Parse(g.Text()).Content) {
			out = append(out, piece{g.Pos(), text})
		}
	}
	return out
}

// docPieces gives the texts of a parsed comment, without its code.
func docPieces(blocks []comment.Block) (out []string) {
	for _, b := range blocks {
		switch b := b.(type) {
		case *comment.Paragraph:
			out = append(out, docText(b.Text))
		case *comment.List:
			for _, item := range b.Items {
				out = append(out, docPieces(item.Content)...)
			}
		}
	}
	return out
}

// docText joins the parts of a paragraph of a comment.
func docText(parts []comment.Text) string {
	var out strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case comment.Plain:
			out.WriteString(string(p))
		case comment.Italic:
			out.WriteString(string(p))
		case *comment.Link:
			out.WriteString(docText(p.Text))
		case *comment.DocLink:
			out.WriteString(docText(p.Text))
		}
	}
	return out.String()
}

// reports are the methods of a test that print what it has to say.
var reports = regexp.MustCompile(`^(Error|Fatal|Log|Skip)f?$`)

// stringPieces gives the prose in the string constants of a file; of a test only what it reports is for readers.
func stringPieces(file *ast.File, test bool) (out []piece) {
	if !test {
		return prosePieces(file)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && reports.MatchString(f.Sel.Name) {
				for _, a := range call.Args {
					out = append(out, prosePieces(a)...)
				}
			}
		}
		return true
	})
	return out
}

// prosePieces gives the paragraphs of string constants that are long enough to be prose, and are not JSON. Constants
// joined by + are one, and what is joined to them counts as one word.
func prosePieces(root ast.Node) (out []piece) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			return n.Tag == nil
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit, *ast.BinaryExpr:
			text, ok := constant(n.(ast.Expr))
			if !ok {
				return true
			}
			for _, p := range paragraphs(text) {
				if countWords(p) >= proseLeast && !strings.Contains(p, `":`) {
					out = append(out, piece{n.Pos(), p})
				}
			}
			return false
		}
		return true
	})
	return out
}

// constant gives the text of a string constant or of a sum that has one.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.ParenExpr:
		return constant(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, isLeft := constant(e.X)
		right, isRight := constant(e.Y)
		if !isLeft {
			left = "X"
		}
		if !isRight {
			right = "X"
		}
		return left + right, isLeft || isRight
	}
	return "", false
}

// paragraphs splits a text at empty lines, and before lines that are indented or begin a list listItem.
func paragraphs(text string) (out []string) {
	var open []string
	flush := func() {
		if len(open) > 0 {
			out = append(out, strings.Join(open, " "))
		}
		open = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		inside := strings.TrimSpace(line)
		if inside == "" || line[0] == ' ' || line[0] == '\t' || listItem.MatchString(inside) || key.MatchString(inside) {
			flush()
		}
		if inside != "" {
			open = append(open, inside)
		}
	}
	flush()
	return out
}

var (
	listItem = regexp.MustCompile(`^([-*+]|\d+[.)])\s+`)
	key      = regexp.MustCompile(`^[\w./-]+:(\s|$)`)
	remark   = regexp.MustCompile(`(?s)<!--.*?-->`)
	anyCode  = regexp.MustCompile("``[^`]+``|`[^`]*`")
)

// pagePieces gives the headings, paragraphs, list items and table cells of a page. Code in a line is one word.
func pagePieces(text string) (out []string) {
	_, rest := blocks(text)
	rest = remark.ReplaceAllString(rest, "\n")
	var open []string
	flush := func() {
		if len(open) > 0 {
			out = append(out, plain(strings.Join(open, " ")))
		}
		open = nil
	}
	for line := range strings.SplitSeq(rest, "\n") {
		inside := strings.TrimSpace(line)
		switch {
		case inside == "":
			flush()
		case inside[0] == '#':
			flush()
			out = append(out, plain(inside))
		case inside[0] == '|':
			flush()
			for cell := range strings.SplitSeq(anyCode.ReplaceAllString(inside, "code"), "|") {
				out = append(out, plain(cell))
			}
		default:
			if listItem.MatchString(inside) {
				flush()
			}
			open = append(open, listItem.ReplaceAllString(inside, ""))
		}
	}
	flush()
	return out
}

// plain gives a text without the addresses of its links, and with one word for each code.
func plain(text string) string {
	return linked.ReplaceAllString(anyCode.ReplaceAllString(text, "code"), "$1")
}

// full matches the end of a sentence; short are words that end with a full stop and no sentence.
var (
	full  = regexp.MustCompile(`[.!?…]["'”’)\]*_]*\s+`)
	short = regexp.MustCompile(`(?i)(^|[\s(])(e\.g|i\.e|cf|vs|al|fig|no|approx|resp)\.$`)
)

// sentences splits a text into its sentences.
func sentences(text string) (out []string) {
	from := 0
	for _, m := range full.FindAllStringIndex(text, -1) {
		if short.MatchString(strings.TrimSpace(text[from:m[1]])) {
			continue
		}
		out = append(out, strings.TrimSpace(text[from:m[1]]))
		from = m[1]
	}
	if rest := strings.TrimSpace(text[from:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

// countWords counts what stands between spaces and has a letter or a digit.
func countWords(text string) (n int) {
	for w := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestCounter tries the counter itself: what a sentence is, what a word, and what is no prose.
func TestCounter(t *testing.T) {
	for text, want := range map[string][]int{
		"One. Two words! (Three of them.) Is it? It is":  {1, 2, 3, 2, 2},
		"Of 3.5 MB, e.g. [B, 3, H] = x + y; the rest":    {11},
		"See fig. 2 (Platt et al. 1999). network.go has": {7, 2},
	} {
		var got []int
		for _, s := range sentences(text) {
			got = append(got, countWords(s))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q has sentences of %v words, want %v", text, got, want)
		}
	}
	page := "# A head\n\nOne `code of three` [link](there.md)\nand on.\n- item\n  of two lines\n" +
		"<!-- no prose -->\n| a | `b | c` |\n\n    code\n\n1. last\n"
	want := []string{"A head", "One code link and on.", "item of two lines", "a", "code", "last"}
	var got []string
	for _, p := range pagePieces(page) {
		if p = strings.TrimLeft(strings.TrimSpace(p), "# "); p != "" {
			got = append(got, p)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has the pieces %q, want %q", got, want)
	}
}

// TestPieces finds the prose of a Go file: comments over several lines and fields, and messages, but no data.
func TestPieces(t *testing.T) {
	const file = "// Package x does\n// a thing.\n//\n//\tcode\npackage x\n\n/* int f(void); */\nimport \"C\"\n\n" +
		"type a struct {\n\tb int `json:\"b\"` // one\n\t                 // two\n\tc int // three\n}\n\n" +
		"var d = f(\"a b c d e f g h i j k l \" + g + \" m\", `{\"a\": 1, b c d e f g h i j k l m n}`, \"short\")\n"
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "x.go", file, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range append(commentPieces(fset, parsed, strings.Split(file, "\n")), stringPieces(parsed, false)...) {
		got = append(got, strings.Join(strings.Fields(p.text), " "))
	}
	want := []string{"Package x does a thing.", "one two", "three", "a b c d e f g h i j k l X m"}
	if !slices.Equal(got, want) {
		t.Errorf("the pieces are %q, want %q", got, want)
	}
	if got := stringPieces(parsed, true); len(got) != 0 {
		t.Errorf("a test that reports nothing has the pieces %v", got)
	}
}

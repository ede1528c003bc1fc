package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/lab/internal/tree"
)

// Mutant is one change to a file's source: the bytes From to To are replaced by Text.
type Mutant struct {
	File     string `json:"file"` // absolute
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Function string `json:"function"`
	Change   string `json:"change"` // such as "x < y -> x <= y", on one line
	From     int    `json:"-"`
	To       int    `json:"-"`
	Text     string `json:"-"`
}

// swapped lists the replacements of each operator.
var swapped = map[token.Token][]token.Token{
	token.LSS:        {token.LEQ, token.GEQ},
	token.LEQ:        {token.LSS, token.GTR},
	token.GTR:        {token.GEQ, token.LEQ},
	token.GEQ:        {token.GTR, token.LSS},
	token.EQL:        {token.NEQ},
	token.NEQ:        {token.EQL},
	token.LAND:       {token.LOR},
	token.LOR:        {token.LAND},
	token.ADD:        {token.SUB},
	token.SUB:        {token.ADD},
	token.MUL:        {token.QUO},
	token.QUO:        {token.MUL},
	token.REM:        {token.MUL},
	token.AND:        {token.OR},
	token.OR:         {token.AND},
	token.SHL:        {token.SHR},
	token.SHR:        {token.SHL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN},
	token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN},
	token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.INC:        {token.DEC},
	token.DEC:        {token.INC},
}

// finder collects the mutants of one file.
type finder struct {
	fset     *token.FileSet
	source   []byte
	file     string
	function string
	out      []Mutant
}

// find lists the mutants of a Go file in the order of the source.
func find(file string) ([]Mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := &finder{fset: token.NewFileSet(), source: source, file: file}
	parsed, err := parser.ParseFile(f.fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.function = functionName(fn)
			ast.Inspect(fn.Body, func(n ast.Node) bool { f.visit(n); return true })
		}
	}
	slices.SortStableFunc(f.out, func(a, b Mutant) int { return a.From - b.From })
	f.number()
	return f.out, nil
}

// number distinguishes mutants of a function with the same text.
func (f *finder) number() {
	seen := map[string]int{}
	for i := range f.out {
		m := &f.out[i]
		id := m.Function + ": " + m.Change
		seen[id]++
		if n := seen[id]; n > 1 {
			m.Change += fmt.Sprintf(" (%d)", n)
		}
	}
}

// functionName returns a function's name, prefixed with its receiver's type.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return tree.Receiver(fn) + "." + fn.Name.Name
}

func (f *finder) visit(n ast.Node) {
	switch n := n.(type) {
	case ast.Expr:
		f.visitExpr(n)
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.replace(n.Cond, n.Cond.Pos(), n.Cond.End(), "false")
		}
	case *ast.IncDecStmt:
		f.replaceOp(n, n.TokPos, n.Tok, swapped[n.Tok][0])
	case *ast.AssignStmt:
		for _, op := range swapped[n.Tok] {
			f.replaceOp(n, n.TokPos, n.Tok, op)
		}
	case *ast.BranchStmt:
		if to, ok := map[token.Token]string{token.CONTINUE: "break", token.BREAK: "continue"}[n.Tok]; ok && n.Label == nil {
			f.replace(n, n.Pos(), n.End(), to)
		}
	case *ast.BlockStmt:
		f.leaveOut(n.List)
	case *ast.CaseClause:
		f.leaveOut(n.Body)
	}
}

func (f *finder) visitExpr(n ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range swapped[n.Op] {
			if !(n.Op == token.ADD && (isText(n.X) || isText(n.Y))) { // strings cannot be subtracted
				f.replaceOp(n, n.OpPos, n.Op, op)
			}
		}
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			f.replaceInLine(n, strconv.FormatBool(n.Name == "false"))
		}
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
			f.replaceInLine(n, strconv.Itoa(v+1))
		}
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT {
			f.replace(n, n.OpPos, n.X.Pos(), "")
		}
	}
}

// negate replaces a condition by its opposite, except for comparisons, which a changed operator negates already.
func (f *finder) negate(cond ast.Expr) {
	if b, ok := cond.(*ast.BinaryExpr); ok && b.Op != token.LAND && b.Op != token.LOR {
		return
	}
	if _, ok := cond.(*ast.UnaryExpr); ok {
		return
	}
	f.replace(cond, cond.Pos(), cond.End(), "!("+f.text(cond.Pos(), cond.End())+")")
}

// leaveOut removes statements that a function usually compiles without: calls and assignments.
func (f *finder) leaveOut(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			f.replace(s, s.Pos(), s.End(), "{}")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				blank := strings.Repeat("_, ", len(s.Rhs)-1) + "_ = "
				var right []string
				for _, r := range s.Rhs {
					right = append(right, f.text(r.Pos(), r.End()))
				}
				text := blank + strings.Join(right, ", ")
				if len(s.Lhs) == len(s.Rhs) && text != f.text(s.Pos(), s.End()) {
					f.replace(s, s.Pos(), s.End(), text)
				}
			}
		}
	}
}

func (f *finder) replaceOp(n ast.Node, pos token.Pos, old, op token.Token) {
	f.replace(n, pos, pos+token.Pos(len(old.String())), op.String())
}

// replaceInLine adds a mutant of a constant; the report shows its line for context.
func (f *finder) replaceInLine(n ast.Node, text string) {
	f.replace(n, n.Pos(), n.End(), text)
	at := f.offset(n.Pos())
	start := bytes.LastIndexByte(f.source[:at], '\n') + 1
	line, _, _ := bytes.Cut(f.source[start:], []byte("\n"))
	m := &f.out[len(f.out)-1]
	m.Change = fmt.Sprintf("%s in %s", m.Change, oneLine(string(line)))
}

// replace adds a mutant; n is the expression or statement that the report shows before and after.
func (f *finder) replace(n ast.Node, from, to token.Pos, text string) {
	at := f.fset.Position(from)
	before := f.text(n.Pos(), n.End())
	lo, hi := f.offset(from)-f.offset(n.Pos()), f.offset(to)-f.offset(n.Pos())
	f.out = append(f.out, Mutant{
		File: f.file, Line: at.Line, Column: at.Column, Function: f.function,
		Change: oneLine(before) + " -> " + oneLine(before[:lo]+text+before[hi:]),
		From:   f.offset(from), To: f.offset(to), Text: text,
	})
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(from, to token.Pos) string {
	return string(f.source[f.offset(from):f.offset(to)])
}

// apply returns the file's source with the change.
func (m Mutant) apply(source []byte) []byte {
	return bytes.Join([][]byte{source[:m.From], []byte(m.Text), source[m.To:]}, nil)
}

// key identifies a mutant in the list of equivalent ones. It has no line number, so that edits elsewhere do not
// change it.
func (m Mutant) key(root string) string {
	file, err := filepath.Rel(root, m.File)
	if err != nil {
		file = m.File
	}
	return fmt.Sprintf("%s %s: %s", filepath.ToSlash(file), m.Function, m.Change)
}

func isText(e ast.Expr) bool {
	b, ok := e.(*ast.BasicLit)
	return ok && b.Kind == token.STRING
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		s = string(r[:97]) + "..."
	}
	return s
}

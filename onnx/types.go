package onnx

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Int is an integer that is known before the model runs, a symbol, or unknown (no symbol).
type Int struct {
	Known bool
	Value int64
	Name  string // symbol of an unknown integer; equal names are equal integers
}

// Value is the static type of a graph value: element type, shape, and contents where they can be inferred.
type Value struct {
	Type   DType
	Shape  []Dim
	Ranked bool    // distinguishes a scalar from unknown rank
	Ints   []Int   // contents of a small integer scalar or vector, row-major; nil if unknown
	Const  *Tensor // the value itself, if it is a constant

	places []Int // contents of a matrix of one row, as NonZero returns for a vector; nil if unknown
}

// Rank returns the number of dimensions, -1 if it is unknown.
func (v *Value) Rank() int {
	if !v.Ranked {
		return -1
	}
	return len(v.Shape)
}

// Sizes returns the shape as numbers if it is fully known.
func (v *Value) Sizes() ([]int64, bool) {
	if !v.Ranked {
		return nil, false
	}
	sizes := make([]int64, len(v.Shape))
	for i, d := range v.Shape {
		if !d.Known() {
			return nil, false
		}
		sizes[i] = d.Size
	}
	return sizes, true
}

// Known returns the contents as numbers if all of them are known.
func (v *Value) Known() ([]int64, bool) {
	if v.Ints == nil {
		return nil, false
	}
	out := make([]int64, len(v.Ints))
	for i, n := range v.Ints {
		if !n.Known {
			return nil, false
		}
		out[i] = n.Value
	}
	return out, true
}

// String formats type and shape for error messages: float[batch,3].
func (v *Value) String() string {
	t := v.Type.String()
	if v.Type == Undefined {
		t = "unknown type"
	}
	if !v.Ranked {
		return t + " of unknown rank"
	}
	parts := make([]string, len(v.Shape))
	for i, d := range v.Shape {
		parts[i] = d.String()
		if strings.HasPrefix(parts[i], "?") { // generated symbols mean nothing to the reader
			parts[i] = "?"
		}
	}
	return t + "[" + strings.Join(parts, ",") + "]"
}

// maxInts is the maximum length of contents that inference tracks: shapes are short.
const maxInts = 64

// contents reads a small integer or bool tensor.
func contents(t *Tensor) []Int {
	if t.Data == nil || len(t.Shape) > 1 || t.Count() > maxInts {
		return nil
	}
	out := make([]Int, t.Count())
	for i := range out {
		out[i].Known = true
		switch t.Type {
		case Int64:
			out[i].Value = int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
		case Int32:
			out[i].Value = int64(int32(binary.LittleEndian.Uint32(t.Data[4*i:])))
		case Bool:
			out[i].Value = int64(t.Data[i])
		default:
			return nil
		}
	}
	return out
}

func (d Dim) integer() Int {
	if d.Known() {
		return Int{Known: true, Value: d.Size}
	}
	return Int{Name: d.Name}
}

func (n Int) dim() Dim {
	if n.Known {
		return Fixed(n.Value)
	}
	return Symbol(n.Name)
}

func known(v int64) Int { return Int{Known: true, Value: v} }

// maxSymbol bounds the length of expression names; a longer expression becomes an unknown without a name.
const maxSymbol = 120

func symbolic(name string) Int {
	if len(name) > maxSymbol {
		return Int{}
	}
	return Int{Name: name}
}

// plus, minus, times and over compute with symbols. Equal expressions get equal names, so a shape that is computed
// twice is recognised as the same.
func (n Int) plus(m Int) Int {
	switch {
	case n.Known && m.Known:
		return known(n.Value + m.Value)
	case n.Known && n.Value == 0:
		return m
	case m.Known && m.Value == 0:
		return n
	case n.unnamed() || m.unnamed():
		return Int{}
	}
	a, b := n.text(), m.text()
	if m.Known && m.Value < 0 {
		return symbolic("(" + a + b + ")")
	}
	if n.Known || !m.Known && b < a {
		a, b = b, a
	}
	return symbolic("(" + a + "+" + b + ")")
}

func (n Int) minus(m Int) Int {
	switch {
	case m.Known:
		return n.plus(known(-m.Value))
	case n.unnamed() || m.unnamed():
		return Int{}
	case n.Name == m.Name && !n.Known:
		return known(0)
	}
	return symbolic("(" + n.text() + "-" + m.text() + ")")
}

func (n Int) times(m Int) Int {
	switch {
	case n.Known && m.Known:
		return known(n.Value * m.Value)
	case n.Known && n.Value == 0 || m.Known && m.Value == 0:
		return known(0)
	case n.Known && n.Value == 1:
		return m
	case m.Known && m.Value == 1:
		return n
	case n.unnamed() || m.unnamed():
		return Int{}
	}
	a, fa := n.factors()
	b, fb := m.factors()
	return product(a*b, append(append([]string{}, fa...), fb...))
}

// over divides. Unless floor is set, the division must be exact.
func (n Int) over(m Int, floor bool) Int {
	switch {
	case m.Known && m.Value == 1:
		return n
	case m.Known && m.Value == 0 || n.unnamed() || m.unnamed():
		return Int{}
	case n.Known && m.Known:
		q := n.Value / m.Value
		if n.Value%m.Value != 0 && (n.Value < 0) != (m.Value < 0) {
			q-- // round down, as for sizes
		}
		return known(q)
	case floor:
		return symbolic("(" + n.text() + "//" + m.text() + ")")
	}
	a, fa := n.factors()
	b, fb := m.factors()
	for i, f := range fb { // x / (a/b) = x b / a
		if over, under, ok := quotient(f); ok && slices.Index(fa, f) < 0 {
			rest := product(b, append(append([]string{}, fb[:i]...), fb[i+1:]...))
			return n.times(under).over(rest.times(over), false)
		}
	}
	fa, fb = cancel(fa, fb)
	if d := gcd(a, b); d > 0 {
		a, b = a/d, b/d
	}
	if b == 1 && len(fb) == 0 {
		return product(a, fa)
	}
	return symbolic("(" + product(a, fa).text() + "/" + product(b, fb).text() + ")")
}

// cancel removes common factors from two lists.
func cancel(a, b []string) (restA, restB []string) {
	restA = append(restA, a...)
	for _, f := range b {
		if i := slices.Index(restA, f); i >= 0 {
			restA = append(restA[:i], restA[i+1:]...)
		} else {
			restB = append(restB, f)
		}
	}
	return restA, restB
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

func (n Int) unnamed() bool { return !n.Known && n.Name == "" }
func (n Int) same(m Int) bool {
	return n.Known && m.Known && n.Value == m.Value || !n.unnamed() && n == m
}

func (n Int) text() string {
	if n.Known {
		return strconv.FormatInt(n.Value, 10)
	}
	return n.Name
}

// factors splits a product into its number and its symbols.
func (n Int) factors() (int64, []string) {
	if n.Known {
		return n.Value, nil
	}
	number, depth, from := int64(1), 0, 0
	var symbols []string
	add := func(s string) {
		if v, err := strconv.ParseInt(s, 10, 64); err == nil {
			number *= v
			return
		}
		symbols = append(symbols, s)
	}
	for i, r := range n.Name {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case '*':
			if depth == 0 {
				add(n.Name[from:i])
				from = i + 1
			}
		}
	}
	add(n.Name[from:])
	return number, symbols
}

// product returns a product under a canonical name: symbols are sorted, and a quotient times its divisor is resolved.
func product(number int64, symbols []string) Int {
	for i, s := range symbols {
		over, under, ok := quotient(s)
		if !ok {
			continue
		}
		others := append(append([]string{}, symbols[:i]...), symbols[i+1:]...)
		k, divisor := under.factors()
		if rest, left := cancel(others, divisor); len(left) == 0 && number%k == 0 {
			n, factors := over.factors()
			return product(number/k*n, append(rest, factors...))
		}
	}
	if len(symbols) == 0 {
		return known(number)
	}
	slices.Sort(symbols)
	if number != 1 {
		symbols = append([]string{strconv.FormatInt(number, 10)}, symbols...)
	}
	return symbolic(strings.Join(symbols, "*"))
}

// quotient splits "(a/b)".
func quotient(s string) (over, under Int, ok bool) {
	if !strings.HasPrefix(s, "(") || !strings.HasSuffix(s, ")") {
		return Int{}, Int{}, false
	}
	s = s[1 : len(s)-1]
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '/':
			if depth == 0 {
				return number(s[:i]), number(s[i+1:]), !strings.HasPrefix(s[i+1:], "/")
			}
		}
	}
	return Int{}, Int{}, false
}

// number parses the result of text.
func number(s string) Int {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return known(v)
	}
	return Int{Name: s}
}

// broadcast returns the common size of two dimensions under ONNX's (numpy's) rules.
func (d Dim) broadcast(e Dim) (Dim, error) {
	switch {
	case d.Same(e), e.Known() && e.Size == 1:
		return d, nil
	case d.Known() && d.Size == 1:
		return e, nil
	case d.Known() && e.Known():
		return Dim{}, fmt.Errorf("sizes %v and %v do not broadcast", d, e)
	case d.Known(): // the other is 1 or equal
		return d, nil
	case e.Known():
		return e, nil
	}
	return Dim{Size: -1}, nil
}

package grad

import (
	"slices"
	"sort"
	"strings"
)

// einsumRule: the gradient of one operand is the einsum of the output's gradient and the other operands, with that
// operand's letters as the result. Letters that only this operand has were summed out: the gradient is constant along
// their axes.
func einsumRule(c *call) []string {
	terms, out := einsumTerms(c.n.Str("equation", ""))
	if len(terms) != len(c.x) {
		return c.fail("needs one term for each input in equation %q", c.n.Str("equation", ""))
	}
	for _, t := range append([]string{out}, terms...) {
		if i := strings.Index(t, "..."); i > 0 {
			return c.fail("needs the ellipsis of %q at the front of its term", t)
		}
	}
	g := make([]string, len(c.x))
	for i, term := range terms {
		if !c.needs(i) {
			continue
		}
		inputs, from := []string{c.dy[0]}, []string{out}
		for j := range terms {
			if j != i {
				inputs, from = append(inputs, c.x[j]), append(from, terms[j])
			}
		}
		g[i] = c.einsumGradient(c.x[i], term, inputs, from)
	}
	return g
}

// einsumTerms splits an equation; an implicit output is the ellipsis and the letters that occur once, in order.
func einsumTerms(equation string) (terms []string, out string) {
	left, out, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	terms = strings.Split(left, ",")
	if explicit {
		return terms, out
	}
	letters := strings.ReplaceAll(strings.Join(terms, ""), "...", "")
	once := []string{}
	for _, l := range strings.Split(letters, "") {
		if strings.Count(letters, l) == 1 {
			once = append(once, l)
		}
	}
	sort.Strings(once)
	if out = strings.Join(once, ""); strings.Contains(left, "...") {
		out = "..." + out
	}
	return terms, out
}

func (c *call) einsumGradient(x, term string, inputs, from []string) string {
	letters := strings.TrimPrefix(term, "...")
	dots := strings.HasPrefix(term, "...")
	given := strings.Join(from, "")
	if !dots && strings.Contains(given, "...") && strings.HasPrefix(from[0], "...") {
		// the other operands' ellipsis: this operand was broadcast along it, so sum over it
		dots = false
	}
	var to string  // result letters: each once, and only those of other terms
	var once []int // their axes in x
	for i, l := range strings.Split(letters, "") {
		if letters != "" && strings.Contains(given, l) && !strings.Contains(to, l) {
			to, once = to+l, append(once, i)
		}
	}
	result := to
	if strings.Contains(given, "...") {
		result = "..." + to
	}
	g := c.OpA("Einsum", attrs{"equation": strings.Join(from, ",") + "->" + result}, inputs...)
	if len(once) == len(letters) {
		return g
	}
	// Insert axes of x that g lacks with size 1 and repeat along them, on the diagonal if a letter is repeated.
	lead := c.rank(g) - len(to)
	var missing []int64
	for i := range letters {
		if !slices.Contains(once, i) {
			missing = append(missing, int64(lead+i))
		}
	}
	g = c.unsqueeze(g, missing...)
	xr := c.rank(x)
	dims := make([]any, 0, c.rank(g))
	for i := range lead {
		dims = append(dims, c.size(g, i))
	}
	for i := range letters {
		dims = append(dims, c.size(x, xr-len(letters)+i))
	}
	g = c.Op("Expand", g, c.shape(dims...))
	for i := range letters {
		if j := strings.Index(letters, letters[i:i+1]); j < i {
			g = c.masked(c.diagonal(g, lead+j, lead+i), g)
		}
	}
	return g
}

// diagonal is true where the indices along two axes of g are equal; it broadcasts to g.
func (c *call) diagonal(g string, i, j int) string {
	along := func(axis int) string {
		shape := slices.Repeat([]any{1}, c.rank(g))
		shape[axis] = -1
		return c.reshape(c.arange(c.size(g, axis)), shape...)
	}
	return c.Op("Equal", along(i), along(j))
}

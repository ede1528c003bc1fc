package model

import (
	"fmt"

	"assay/onnx"
)

// A step over a group has thousands of rows. A product of so many is slower, row by row, than one of some hundreds: the
// runtime goes through all rows for every part of the weight, and what it adds to no longer fits the processor's cache.
// So the rows go through a layer's products in stretches of equal size. A row's numbers are the same wherever it is
// cut.

// mostStretch is the number of rows that a stretch has at most. An MLP of 1024 and 2816, forward and backward over
// 5,159 rows on one core with AVX-512 and 2 MiB of cache of its own, takes 20 to 30 % less time in eight stretches.
const mostStretch = 800

// stretches is how many stretches a step's rows are cut into: a power of two, so that steps of many sizes have few
// graphs. Trained weights stay whole, since their gradients would be added up.
func (n *network) stretches(p *packed) int {
	most := mostStretch
	if n.stretch > 0 {
		most = n.stretch
	}
	count := 1
	if p.step && p.follows != nil && n.training != trainBackbone && !n.onCUDA() {
		for p.rows > most*count {
			count *= 2
		}
	}
	return count
}

// inStretches is a variant whose rows are cut into that many stretches.
func inStretches(v variant, count int) variant {
	if count == 1 {
		return v
	}
	return func(name string, build buildFunc) (string, buildFunc) {
		return v(fmt.Sprintf("%s, %d stretches", name, count), func(g *Graph) (*built, error) {
			g.stretches = count
			return build(g)
		})
	}
}

// evenly are the sizes [1] of n parts of about rows/n rows each.
func (g *Graph) evenly(rows string, n int) (sizes []any) {
	begin := g.Ints(0)
	for i := range n {
		end := g.Op("Div", g.Op("Mul", rows, g.Ints(int64(i+1))), g.Ints(int64(n)))
		sizes = append(sizes, g.Op("Sub", end, begin))
		begin = end
	}
	return sizes
}

// inStretches is Forward with all rows as queries. Attention alone sees them together.
func (l *DecoderLayer) inStretches(g *Graph, x string, v *View) string {
	a := l.Attention
	split := func(x string) []string {
		return g.Node("", "Split", g.stretches, onnx.Attrs{"axis": 0}, x, v.stretches)
	}
	join := func(parts []string) string { return g.OpA("Concat", onnx.Attrs{"axis": 0}, parts...) }
	xs := split(x)
	var q, k, value []string
	for _, x := range xs {
		rows := l.InputNorm.Forward(g, x)
		q = append(q, a.Query.Forward(g, rows))
		k, value = append(k, a.Key.Forward(g, rows)), append(value, a.Value.Forward(g, rows))
	}
	var out []string
	for i, y := range split(a.mix(g, join(q), join(k), join(value), v)) {
		y = g.Op("Reshape", y, g.Shape(g.SizeOf(xs[i], 0), a.Heads*a.HeadDim)) // say that they are as many
		x := g.Op("Add", xs[i], a.Output.Forward(g, y))
		out = append(out, g.Op("Add", x, l.MLP.Forward(g, l.PostAttentionNorm.Forward(g, x))))
	}
	return join(out)
}

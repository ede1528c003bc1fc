package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"assay/lab/internal/tree"
)

// node is a package.
type node struct {
	name         string
	files, lines int
	imports      map[*node]bool
	importers    int
	rank         int  // 0: no imports; else one more than the highest rank of its imports
	apart        bool // drawn at the bottom, without arrows
	x, y         float64
}

// graph holds the packages of a tree, by name and by row of the picture, from the bottom up.
type graph struct {
	nodes  []*node
	arrows int // total number of imports
	rows   [][]*node
	bottom []*node
	widest float64
}

// newGraph finds packages and imports in all files except tests.
func newGraph(t *tree.Tree, without []string) *graph {
	g := &graph{}
	byName := map[string]*node{}
	in := func(dir string) bool {
		first, _, _ := strings.Cut(dir, "/")
		return !slices.Contains(without, first)
	}
	get := func(dir string) *node {
		n := byName[dir]
		if n == nil {
			n = &node{name: dir, imports: map[*node]bool{}}
			byName[dir] = n
			g.nodes = append(g.nodes, n)
		}
		return n
	}
	for _, f := range t.Files {
		if f.IsTest() || !in(f.Dir) {
			continue
		}
		n := get(f.Dir)
		n.files, n.lines = n.files+1, n.lines+f.Lines
		for _, dir := range t.Imports(f) {
			if in(dir) && dir != f.Dir {
				n.imports[get(dir)] = true
			}
		}
	}
	slices.SortFunc(g.nodes, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	for _, n := range g.nodes {
		for to := range n.imports {
			to.importers++
		}
	}
	g.dropTestHelpers()
	for _, n := range g.nodes {
		g.arrows += len(n.imports)
	}
	return g
}

// dropTestHelpers leaves out the internal packages that only tests import.
func (g *graph) dropTestHelpers() {
	for before := -1; before != len(g.nodes); {
		before = len(g.nodes)
		g.nodes = slices.DeleteFunc(g.nodes, func(n *node) bool {
			drop := strings.HasPrefix(n.name, "internal/") && n.importers == 0
			for to := range n.imports {
				if drop {
					to.importers--
				}
			}
			return drop
		})
	}
}

// draw lays out the graph and returns the picture.
func (g *graph) draw(title string, shared int) string {
	g.rank()
	g.setApart(shared)
	g.reduce()
	g.order()
	return g.svg(title)
}

// rank assigns each package a row above its imports. Go has no import cycles.
func (g *graph) rank() {
	for again := true; again; {
		again = false
		for _, n := range g.nodes {
			for to := range n.imports {
				if n.rank <= to.rank {
					n.rank, again = to.rank+1, true
				}
			}
		}
	}
}

// setApart moves packages that many import and that import few out of the rows, and ranks the rest again.
func (g *graph) setApart(shared int) {
	for _, n := range g.nodes {
		n.apart = n.importers >= shared && n.rank <= 1
	}
	for _, n := range g.nodes {
		n.rank = 0
		maps.DeleteFunc(n.imports, func(to *node, _ bool) bool { return to.apart })
		if n.apart {
			clear(n.imports)
		}
	}
	g.rank()
}

// reduce leaves out imports that others imply.
func (g *graph) reduce() {
	reached := map[*node]map[*node]bool{}
	for _, n := range slices.SortedFunc(slices.Values(g.nodes), func(a, b *node) int { return a.rank - b.rank }) {
		all := map[*node]bool{}
		for to := range n.imports {
			maps.Copy(all, reached[to])
		}
		maps.DeleteFunc(n.imports, func(to *node, _ bool) bool { return all[to] })
		maps.Copy(all, n.imports)
		reached[n] = all
	}
}

// wrap splits rows that are too wide.
func (g *graph) wrap() {
	var rows [][]*node
	for _, row := range g.rows {
		wide, from := 0.0, 0
		for i, n := range row {
			w, _ := n.size()
			if wide += w + gap; wide > widest {
				rows, from, wide = append(rows, row[from:i:i]), i, w+gap
			}
		}
		rows = append(rows, row[from:])
	}
	g.rows = rows
}

// order puts the packages into rows, and sorts each row so that arrows are short: in several rounds, a package moves
// to the middle of its imports and importers.
func (g *graph) order() {
	users := map[*node][]*node{}
	for _, n := range g.nodes {
		if n.apart {
			g.bottom = append(g.bottom, n)
			continue
		}
		for len(g.rows) <= n.rank {
			g.rows = append(g.rows, nil)
		}
		g.rows[n.rank] = append(g.rows[n.rank], n)
		for to := range n.imports {
			users[to] = append(users[to], n)
		}
	}
	g.wrap()
	for range 24 {
		g.place()
		for _, row := range g.rows {
			middle := map[*node]float64{}
			for _, n := range row {
				sum, count := 0.0, 0.0
				for to := range n.imports {
					sum, count = sum+to.x, count+1
				}
				for _, from := range users[n] {
					sum, count = sum+from.x, count+1
				}
				middle[n] = n.x
				if count > 0 {
					middle[n] = sum / count
				}
			}
			slices.SortStableFunc(row, func(a, b *node) int {
				return cmp.Or(cmp.Compare(middle[a], middle[b]), cmp.Compare(a.name, b.name))
			})
		}
	}
	g.place()
}

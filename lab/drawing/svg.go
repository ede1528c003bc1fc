package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Sizes in pixels.
const (
	gap      = 14.0 // between boxes
	rise     = 46.0 // between rows
	widest   = 1500 // longer rows are wrapped: their packages do not import each other
	charWide = 6.3  // character width at font size 11
	margin   = 24.0
	header   = 58.0
	lowest   = 24.0 // minimum height of a box
)

// colours of packages, by the first folder of their name.
var colours = map[string]string{"cmd": "#fde4c8", "internal": "#e8e8ec", "model": "#d9e8fb", "onnx": "#d8f0dc",
	"lab": "#f6d9e6", "tools": "#f6d9e6"}

const otherColour = "#fbf6d6"

// size returns the size of a box: its width follows its name, its area its lines.
func (n *node) size() (width, height float64) {
	width = max(charWide*float64(len(n.label()))+12, 1.9*math.Sqrt(float64(n.lines)))
	return width, max(lowest, float64(n.lines)*2.2/width)
}

func (n *node) label() string {
	if n.name == "." {
		return "assay"
	}
	return n.name
}

// place computes the positions of the boxes, with each row centred.
func (g *graph) place() {
	wide := func(row []*node) (sum float64) {
		for _, n := range row {
			w, _ := n.size()
			sum += w + gap
		}
		return sum
	}
	g.widest = 0
	for _, row := range g.rows {
		g.widest = max(g.widest, wide(row))
	}
	above := header
	for _, row := range slices.Backward(g.rows) {
		tallest, x := lowest, margin+(g.widest-wide(row))/2
		for _, n := range row {
			w, h := n.size()
			n.x, n.y = x+w/2, above
			x += w + gap
			tallest = max(tallest, h)
		}
		above += tallest + rise
	}
	x, tallest := margin, lowest
	for _, n := range g.bottom { // wrapped as needed
		w, h := n.size()
		if x+w > g.widest+margin {
			x, above = margin, above+tallest+gap
		}
		n.x, n.y = x+w/2, above
		x += w + gap
		tallest = max(tallest, h)
	}
}

// svg draws arrows first, so that boxes cover them.
func (g *graph) svg(title string) string {
	b := &strings.Builder{}
	lines, height := 0, 0.0
	for _, n := range g.nodes {
		_, h := n.size()
		lines, height = lines+n.lines, max(height, n.y+h+margin)
	}
	width := g.widest + 2*margin
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" `+
		`font-family="DejaVu Sans, Helvetica, sans-serif">`+"\n", width, height, width, height)
	fmt.Fprintf(b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text x="%.0f" y="26" font-size="17" font-weight="bold">%s</text>`+"\n", margin,
		html.EscapeString(title))
	fmt.Fprintf(b, `<text x="%.0f" y="44" font-size="12" fill="#555">%d packages, %d lines of Go without tests and `+
		`generated `+
		`files, %d imports; a package is above its imports</text>`+"\n", margin, len(g.nodes), lines, g.arrows)
	for _, n := range g.nodes {
		_, h := n.size()
		for _, to := range sorted(n.imports) {
			y1, y2 := n.y+h, to.y
			bend := (y2 - y1) / 2
			fmt.Fprintf(b, `<path d="M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f" fill="none" stroke="#8a94a6" `+
				`stroke-width=".8"/>`+"\n", n.x, y1, n.x, y1+bend, to.x, y2-bend, to.x, y2)
		}
	}
	if len(g.bottom) > 0 {
		fmt.Fprintf(b, `<text x="%.0f" y="%.0f" font-size="11" fill="#555">imported by many, without the arrows:</text>`+"\n",
			margin, g.bottom[0].y-8)
	}
	for _, n := range g.nodes {
		n.draw(b)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (n *node) draw(b *strings.Builder) {
	w, h := n.size()
	first, _, _ := strings.Cut(n.name, "/")
	colour := colours[first]
	colour = cmp.Or(colour, otherColour)
	name := html.EscapeString(n.label())
	fmt.Fprintf(b, `<g><title>%s: %d files, %d lines, imported by %d</title>`, name, n.files, n.lines, n.importers)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3" fill="%s" stroke="#555" stroke-width=".7"/>`,
		n.x-w/2, n.y, w, h, colour)
	middle := n.y + h/2
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="11" text-anchor="middle">%s</text>`, n.x, middle, name)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="8" fill="#666" text-anchor="middle">%d</text></g>`+"\n",
		n.x, middle+9.5, n.lines)
}

func sorted(set map[*node]bool) (list []*node) {
	for n := range set {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return list
}

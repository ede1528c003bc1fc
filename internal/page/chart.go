package page

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Series is one line of a chart, in the colour of a CSS variable. Points that are not finite are gaps.
type Series struct {
	Name  string
	Color string // "--accent"
	X, Y  []float64
	Marks bool // draw points, for series with few values
}

// Size of a chart, and its margins, in units of its viewBox.
const (
	chartWidth, chartHeight = 640, 220
	chartLeft, chartRight   = 52, 8
	chartTop, chartBottom   = 8, 26
	nameWidth               = 44
)

// Chart draws series over common axes as an SVG image. label is its text for screen readers; x names the horizontal
// axis. The result is empty without a finite point.
func Chart(label, x string, series ...Series) template.HTML {
	xs, ys := bounds(series)
	if !(xs[0] <= xs[1]) {
		return ""
	}
	toX := scale(xs, chartLeft, chartWidth-chartRight)
	toY := scale(ys, chartHeight-chartBottom, chartTop)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, chartHeight,
		html.EscapeString(label))
	for _, v := range ticks(ys) {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="var(--line)"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`,
			chartLeft, toY(v), chartWidth-chartRight, chartLeft-6, toY(v)+4, v)
	}
	for _, v := range ticks(xs) {
		if toX(v) > chartWidth-chartRight-nameWidth { // the name of the axis is there
			continue
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.6g</text>`, toX(v), chartHeight-8, v)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, chartWidth-chartRight, chartHeight-8,
		html.EscapeString(x))
	for _, s := range series {
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="var(%s)" stroke-width="1.8"/>`, path(s, toX, toY), s.Color)
		for i := range s.X {
			if s.Marks && finite(s.Y[i]) {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="var(%s)"/>`, toX(s.X[i]), toY(s.Y[i]), s.Color)
			}
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// path returns a series as SVG path data.
func path(s Series, toX, toY func(float64) float64) string {
	var b strings.Builder
	pen := "M"
	for i := range s.X {
		if !finite(s.Y[i]) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, toX(s.X[i]), toY(s.Y[i]))
		pen = "L"
	}
	return b.String()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// bounds returns the least and the greatest value of all finite points on each axis.
func bounds(series []Series) (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, s := range series {
		for i := range s.X {
			if finite(s.Y[i]) {
				x = [2]float64{min(x[0], s.X[i]), max(x[1], s.X[i])}
				y = [2]float64{min(y[0], s.Y[i]), max(y[1], s.Y[i])}
			}
		}
	}
	return x, y
}

// scale maps a range to another one; a range of one value is mapped to the middle.
func scale(from [2]float64, lo, hi float64) func(float64) float64 {
	return func(v float64) float64 {
		if from[0] == from[1] {
			return (lo + hi) / 2
		}
		return lo + (hi-lo)*(v-from[0])/(from[1]-from[0])
	}
}

// ticks returns 3 to 6 round values within a range; of one too narrow to have any, its least value.
func ticks(r [2]float64) (out []float64) {
	if r[0] == r[1] {
		return r[:1]
	}
	step := math.Pow(10, math.Floor(math.Log10((r[1]-r[0])/3)))
	for _, m := range []float64{5, 2} {
		if step*m*3 <= r[1]-r[0] {
			step *= m
			break
		}
	}
	if max(-r[0], r[1])/step > 1<<52 { // the range is a few units in the last place: k++ may not change k
		return r[:1]
	}
	for k := math.Ceil(r[0] / step); k*step <= r[1]; k++ {
		out = append(out, k*step)
	}
	return out
}

package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// barsView is a chart of one column.
type barsView struct {
	Title string
	Bars  []barView
}

// barView is a bar; places are in percent of the track.
type barView struct {
	Name, Value string
	Own         bool
	Left, Width float64
	Bounded     bool
	Low, Span   float64
}

// barsOf draws the column that a report is sorted by; nil if it has fewer than two rows.
func barsOf(r *Report) *barsView {
	t := r.Summary()
	at := sortColumn(r.Benchmark, t)
	if at < 0 {
		return nil
	}
	lo, hi := 0.0, 0.0
	var rows []protocol.TableRow
	for _, row := range t.Rows {
		if at >= len(row.Cells) || math.IsNaN(row.Cells[at]) {
			continue
		}
		rows = append(rows, row)
		lo, hi = min(lo, row.Cells[at]), max(hi, row.Cells[at])
		if row.Bounded(at) {
			lo, hi = min(lo, row.Bounds[at].Low), max(hi, row.Bounds[at].High)
		}
	}
	if len(rows) < 2 || hi <= lo {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b protocol.TableRow) int {
		return protocol.Sign(float64(t.Better[at]) * (b.Cells[at] - a.Cells[at]))
	})
	percent := func(v float64) float64 { return math.Round(1000*(v-lo)/(hi-lo)) / 10 }
	v := &barsView{Title: t.Columns[at]}
	for _, row := range rows {
		x := row.Cells[at]
		b := barView{Name: row.Name, Own: !row.Printed, Value: fmt.Sprintf("%.*f", digitsOf(columnOf(t, at)), x) +
			row.Mark(at),
			Left: percent(min(0, x)), Width: max(0.2, percent(max(0, x))-percent(min(0, x)))}
		if row.Bounded(at) {
			b.Bounded, b.Low = true, percent(row.Bounds[at].Low)
			b.Span = max(0.2, percent(row.Bounds[at].High)-b.Low)
		}
		v.Bars = append(v.Bars, b)
	}
	return v
}

// radarView is a radar chart of the systems.
type radarView struct {
	SVG     template.HTML
	Key     []keyView
	Caption string
}

type keyView struct {
	Name   string
	Colour template.CSS
}

// radarRows is how many systems a radar chart can show.
const radarRows = 6

// byHeadline are the systems in the order of the benchmark's headline, the best first.
func (r *Report) byHeadline() []System {
	list := slices.Clone(r.Systems)
	better := float64(r.Benchmark.Direction(r.Benchmark.Headline))
	value := func(s System) float64 { return better * valueOf(r.Benchmark.Headline, s.Result.Numbers) }
	slices.SortStableFunc(list, func(a, b System) int { // NaN comes last
		return cmp.Compare(value(b), value(a))
	})
	return list
}

// radar is a chart with so many axes.
type radar int

const radarMiddle, radarRadius = 170.0, 110.0

// point is the place of a share of axis k.
func (n radar) point(k int, share float64) (x, y float64) {
	angle := 2*math.Pi*float64(k)/float64(n) - math.Pi/2
	return radarMiddle + 30 + radarRadius*share*math.Cos(angle), radarMiddle - 20 + radarRadius*share*math.Sin(angle)
}

// polygon are the points of the shares of all axes.
func (n radar) polygon(share func(k int) float64) string {
	var p []string
	for k := range int(n) {
		x, y := n.point(k, share(k))
		p = append(p, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	return strings.Join(p, " ")
}

// radarOf draws the benchmark's axes for the best systems that have all of them; nil if there are none.
func radarOf(r *Report) *radarView {
	axes := r.Benchmark.Axes
	if len(axes) < 3 {
		return nil
	}
	chart := radar(len(axes))
	var b strings.Builder
	fmt.Fprint(&b, `<svg viewBox="0 0 400 300" role="img" aria-label="the components of each system">`)
	for _, share := range []float64{0.25, 0.5, 0.75, 1} {
		ring := strings.ReplaceAll(chart.polygon(func(int) float64 { return share }), " ", "L")
		fmt.Fprintf(&b, `<path class="axis" d="M%sZ"/>`, ring)
	}
	v := &radarView{}
	left := 0
	for _, s := range r.byHeadline() {
		shares := make([]float64, len(axes))
		for k, a := range axes {
			shares[k] = min(1, max(0, (valueOf(a.Number, s.Result.Numbers)-a.From)/(a.To-a.From))) // NaN stays
		}
		if slices.ContainsFunc(shares, math.IsNaN) {
			continue
		} else if len(v.Key) == radarRows {
			left++
			continue
		}
		colour := fmt.Sprintf("hsl(%d 70%% 50%%)", (210+len(v.Key)*137)%360)
		fmt.Fprintf(&b, `<polygon points="%s" fill="%s" stroke="%s"/>`,
			chart.polygon(func(k int) float64 { return shares[k] }),
			colour, colour)
		v.Key = append(v.Key, keyView{s.Name, template.CSS(colour)})
	}
	if len(v.Key) == 0 {
		return nil
	}
	var caption []string
	for k, a := range axes {
		x, y := chart.point(k, 1.12)
		anchor := "middle"
		if x > radarMiddle+50 {
			anchor = "start"
		} else if x < radarMiddle+10 {
			anchor = "end"
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y+3, anchor,
			template.HTMLEscapeString(a.Number))
		caption = append(caption, fmt.Sprintf("%s %v to %v", a.Number, a.From, a.To))
	}
	fmt.Fprint(&b, `</svg>`)
	v.SVG, v.Caption = template.HTML(b.String()), "From the centre to the rim: "+strings.Join(caption, ", ")
	if left > 0 {
		v.Caption += fmt.Sprintf(". The best %d of %d by %s.", radarRows, radarRows+left, r.Benchmark.Headline)
	}
	return v
}

// scatterView is a scatter plot with its title.
type scatterView struct {
	Title string
	SVG   template.HTML
}

// domain is the range of both axes of scatter plots.
type domain struct{ x0, x1, y0, y1 float64 }

func (d *domain) include(s protocol.Scatter) {
	for i := range s.Score {
		d.x0, d.x1 = min(d.x0, s.Human[i]), max(d.x1, s.Human[i])
		d.y0, d.y1 = min(d.y0, s.Score[i]), max(d.y1, s.Score[i])
	}
}

var noDomain = domain{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}

// scattersOf draws all plots on one scale.
func scattersOf(list []protocol.Scatter) (out []scatterView) {
	d := noDomain
	for _, s := range list {
		d.include(s)
	}
	for _, s := range list {
		out = append(out, scatterView{s.Title, scatterOn(s, d)})
	}
	return out
}

// scatterSVG draws one plot on its own scale.
func scatterSVG(s protocol.Scatter) template.HTML {
	d := noDomain
	d.include(s)
	return scatterOn(s, d)
}

// scatterOn draws score against human value, with a little spread on the human axis, whose values repeat.
func scatterOn(s protocol.Scatter, d domain) template.HTML {
	const width, height, left, bottom = 240.0, 170.0, 40.0, 26.0
	if len(s.Score) == 0 {
		return ""
	}
	scale := func(v, lo, hi, from, to float64) float64 {
		if hi == lo {
			return (from + to) / 2
		}
		return from + (v-lo)/(hi-lo)*(to-from)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="score against human value">`, width, height)
	fmt.Fprintf(&b, `<path class="axis" d="M%g 6V%gH%g"/>`, left, height-bottom, width-6)
	rng := stats.NewRand(1)
	for i := range s.Score {
		x := scale(s.Human[i], d.x0, d.x1, left+8, width-14) + 8*(rng.Float64()-0.5)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2"/>`, x, scale(s.Score[i], d.y0, d.y1, height-bottom-6, 12))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g">%.3g</text><text x="%g" y="%g" text-anchor="end">%.3g</text>`, left+4,
		height-10,
		d.x0, width-6, height-10, d.x1)
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">human</text>`, (left+width)/2, height-10)
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">%.3g</text><text x="%g" y="16" `+
		`text-anchor="end">%.3g</text>`, left-4, height-bottom, d.y0, left-4, d.y1)
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">score</text></svg>`, left-4, (height-bottom)/2)
	return template.HTML(b.String())
}

// pairView is one confusion of several systems.
type pairView struct {
	Title string
	Of    []struct {
		System    string
		Confusion protocol.Confusion
	}
}

// pairedConfusions puts the confusions of one title side by side; nothing for a single system.
func pairedConfusions(r *Report) (out []pairView) {
	if len(r.Systems) < 2 {
		return nil
	}
	for _, s := range r.Systems {
		for _, c := range s.Result.Confusions {
			at := slices.IndexFunc(out, func(p pairView) bool { return p.Title == c.Title })
			if at < 0 {
				at, out = len(out), append(out, pairView{Title: c.Title})
			}
			out[at].Of = append(out[at].Of, struct {
				System    string
				Confusion protocol.Confusion
			}{s.Name, c})
		}
	}
	return out
}

// gallery are the examples of a kind.
func gallery(list []protocol.Example, kind string) (out []protocol.Example) {
	for _, e := range list {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

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

// barView is a bar; positions are in percent of the track.
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
		cell := row.Cell(at)
		if math.IsNaN(cell.Value) {
			continue
		}
		rows = append(rows, row)
		lo, hi = min(lo, cell.Value), max(hi, cell.Value)
		if cell.Bounded() {
			lo, hi = min(lo, cell.Bounds.Low), max(hi, cell.Bounds.High)
		}
	}
	if len(rows) < 2 || hi <= lo {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b protocol.TableRow) int {
		return protocol.Sign(float64(t.Better[at]) * (b.Cells[at].Value - a.Cells[at].Value))
	})
	percent := func(v float64) float64 { return math.Round(1000*(v-lo)/(hi-lo)) / 10 }
	v := &barsView{Title: t.Columns[at]}
	for _, row := range rows {
		cell := row.Cells[at]
		b := barView{Name: row.Name, Own: !row.Printed,
			Value: fmt.Sprintf("%.*f", digitsOf(columnOf(t, at)), cell.Value) + cell.Mark,
			Left:  percent(min(0, cell.Value)), Width: max(0.2, percent(max(0, cell.Value))-percent(min(0, cell.Value)))}
		if cell.Bounded() {
			b.Bounded, b.Low = true, percent(cell.Bounds.Low)
			b.Span = max(0.2, percent(cell.Bounds.High)-b.Low)
		}
		v.Bars = append(v.Bars, b)
	}
	return v
}

// radarView is a radar chart of the systems.
type radarView struct {
	Rings   []string // points of the rings, as a path
	Systems []radarSystem
	Labels  []radarLabel
	Caption string
}

type radarSystem struct {
	Name, Points string
	Colour       template.CSS
}

// radarLabel is the name of an axis, at its end.
type radarLabel struct{ X, Y, Anchor, Text string }

// radarRows is how many systems a radar chart can show.
const radarRows = 6

// byHeadline returns the systems in the order of the benchmark's headline, the best first.
func (r *Report) byHeadline() []System {
	list := slices.Clone(r.Systems)
	better := float64(r.Benchmark.Direction(r.Benchmark.Headline))
	value := func(s System) float64 { return better * valueOf(r.Benchmark.Headline, s.Result.Numbers) }
	slices.SortStableFunc(list, func(a, b System) int { // NaN comes last
		return cmp.Compare(value(b), value(a))
	})
	return list
}

// radar is a chart with this many axes.
type radar int

const radarMiddle, radarRadius = 170.0, 110.0

// point returns the position of a share of axis k.
func (n radar) point(k int, share float64) (x, y float64) {
	angle := 2*math.Pi*float64(k)/float64(n) - math.Pi/2
	return radarMiddle + 30 + radarRadius*share*math.Cos(angle), radarMiddle - 20 + radarRadius*share*math.Sin(angle)
}

// polygon returns the points of the shares of all axes.
func (n radar) polygon(between string, share func(k int) float64) string {
	var p []string
	for k := range int(n) {
		x, y := n.point(k, share(k))
		p = append(p, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	return strings.Join(p, between)
}

// radarOf draws the benchmark's axes for the best systems that have all of them; nil if there are none.
func radarOf(r *Report) *radarView {
	axes := r.Benchmark.Axes
	if len(axes) < 3 {
		return nil
	}
	chart := radar(len(axes))
	v := &radarView{}
	for _, share := range []float64{0.25, 0.5, 0.75, 1} {
		v.Rings = append(v.Rings, chart.polygon("L", func(int) float64 { return share }))
	}
	left := 0
	for _, s := range r.byHeadline() {
		shares := make([]float64, len(axes))
		for k, a := range axes {
			shares[k] = min(1, max(0, (valueOf(a.Number, s.Result.Numbers)-a.From)/(a.To-a.From))) // NaN stays
		}
		if slices.ContainsFunc(shares, math.IsNaN) {
			continue
		} else if len(v.Systems) == radarRows {
			left++
			continue
		}
		colour := fmt.Sprintf("hsl(%d 70%% 50%%)", (210+len(v.Systems)*137)%360)
		v.Systems = append(v.Systems, radarSystem{s.Name, chart.polygon(" ", func(k int) float64 { return shares[k] }),
			template.CSS(colour)})
	}
	if len(v.Systems) == 0 {
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
		v.Labels = append(v.Labels, radarLabel{fmt.Sprintf("%.1f", x), fmt.Sprintf("%.1f", y+3), anchor, a.Number})
		caption = append(caption, fmt.Sprintf("%s %v to %v", a.Number, a.From, a.To))
	}
	v.Caption = "From the centre to the rim: " + strings.Join(caption, ", ")
	if left > 0 {
		v.Caption += fmt.Sprintf(". The best %d of %d by %s.", radarRows, radarRows+left, r.Benchmark.Headline)
	}
	return v
}

// scatterView is a scatter plot of scores against human values; the axes span their ranges. The template has its shape.
type scatterView struct {
	Title                            string
	Points                           [][2]string // x and y
	LowX, HighX, LowScore, HighScore string
}

// scattersOf draws all plots on one scale, with a little spread on the human axis, where values repeat.
func scattersOf(list []protocol.Scatter) (out []scatterView) {
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range list {
		for i := range s.Score {
			x0, x1 = min(x0, s.Human[i]), max(x1, s.Human[i])
			y0, y1 = min(y0, s.Score[i]), max(y1, s.Score[i])
		}
	}
	scale := func(v, lo, hi, from, to float64) float64 {
		if hi == lo {
			return (from + to) / 2
		}
		return from + (v-lo)/(hi-lo)*(to-from)
	}
	short := func(v float64) string { return fmt.Sprintf("%.3g", v) }
	for _, s := range list {
		v := scatterView{Title: s.Title, LowX: short(x0), HighX: short(x1), LowScore: short(y0), HighScore: short(y1)}
		rng := stats.NewRand(1)
		for i := range s.Score {
			x := scale(s.Human[i], x0, x1, 48, 226) + 8*(rng.Float64()-0.5)
			v.Points = append(v.Points,
				[2]string{fmt.Sprintf("%.1f", x), fmt.Sprintf("%.1f", scale(s.Score[i], y0, y1, 138, 12))})
		}
		out = append(out, v)
	}
	return out
}

// pairView is one confusion of several systems.
type pairView struct {
	Title string
	Of    []struct {
		System    string
		Confusion protocol.Confusion
	}
}

// pairedConfusions puts confusions with the same title side by side; nil for a single system.
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

// gallery returns the examples of a kind.
func gallery(list []protocol.Example, kind string) (out []protocol.Example) {
	for _, e := range list {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

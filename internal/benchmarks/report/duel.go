package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// duelResult counts where each of two editors wins.
type duelResult struct {
	Editor  string     `json:"editor"`
	Against string     `json:"against"`
	By      string     `json:"by"` // the number that they are compared by
	Where   []duelPart `json:"where"`
}

// duelPart is a kind of edits, a part of the benchmark, or all.
type duelPart struct {
	Name   string         `json:"name"`
	N      int            `json:"n"`
	Wins   int            `json:"wins"`
	Ties   int            `json:"ties"`
	Losses int            `json:"losses"`
	Lead   protocol.Value `json:"mean_lead"` // of Editor, in the number; positive: it is better
	Low    protocol.Value `json:"low"`       // 95 % percentile interval over sources
	High   protocol.Value `json:"high"`
}

// addDuels adds, for benchmarks of editors, where the first editor wins against each of the others, by kind of edit,
// with the samples on which both differ most. Other systems have no duels.
func (r *Report) addDuels(resamples int, seed uint64) {
	first, ok := r.Systems[0].predictions.(*protocol.EditorPredictions)
	if !ok {
		return
	}
	for s := 1; s < len(r.Systems); s++ {
		other, ok := r.Systems[s].predictions.(*protocol.EditorPredictions)
		column := ""
		for _, c := range slices.Backward(first.Columns) { // a scorer's number, or the last of the rule's
			if ok && column == "" && other.Values[c] != nil {
				column = c
			}
		}
		if column == "" {
			continue
		}
		if a, b := first.JudgeOf(column), other.JudgeOf(column); a != b {
			r.Comparison.Notes = append(r.Comparison.Notes,
				fmt.Sprintf("who wins where is not shown for %s and %s: the judge of "+
					"%s is %s, not %s", r.Systems[0].Name, r.Systems[s].Name, column, protocol.Stated(a),
					protocol.Stated(b)))
			continue
		}
		d := duel{a: first, b: other, column: column, lower: r.Benchmark.Direction(column) < 0,
			names: [2]string{r.Systems[0].Name, r.Systems[s].Name}}
		out := duelResult{d.names[0], d.names[1], column, d.count(resamples, seed)}
		result := r.Systems[0].Result
		result.Agreement = append(result.Agreement, out.table())
		result.Examples = append(result.Examples, d.examples(3)...)
		r.Comparison.Duels = append(r.Comparison.Duels, out)
	}
}

// duel compares two editors sample by sample.
type duel struct {
	a, b   *protocol.EditorPredictions
	column string
	lower  bool
	names  [2]string
}

// lead returns how much better a is than b on a sample, NaN if one of them has no number.
func (d *duel) lead(i int) float64 {
	v := d.a.Values[d.column][i] - d.b.Values[d.column][i]
	if d.lower {
		return -v
	}
	return v
}

// count counts wins by kind of edit, by part, and over all samples.
func (d *duel) count(resamples int, seed uint64) (out []duelPart) {
	add := func(name string, in func(s *protocol.EditorSample) bool) {
		var leads []float64
		var sources protocol.Sources
		part := duelPart{Name: name, Low: protocol.Value(math.NaN()), High: protocol.Value(math.NaN())}
		for i := range d.a.Samples {
			v := d.lead(i)
			if !in(&d.a.Samples[i]) || math.IsNaN(v) {
				continue
			}
			sources.Add(d.a.Samples[i].Source, len(leads))
			leads = append(leads, v)
			switch protocol.Sign(v) {
			case 1:
				part.Wins++
			case 0:
				part.Ties++
			default:
				part.Losses++
			}
		}
		if part.N = len(leads); part.N == 0 {
			return
		}
		part.Lead = protocol.Value(stats.Mean(leads))
		if in := protocol.MeanInterval(leads, sources.Samples, resamples, seed); in != nil {
			part.Low, part.High = protocol.Value(in.Low), protocol.Value(in.High)
		}
		out = append(out, part)
	}
	if len(d.a.Groups) > 1 {
		for _, g := range d.a.Groups {
			add(g, func(s *protocol.EditorSample) bool { return s.Group == g })
		}
	}
	if len(d.a.Parts) > 1 {
		for _, part := range d.a.Parts {
			add(part, func(s *protocol.EditorSample) bool { return slices.Contains(s.Parts, part) })
		}
	}
	add("all", func(*protocol.EditorSample) bool { return true })
	return out
}

// table returns a duel as a table.
func (d *duelResult) table() protocol.Table {
	t := protocol.Table{Title: fmt.Sprintf("%s against %s by %s: who wins where", d.Editor, d.Against, d.By),
		Columns: []string{"n", d.Editor, "ties", d.Against, "mean lead of " + d.Editor}}
	for _, p := range d.Where {
		t.Rows = append(t.Rows, protocol.TableRow{Name: p.Name, Cells: []protocol.Cell{protocol.Count(p.N),
			protocol.Count(p.Wins), protocol.Count(p.Ties), protocol.Count(p.Losses),
			{Value: float64(p.Lead), Bounds: &stats.Interval{Low: float64(p.Low), High: float64(p.High)}}}})
	}
	return t
}

// examples returns, for each editor, the samples on which it leads most.
func (d *duel) examples(each int) (out []protocol.Example) {
	var order []int
	for i := range d.a.Samples {
		if !math.IsNaN(d.lead(i)) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(d.lead(y), d.lead(x)) })
	folders := [2]string{d.folder(d.names[0]), d.folder(d.names[1])}
	if folders[0] == "" || folders[1] == "" { // the folders of their pictures are not known
		return nil
	}
	add := func(i int) {
		it := d.a.Samples[i].Item
		e := protocol.Example{Kind: "disagrees", Instruction: it.Instruction,
			Text: fmt.Sprintf("%s: %s %.4g for %s, %.4g for %s",
				it.ID, d.column, d.a.Values[d.column][i], d.names[0], d.b.Values[d.column][i], d.names[1])}
		for _, p := range protocol.Captions(it, "source", protocol.Target) {
			if !p.Picture.None() {
				e.Pictures = append(e.Pictures, p)
			}
		}
		for k, folder := range folders {
			e.Pictures = append(e.Pictures, protocol.CaptionedPicture{Caption: d.names[k],
				Picture: protocol.Picture{Path: d.a.Output(folder, i)}})
		}
		out = append(out, e)
	}
	for k := 0; k < min(each, len(order)) && d.lead(order[k]) > 0; k++ {
		add(order[k])
	}
	for k := 0; k < min(each, len(order)) && d.lead(order[len(order)-1-k]) < 0; k++ {
		add(order[len(order)-1-k])
	}
	return out
}

// folder returns the folder of an editor's pictures, "" if it is not known.
func (d *duel) folder(name string) string {
	at := slices.IndexFunc(d.a.Editors, func(dir string) bool { return protocol.EditorName(dir) == name })
	if at < 0 {
		return ""
	}
	return d.a.Editors[at]
}

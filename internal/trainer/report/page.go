package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/page"
	"assay/internal/stats"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

//go:embed page.html
var pageText string

var pageTemplate = page.Parse(pageText, template.FuncMap{
	"measures": measures,
	"tenths":   func(v float64) string { return fmt.Sprintf("%.1f", 10*v) },
})

// number formats a number for display; "-": none.
func number(v records.Number) string { return page.Number("%.4g", float64(v)) }

// Page writes the page, which loads no other resources.
func (r *Run) Page(w io.Writer) error { return pageTemplate.Execute(w, r) }

// Write writes the page into the run directory.
func (r *Run) Write() error { return atomicfile.Write(filepath.Join(r.Dir, File), r.Page) }

// Title returns the run's name.
func (r *Run) Title() string { return filepath.Base(r.Dir) }

// points returns the series of n values by step; a missing value is a gap.
func points(name, color string, n int, at func(i int) (step int64, value float64)) page.Series {
	s := page.Series{Name: name, Color: color, Marks: n <= 100}
	for i := range n {
		step, v := at(i)
		s.X, s.Y = append(s.X, float64(step)), append(s.Y, v)
	}
	return s
}

// Loss returns the loss curve: every step of short runs, otherwise means over 400 parts of the run.
func (r *Run) Loss() template.HTML {
	s := points("loss", "--accent", len(r.Steps), func(i int) (int64, float64) {
		return r.Steps[i].Step, float64(r.Steps[i].Loss)
	})
	const most = 400
	if n := len(s.X); n > most {
		mean := page.Series{Name: s.Name, Color: s.Color}
		for i := range most {
			lo, hi := i*n/most, (i+1)*n/most
			mean.X, mean.Y = append(mean.X, s.X[hi-1]), append(mean.Y, stats.Mean(s.Y[lo:hi]))
		}
		s = mean
	}
	return page.Chart("loss by step", "step", s)
}

// Curve is the curve of a validation metric.
type Curve struct {
	Name  string
	Chart template.HTML
}

// measure is a validation metric.
type measure struct {
	name string
	of   func(*records.ValidationMetrics) *records.Number // nil: none
}

// Curves returns the curves of the metrics that the validations have: of the score, then of each head.
func (r *Run) Curves() (out []Curve) {
	for _, m := range append([]measure{
		{"loss", func(m *records.ValidationMetrics) *records.Number { return m.Loss }},
		{"reward", func(m *records.ValidationMetrics) *records.Number { return m.Reward }},
		{"L1: mean |score - label|, on 0 to 1", func(m *records.ValidationMetrics) *records.Number { return &m.L1 }},
		{"Spearman", func(m *records.ValidationMetrics) *records.Number { return &m.Spearman }},
		{"pair accuracy", func(m *records.ValidationMetrics) *records.Number { return m.Pairs }},
		{"benchmark", func(m *records.ValidationMetrics) *records.Number { return m.Benchmark }},
	}, r.headMeasures()...) {
		s := points(m.name, "--accent", len(r.Validations), func(i int) (int64, float64) {
			if v := m.of(&r.Validations[i]); v != nil {
				return r.Validations[i].Step, float64(*v)
			}
			return r.Validations[i].Step, math.NaN()
		})
		s.Marks = true
		if chart := page.Chart(m.name+" by step", "step", s); chart != "" {
			out = append(out, Curve{m.name, chart})
		}
	}
	return out
}

// headMeasures returns the metrics of each head, prefixed with its name.
func (r *Run) headMeasures() (out []measure) {
	heads := map[string]bool{}
	for i := range r.Validations {
		for name := range r.Validations[i].Dimensions {
			heads[name] = true
		}
	}
	for _, head := range slices.Sorted(maps.Keys(heads)) {
		add := func(name string, of func(*records.DimensionMetrics) *records.Number) {
			out = append(out, measure{head + ": " + name, func(m *records.ValidationMetrics) *records.Number {
				if d := m.Dimensions[head]; d != nil {
					return of(d)
				}
				return nil
			}})
		}
		add("L1", func(d *records.DimensionMetrics) *records.Number { return d.L1 })
		add("Spearman", func(d *records.DimensionMetrics) *records.Number { return d.Spearman })
		add("right class", func(d *records.DimensionMetrics) *records.Number { return d.Accuracy })
		add("pair accuracy", func(d *records.DimensionMetrics) *records.Number { return d.Pairs })
	}
	return out
}

// Calibration returns the mean label of the validation rows by score, in ten bins with equally many rows, with the
// line where both are equal; empty with fewer than 20 labels.
func (r *Run) Calibration() template.HTML {
	rows := byScore(r.Predictions, true)
	const parts = 10
	if len(rows) < 2*parts {
		return ""
	}
	s := page.Series{Name: "label", Color: "--accent", Marks: true}
	for i := range parts {
		var score, label float64
		part := rows[i*len(rows)/parts : (i+1)*len(rows)/parts]
		for _, p := range part {
			score, label = score+p.Score, label+*p.Label
		}
		s.X, s.Y = append(s.X, 10*score/float64(len(part))), append(s.Y, 10*label/float64(len(part)))
	}
	lo, hi := s.X[0], s.X[parts-1]
	equal := page.Series{Name: "equal", Color: "--line", X: []float64{lo, hi}, Y: []float64{lo, hi}}
	return page.Chart("mean label by score, 0 to 10", "score", equal, s)
}

// Last returns the last validation; nil: none.
func (r *Run) Last() *records.ValidationMetrics {
	if len(r.Validations) == 0 {
		return nil
	}
	return &r.Validations[len(r.Validations)-1]
}

// Best returns the last validation that was the best so far; nil: none.
func (r *Run) Best() *records.ValidationMetrics {
	for i := len(r.Validations) - 1; i >= 0; i-- {
		if r.Validations[i].Best {
			return &r.Validations[i]
		}
	}
	return nil
}

// Next returns the commands to run next.
func (r *Run) Next() []Fact {
	if !r.Finished {
		return []Fact{{"resume", "train --config " + filepath.Join(r.Dir, config.ConfigFile)}}
	}
	result := filepath.Join(r.Dir, filepath.Base(r.config.ResultPath()))
	if r.Best() != nil {
		result = filepath.Join(r.Dir, config.BestDir)
	}
	if r.config.Mode == config.ModeText {
		model := "--backbone " + result
		if r.config.Adapts() {
			model = "--backbone " + r.config.Backbone + " --adapter " + result
		}
		return []Fact{
			{"ask about a picture", "score chat " + model + ` --image a.png --text "..."`},
			{"answer a table of questions", "score chat " + model + " --in questions.jsonl --out answers.jsonl"},
		}
	}
	return []Fact{
		{"score an edit", "score pair --scorer " + result + ` --source a.png --edit b.png --instruction "..."`},
		{"score a table", "score batch --scorer " + result + " --in edits.csv --out scores.jsonl"},
		{"try it in a browser, and over HTTP", "score serve --scorer " + result},
	}
}

// edge is the longest edge of a picture on the page, in pixels.
const edge = 192

// thumbnail returns a picture of an edit as a data URL.
func thumbnail(e *edit.Edit, role string) (template.URL, error) {
	p, err := e.Picture(role).Decode()
	if err != nil {
		return "", err
	}
	return page.PNG(p.Thumbnail(edge, data.Bicubic).EncodePNG)
}

package calibrate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"

	"assay/internal/atomicfile"
	"assay/internal/calibration"
	"assay/internal/jsonfile"
	"assay/internal/page"
	"assay/internal/stats"
)

// bins of the reliability diagrams.
const bins = 10

// tellingRows is the number of tested rows below which the expected calibration error says little: of a perfect map
// with labels 0 and 1 it is 0.10 with 100 rows, and 0.21 with 18.
const tellingRows = 10 * bins

// tooFew returns a warning if so few rows are tested; "" if not.
func tooFew(rows int) string {
	if rows >= tellingRows {
		return ""
	}
	return fmt.Sprintf("only %d rows measure the result, in %d bins: with fewer than %d the expected calibration error "+
		"is far from 0 even for a perfect map", rows, bins, tellingRows)
}

// Report describes the data of a calibration, and scores before and after. Numbers are on 0..1.
type Report struct {
	Scorer     string   `json:"scorer"`
	Dimension  string   `json:"dimension"` // "": the score
	Method     string   `json:"method"`
	Table      string   `json:"table"`
	Test       string   `json:"test_table,omitempty"`
	Seed       uint64   `json:"seed"`
	Trained    string   `json:"trained"`    // whether the scorer was trained on the rows: no, unknown, in part
	Failed     int      `json:"failed"`     // rows without a score
	Unlabelled int      `json:"unlabelled"` // rows without a label, which are left out
	Repeated   int      `json:"repeated"`   // rows that repeat another one, which counts once
	Warnings   []string `json:"warnings,omitempty"`

	Fit      Subset `json:"fit"` // rows that the map was fitted on
	Interval Subset `json:"interval_rows"`
	Tested   Subset `json:"tested"`

	Map    calibration.Map `json:"map"`
	Before *Measures       `json:"before,omitempty"` // on the tested rows; nil: the scores are unbounded
	After  Measures        `json:"after"`
}

// Subset is a part of the rows.
type Subset struct {
	Rows   int `json:"rows"`
	Scenes int `json:"scenes"` // rows with the same source picture are in one scene, and never in two parts
}

// Measures compare scores with labels.
type Measures struct {
	L1       float64           `json:"l1"`
	Error    float64           `json:"expected_calibration_error"`
	Score    float64           `json:"mean_score"`
	Label    float64           `json:"mean_label"`
	Spearman *float64          `json:"spearman"` // nil: undefined
	Bins     []calibration.Bin `json:"bins"`
}

func measure(scores, labels []float64) Measures {
	m := Measures{L1: calibration.Distance(scores, labels), Bins: calibration.Reliability(scores, labels, bins)}
	m.Error = calibration.Error(m.Bins)
	for i := range scores {
		m.Score += scores[i] / float64(len(scores))
		m.Label += labels[i] / float64(len(scores))
	}
	if r := stats.Spearman(scores, labels); r == r { // not NaN
		m.Spearman = &r
	}
	return m
}

// points returns the scores and labels of some rows of a table.
func (p *job) points(t *table, rows []int) (scores, labels []float64) {
	for _, i := range rows {
		scores = append(scores, p.scores[t].Lines[t.rows[i].index].Value.Score01)
		labels = append(labels, t.rows[i].label)
	}
	return scores, labels
}

func part(scenes, rows []int) Subset {
	seen := map[int]bool{}
	for _, i := range rows {
		seen[scenes[i]] = true
	}
	return Subset{Rows: len(rows), Scenes: len(seen)}
}

// fit fits the map on one part of the rows, its interval on another, and measures both on a third.
func (p *job) fit(dimension string, bounded bool) (*calibration.Map, error) {
	scenes := p.in.scenes()
	shares := []float64{fitShare, intervalShare}
	if p.test != nil {
		shares = []float64{fitWithTest}
	}
	parts := split(scenes, p.o.Seed, shares...)
	r := &p.report
	r.Fit, r.Interval = part(scenes, parts[0]), part(scenes, parts[1])
	testTable, test := p.test, []int(nil)
	if p.test == nil {
		testTable, test = p.in, parts[2]
		r.Tested = part(scenes, test)
	} else {
		test = stats.UpTo(len(p.test.rows))
		r.Tested = part(p.test.scenes(), test)
	}
	if len(parts[0]) == 0 || len(parts[1]) == 0 || len(test) == 0 {
		n, enough, share := len(p.in.rows), "five", "fifth"
		if p.test != nil {
			enough, share = "four", "quarter"
		}
		return nil, fmt.Errorf("%d rows of %d scenes are too few for a map (%d), its interval (%d) and a test (%d), "+
			"which must not share scenes: %s scenes (source pictures, or values of --by) are enough, if none has more than a "+
			"%s of the rows; the interval needs %d rows", n, part(scenes, stats.UpTo(len(scenes))).Scenes, len(parts[0]),
			len(parts[1]), len(test), enough, share, calibration.IntervalRows(p.o.Coverage))
	}
	scores, labels := p.points(p.in, parts[0])
	m, err := calibration.Fit(p.o.Method, scores, labels)
	if err != nil {
		return nil, err
	}
	m.Dimension = dimension
	apply := func(scores []float64) []float64 {
		out := make([]float64, len(scores))
		for i, x := range scores {
			out[i], _ = m.At(x)
		}
		return out
	}
	scores, labels = p.points(p.in, parts[1])
	half, err := calibration.HalfWidth(apply(scores), labels, p.o.Coverage)
	if err != nil {
		return nil, err
	}
	scores, labels = p.points(testTable, test)
	after := apply(scores)
	m.Interval = &calibration.Interval{Coverage: p.o.Coverage, HalfWidth: half, Rows: len(parts[1]),
		Measured: calibration.Coverage(after, labels, half), Tested: len(test)}
	m.Fitted = calibration.Fitted{Table: r.Table, Digest: p.in.digest(), Rows: len(parts[0]), Seed: p.o.Seed,
		Trained: r.Trained}
	r.Dimension, r.Map, r.After = p.o.Model.Dimension, *m, measure(after, labels)
	if text := tooFew(len(test)); text != "" {
		p.warn(text)
	}
	if bounded {
		before := measure(scores, labels)
		r.Before = &before
	}
	return m, nil
}

//go:embed page.html
var pageText string

var pageTemplate = page.Parse(pageText, template.FuncMap{
	"number": func(v float64) string { return fmt.Sprintf("%.4f", v) },
	"x":      func(v float64) string { return fmt.Sprintf("%.1f", 40+320*min(1.05, max(-0.05, v))) },
	"y":      func(v float64) string { return fmt.Sprintf("%.1f", 340-320*min(1.05, max(-0.05, v))) },
	"radius": func(b calibration.Bin, all []calibration.Bin) string {
		n := 0
		for _, o := range all {
			n += o.Count
		}
		return fmt.Sprintf("%.1f", 3+12*float64(b.Count)/float64(max(n, 1)))
	},
})

// write writes report.json and report.html.
func (r *Report) write(out string) error {
	if err := jsonfile.Write(filepath.Join(out, "report.json"), r); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(out, "report.html"), func(w io.Writer) error {
		return pageTemplate.Execute(w, r.view())
	})
}

// view returns the data of the HTML page.
func (r *Report) view() any {
	type diagram struct {
		Title string
		Measures
	}
	type point struct{ X, Y float64 }
	v := struct {
		*Report
		Diagrams []diagram
		Curve    []point
		Low      float64 // score01 at the left end of the curve
		High     float64
	}{Report: r}
	if r.Before != nil {
		v.Diagrams = append(v.Diagrams, diagram{"Before", *r.Before})
	}
	v.Diagrams = append(v.Diagrams, diagram{"Calibrated", r.After})
	v.Low, v.High = 0, 1
	if n := len(r.Map.X); n > 0 {
		v.Low, v.High = min(0, r.Map.X[0]), max(1, r.Map.X[n-1])
	}
	const steps = 200
	for i := range steps + 1 {
		at := float64(i) / steps
		y, _ := r.Map.At(v.Low + (v.High-v.Low)*at)
		v.Curve = append(v.Curve, point{at, y})
	}
	return v
}

package main

import (
	"fmt"
	"math"
	"path/filepath"

	"assay/data"
	"assay/lab/internal/miniature"
)

// output is one output of an exam.
type output struct {
	truth        miniature.Truth
	instruction  string
	source, edit string // files
	distance     float64
}

// exam holds the questions and outputs, in the order of the truth file.
type exam struct {
	outputs []output
	photos  []string
}

// readExam reads an exam's truth and table, and measures the distance of each output to its source.
func readExam(dir string) (*exam, error) {
	known, err := miniature.ReadTruth(filepath.Join(dir, miniature.TruthFile))
	if err != nil {
		return nil, err
	}
	t, err := data.OpenTable(filepath.Join(dir, miniature.EditsTable+".jsonl"))
	if err != nil {
		return nil, err
	}
	defer t.Close()
	rows := map[string]data.Row{}
	for row, err := range t.All() {
		if err != nil {
			return nil, err
		}
		rows[row.ID] = row
	}
	x := &exam{}
	seen := map[string]bool{}
	for _, k := range known {
		row, ok := rows[k.ID]
		if !ok {
			return nil, fmt.Errorf("%s: no row %s, although it has a truth", t.Path(), k.ID)
		}
		o := output{truth: k, instruction: row.Instruction, source: filepath.Join(dir, row.Source.Path),
			edit: filepath.Join(dir, row.Edit.Path)}
		if o.distance, err = distance(o.source, o.edit); err != nil {
			return nil, err
		}
		x.outputs = append(x.outputs, o)
		if !seen[k.Photo] {
			seen[k.Photo], x.photos = true, append(x.photos, k.Photo)
		}
	}
	return x, nil
}

// distance returns the mean squared difference of two pictures of the same size, with values from 0 to 1.
func distance(a, b string) (float64, error) {
	p, err := data.Open(a, data.Limits{})
	if err != nil {
		return 0, err
	}
	q, err := data.Open(b, data.Limits{})
	if err != nil {
		return 0, err
	}
	if p.Width != q.Width || p.Height != q.Height {
		return 0, fmt.Errorf("%s and %s: pictures of an exam must have the same size", a, b)
	}
	sum := 0.0
	for i := range p.Pix {
		d := (float64(p.Pix[i]) - float64(q.Pix[i])) / 255
		sum += d * d
	}
	return sum / float64(len(p.Pix)), nil
}

// scored joins the exam with one value for each output.
func (x *exam) scored(value func(output) float64) []miniature.Scored {
	var all []miniature.Scored
	for _, o := range x.outputs {
		t := o.truth
		all = append(all,
			miniature.Scored{Group: t.Group(), Family: t.Family, Kind: t.Kind, Parts: t.Parts, Truth: t.Degree,
				Score: value(o)})
	}
	return all
}

// column reads a number for every output from a table. Undefined ones, such as the direction from a picture to
// itself, count as 0; their number is the second result.
func (x *exam) column(file, name string) (values map[string]float64, undefined int, err error) {
	values = map[string]float64{}
	err = miniature.EachRow(file, []string{"id", name}, func(c *miniature.Cells) {
		v := c.Optional(name)
		if math.IsNaN(v) {
			v = 0
			undefined++
		}
		values[c.Text("id")] = v
	})
	for _, o := range x.outputs {
		if _, ok := values[o.truth.ID]; err == nil && !ok {
			err = fmt.Errorf("%s: no row %s", file, o.truth.ID)
		}
	}
	return values, undefined, err
}

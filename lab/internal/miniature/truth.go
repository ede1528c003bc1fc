package miniature

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"assay/data"
)

// Truth is a line of the truth file: how good an output, or a picture of a chain, really is. Outputs have the ids of
// the edits table. Pictures of chains have ids <chain>/<from>-<to>/<shown>: the picture shown as the answer to the
// instructions that lead from one picture to another; pictures count from 0.
type Truth struct {
	ID         string
	Degree     float64 // of success, 0 to 1
	Kind       Kind    // Chained for chains
	Family     Family  // of the instruction's main part; of chains: of the first edit
	Parts      int     // of the instruction
	Photo      string
	Difference string // what was done
}

// Chained is the Kind of a chain's pictures in a truth file.
const Chained Kind = "chain"

// Group is the same for all outputs of one instruction.
func (t Truth) Group() string { return t.ID[:max(0, strings.LastIndexByte(t.ID, '/'))] }

// record is a line of the file.
func (t Truth) record() data.Record {
	var r data.Record
	r.Set("id", t.ID)
	r.Set("degree", t.Degree)
	r.Set("kind", string(t.Kind))
	r.Set("family", string(t.Family))
	r.Set("parts", t.Parts)
	r.Set("photo", t.Photo)
	r.Set("difference", t.Difference)
	return r
}

// ReadTruth reads a truth file. Degrees must be in 0 to 1, and ids unique.
func ReadTruth(path string) ([]Truth, error) {
	var all []Truth
	seen := map[string]bool{}
	err := EachRow(path, nil, func(c *Cells) {
		all = append(all, Truth{c.Text("id"), c.Number("degree"), Kind(c.Text("kind")), Family(c.Text("family")),
			int(c.Number("parts")), c.Text("photo"), c.Text("difference")})
		t := &all[len(all)-1]
		switch {
		case seen[t.ID]:
			c.fail("id", fmt.Errorf("%s occurs twice", t.ID))
		case !(t.Degree >= 0 && t.Degree <= 1):
			c.fail("degree", fmt.Errorf("want 0 to 1, have %v", t.Degree))
		}
		seen[t.ID] = true
	})
	return all, err
}

// Join pairs the truth of outputs (not of chains) with a table of scores. Its columns are id and, for the score, the
// given column, such as score01 of `score batch`. Rows with other ids are ignored; an output without a score, or with
// two different scores, is an error.
func Join(truth []Truth, path, column string) ([]Scored, error) {
	scores := map[string]float64{}
	err := EachRow(path, nil, func(c *Cells) {
		id, score := c.Text("id"), c.Number(column)
		if old, twice := scores[id]; twice && old != score {
			c.fail(column, fmt.Errorf("%s occurs twice, with the scores %v and %v", id, old, score))
		}
		scores[id] = score
	})
	if err != nil {
		return nil, err
	}
	var out []Scored
	for _, t := range truth {
		if t.Kind == Chained {
			continue
		}
		score, ok := scores[t.ID]
		if !ok {
			return nil, fmt.Errorf("%s: no score for %s: score all rows of the edits table that came with the truth", path, t.ID)
		}
		out = append(out, Scored{t.Group(), t.Family, t.Kind, t.Parts, t.Degree, score})
	}
	return out, nil
}

// Cells reads values from one row and keeps the first error.
type Cells struct {
	rec data.Record
	err error
}

func (c *Cells) fail(column string, err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("column %q: %w", column, err)
	}
}

// Text returns a text.
func (c *Cells) Text(column string) string {
	v, _ := c.rec.Get(column)
	s, err := data.Text(v)
	c.fail(column, err)
	return s
}

// Number returns a finite number.
func (c *Cells) Number(column string) float64 {
	x := c.Optional(column)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		c.fail(column, errors.New("want a finite number"))
	}
	return x
}

// Optional returns a number, NaN if there is none.
func (c *Cells) Optional(column string) float64 {
	v, _ := c.rec.Get(column)
	x, err := data.Number(v)
	c.fail(column, err)
	if x == nil {
		return math.NaN()
	}
	return *x
}

// EachRow reads a table of any format, which must have the columns.
func EachRow(path string, columns []string, row func(*Cells)) error {
	t, err := data.OpenTable(path, data.WithRequired(columns...))
	if err != nil {
		return err
	}
	defer t.Close()
	i := 0
	for rec, err := range t.Records() {
		i++
		if err != nil {
			return err
		}
		c := &Cells{rec: rec}
		if row(c); c.err != nil {
			return fmt.Errorf("%s: row %d: %w", path, i, c.err)
		}
	}
	return nil
}

package scoring

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/table"
)

// ErrNoScores means that a table has no scores yet: [Table] adds them.
var ErrNoScores = errors.New("has no column score01")

// Scores are the scores of a table's rows.
type Scores struct {
	Range edit.Range
	Lines map[int]table.Line[edit.Score] // by row
}

// Err returns the error of a row; nil: it has a score.
func (s Scores) Err(row int) error {
	line, ok := s.Lines[row]
	switch {
	case line.Error != "":
		return errors.New(line.Error)
	case ok && math.IsNaN(line.Value.Value):
		return errUnordered
	}
	return nil
}

// errUnordered means that a judge has nothing to order edits by.
var errUnordered = errors.New("no score: the scorer outputs only unordered classes, or only dimensions")

// FailedRow is a row that could not be used.
type FailedRow struct {
	Row   int    `json:"row"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error"`
}

// Read reads the scores that [Table] wrote into a table. A row without a number has the error in its column error.
// score01 and score together determine the judge's range: it is an error if the rows do not share one range. With
// score01 only, the range is 0 to 10.
func Read(t *data.Table) (s Scores, err error) {
	s.Lines = map[int]table.Line[edit.Score]{}
	var points []point
	for i := range t.Len() {
		p := point{table: t.Path(), row: i}
		rec, err := t.Record(i)
		if err == nil {
			p.score01, p.score, err = readScore(rec)
		}
		if errors.Is(err, ErrNoScores) {
			return s, fmt.Errorf("%s %w", t.Path(), err)
		}
		if err != nil {
			s.Lines[i] = table.Line[edit.Score]{Row: i, Error: err.Error()}
			continue
		}
		points = append(points, p)
	}
	if s.Range, err = rangeOf(points); err != nil {
		return s, err
	}
	for _, p := range points {
		score := edit.Score{Score01: *cmp.Or(p.score01, p.score), Unbounded: p.score01 == nil}
		score.Value = s.Range.Of(score.Score01)
		s.Lines[p.row] = table.Line[edit.Score]{Row: p.row, Value: score}
	}
	return s, nil
}

// Column reads the numbers of a column as scores without a range. A row without a finite number has an error; it is an
// error if no row has the column.
func Column(t *data.Table, name string) (Scores, error) {
	s, known := Scores{Range: edit.NoRange(), Lines: map[int]table.Line[edit.Score]{}}, false
	for i := range t.Len() {
		line := table.Line[edit.Score]{Row: i}
		rec, err := t.Record(i)
		var v *float64
		if err == nil {
			of, ok := rec.Get(name)
			known = known || ok
			v, err = data.Finite(of)
		}
		switch {
		case err != nil:
			line.Error = err.Error()
		case v == nil:
			line.Error = name + " is empty"
		default:
			line.Value = edit.Score{Value: *v, Score01: *v, Unbounded: true}
		}
		s.Lines[i] = line
	}
	if !known {
		return s, exit.Usagef("%s has no column %s", t.Path(), name)
	}
	return s, nil
}

// point is the score of a row of a table; one of the two numbers may be absent.
type point struct {
	table          string
	row            int
	score01, score *float64
}

func readScore(rec data.Record) (score01, score *float64, err error) {
	v, ok := rec.Get("score01")
	if !ok {
		return nil, nil, ErrNoScores
	}
	if score01, err = data.Number(v); err != nil {
		return nil, nil, err
	}
	if score01 != nil && math.IsInf(*score01, 0) {
		return nil, nil, fmt.Errorf("score01 is %v: want a finite number", *score01)
	}
	if why, ok := rec.Get("error"); ok && score01 == nil {
		if text, err := data.Text(why); err == nil && text != "" {
			return nil, nil, errors.New(text)
		}
	}
	if v, ok := rec.Get("score"); ok {
		if n, err := data.Number(v); err == nil && n != nil && !math.IsInf(*n, 0) {
			score = n
		}
	}
	if score01 == nil && score == nil {
		return nil, nil, errors.New("no score")
	}
	return score01, score, nil
}

// rangeOf finds the range that all rows share: score = lo + (hi - lo) score01.
func rangeOf(points []point) (r edit.Range, err error) {
	r = edit.Range{0, 10}
	if len(points) == 0 {
		return r, nil
	}
	var both []point
	bounded := points[0].score01 != nil
	for _, p := range points {
		if (p.score01 != nil) != bounded {
			return r, fmt.Errorf("row %d of %s and row %d of %s: one score is bounded (score01), the other is not: they "+
				"are from different scorers", points[0].row+1, points[0].table, p.row+1, p.table)
		}
		if p.score01 != nil && p.score != nil {
			both = append(both, p)
		}
	}
	if !bounded {
		return edit.NoRange(), nil
	}
	if len(both) == 0 {
		return r, nil
	}
	by01 := func(a, b point) int { return cmp.Compare(*a.score01, *b.score01) }
	low, high := slices.MinFunc(both, by01), slices.MaxFunc(both, by01)
	var wrong *point
	for _, r := range append([]edit.Range{r}, through(low, high)...) {
		if wrong = misfit(r, both); wrong == nil {
			return r, nil
		}
	}
	return r, fmt.Errorf("row %d of %s: score %g and score01 %g do not fit the range of rows %d of %s and %d of %s. "+
		"They are from different scorers, or score is something else", wrong.row+1, wrong.table, *wrong.score,
		*wrong.score01, low.row+1, low.table, high.row+1, high.table)
}

// through returns the ranges through two points: with rounded ends, and exactly as the numbers imply.
func through(low, high point) []edit.Range {
	if width := *high.score01 - *low.score01; width != 0 {
		slope := (*high.score - *low.score) / width
		lo := *low.score - slope**low.score01
		return []edit.Range{{rounded(lo), rounded(lo + slope)}, {lo, lo + slope}}
	}
	if *low.score != 0 {
		return []edit.Range{{*low.score, *low.score}} // all equal
	}
	return []edit.Range{{-10 * *low.score01, 10 - 10**low.score01}}
}

// misfit returns a score that is not on the range, to ten digits; nil: there is none.
func misfit(r edit.Range, points []point) *point {
	for i, p := range points {
		size := max(math.Abs(r[0]), math.Abs(r[1]), math.Abs(*p.score))
		if !(math.Abs(r.Of(*p.score01)-*p.score) <= 1e-10*size) {
			return &points[i]
		}
	}
	return nil
}

// OneRange refuses scores of several tables, by their names, that are not on one range.
func OneRange(names []string, tables ...Scores) error {
	var points []point
	for i, scores := range tables {
		for _, k := range slices.Sorted(maps.Keys(scores.Lines)) {
			line := scores.Lines[k]
			if line.Error != "" {
				continue
			}
			p := point{table: names[i], row: k, score: &line.Value.Value}
			if !line.Value.Unbounded {
				p.score01 = &line.Value.Score01
			}
			points = append(points, p)
		}
	}
	_, err := rangeOf(points)
	return err
}

// rounded removes rounding errors from a number that has few digits.
func rounded(v float64) float64 {
	if math.Abs(v) < 1e-12 {
		return 0
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64)
	if err != nil {
		return v
	}
	return short
}

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
)

// ErrNoScores says that a table has no scores yet: [Rows] or [Table] makes them.
var ErrNoScores = errors.New("has no column score01")

// Read reads the scores that [Table] wrote into a table. A row without a number has the error of its column error.
// Where there are score01 and score, they say the scorer's range: it is an error if all rows do not have one. With
// score01 alone the range is 0 to 10.
func Read(t *data.Table) (Scores, error) {
	scores, points := Scores{}, []point{}
	for i := range t.Len() {
		row := Row{Row: i}
		rec, err := t.Record(i)
		p := point{table: t.Path(), row: i}
		if err == nil {
			p.score01, p.score, err = readScore(rec)
		}
		switch {
		case errors.Is(err, ErrNoScores):
			return nil, fmt.Errorf("%s %w", t.Path(), err)
		case err != nil:
			row.Error = err.Error()
		case p.score01 != nil:
			row.Score01, row.Range = *p.score01, edit.Range{0, 10}
		default:
			row.Score01, row.Unbounded, row.Range = *p.score, true, edit.NoRange()
		}
		if scores[i] = row; err == nil {
			points = append(points, p)
		}
	}
	r, err := rangeOf(points)
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		row := scores[p.row]
		row.Range = r
		scores[p.row] = row
	}
	return scores, nil
}

// point is what a row of a table says about its score; one of the two may be absent.
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
		return nil, nil, fmt.Errorf("score01 is %v: a finite number is wanted", *score01)
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
			return r, fmt.Errorf("row %d of %s and row %d of %s: one score has bounds (score01), the other has none: they "+
				"are of different scorers", points[0].row+1, points[0].table, p.row+1, p.table)
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
		"They are of different scorers, or score is something else", wrong.row+1, wrong.table, *wrong.score,
		*wrong.score01, low.row+1, low.table, high.row+1, high.table)
}

// through are the ranges of two points: with ends that somebody wrote, and as the rounded numbers have it.
func through(low, high point) []edit.Range {
	if width := *high.score01 - *low.score01; width != 0 {
		slope := (*high.score - *low.score) / width
		lo := *low.score - slope**low.score01
		return []edit.Range{{rounded(lo), rounded(lo + slope)}, {lo, lo + slope}}
	}
	if *low.score != 0 {
		return []edit.Range{{*low.score, *low.score}} // all the same
	}
	return []edit.Range{{-10 * *low.score01, 10 - 10**low.score01}}
}

// misfit finds a score that is not on the range, to ten digits; nil: there is none.
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
		for _, k := range slices.Sorted(maps.Keys(scores)) {
			row := scores[k]
			if row.Error != "" {
				continue
			}
			v := row.Score()
			p := point{table: names[i], row: k, score: &v}
			if !row.Unbounded {
				p.score01 = &row.Score01
			}
			points = append(points, p)
		}
	}
	_, err := rangeOf(points)
	return err
}

// rounded takes what rounding left off a number that somebody wrote.
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

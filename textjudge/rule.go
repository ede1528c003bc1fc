package textjudge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"assay/edit"
	"assay/internal/stats"
)

// Formula computes a number from named numbers.
type Formula struct {
	By string   `yaml:"by"` // mean, mean_2_digits, min, product, sqrt_product
	Of []string `yaml:"of"`
}

// formulas are the ways of combining numbers.
var formulas = map[string]func([]float64) float64{
	"mean": stats.Mean,
	"mean_2_digits": func(v []float64) float64 { // as Python's round(mean, 2)
		x, err := strconv.ParseFloat(strconv.FormatFloat(stats.Mean(v), 'f', 2, 64), 64)
		if err != nil {
			return math.NaN()
		}
		return x
	},
	"min": slices.Min[[]float64],
	"product": func(v []float64) float64 {
		p := 1.0
		for _, x := range v {
			p *= x
		}
		return p
	},
}

func init() {
	product := formulas["product"]
	formulas["sqrt_product"] = func(v []float64) float64 { return math.Sqrt(product(v)) }
}

// compute applies a formula to whichever of its numbers exist. Config.check ensures that all do, except in judges
// that ask by kind.
func (f *Formula) compute(numbers map[string]float64) (float64, error) {
	var v []float64
	for _, name := range f.Of {
		if x, ok := numbers[name]; ok {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return 0, fmt.Errorf("none of %v exists", f.Of)
	}
	x := formulas[f.By](v)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%s of %v is %v", f.By, v, x)
	}
	return x, nil
}

// Derived is a number of a pass that is computed from others.
type Derived struct {
	Name string   `yaml:"name"`
	By   string   `yaml:"by"` // as in Formula
	Of   []string `yaml:"of"`
}

// formula returns the formula that computes it.
func (d *Derived) formula() *Formula { return &Formula{d.By, d.Of} }

// The two ways of averaging passes.
const (
	AverageLast  = "last"  // the mean of the passes' scores
	AverageFirst = "first" // the score of the passes' means
)

// Combine computes the dimensions (means over the passes) and the score (on score_range) from the numbers in each
// pass's answers (on the judge's scale). A rule is nothing but this arithmetic: the same numbers always produce the
// same score. Without a rule the score is NaN.
func (c *Config) Combine(passes []map[string]float64) (dimensions map[string]float64, score float64, err error) {
	all := map[string][]float64{}
	var scores []float64
	for _, said := range passes {
		numbers := maps.Clone(said)
		for _, d := range c.Dimensions {
			if numbers[d.Name], err = d.formula().compute(numbers); err != nil {
				return nil, 0, fmt.Errorf("%s: %w", d.Name, err)
			}
		}
		for name, x := range numbers {
			all[name] = append(all[name], x)
		}
		if !c.Scores() {
			continue
		}
		s, err := c.Score.compute(numbers)
		if err != nil {
			return nil, 0, fmt.Errorf("score: %w", err)
		}
		scores = append(scores, s)
	}
	dimensions = map[string]float64{}
	for name, v := range all {
		dimensions[name] = stats.Mean(v)
	}
	if !c.Scores() {
		return dimensions, math.NaN(), nil
	}
	if c.Average == AverageFirst {
		score, err = c.ScoreOfMeans.compute(dimensions)
		return dimensions, score, err
	}
	return dimensions, stats.Mean(scores), nil
}

// scaled maps the numbers of a question's answer from their range to the scale linearly: lo and hi of the range become
// lo and hi of the scale.
func (c *Config) scaled(q *Question, raw map[string]float64) map[string]float64 {
	if len(c.Scale) != 2 {
		return raw
	}
	numbers := maps.Clone(raw)
	for _, v := range q.Answer.values() {
		if len(v.Range) != 2 {
			continue
		}
		for _, name := range v.names() {
			share := (raw[name] - v.Range[0]) / (v.Range[1] - v.Range[0])
			numbers[name] = c.Scale[0] + (c.Scale[1]-c.Scale[0])*share
		}
	}
	return numbers
}

// onto returns the range of the scores.
func (c *Config) onto() edit.Range {
	if !c.Scores() {
		return edit.NoRange()
	}
	return edit.Range(c.ScoreRange)
}

// Components returns the benchmark components that the judge's answers measure, with their ranges: the configured
// component, or all numbers by name. A class, and a number of unknown range, get edit.NoRange.
func (c *Config) Components() map[string]edit.Range {
	ranges := map[string]edit.Range{}
	put := func(name string, r edit.Range) {
		if old, twice := ranges[name]; twice && old != r { // from questions for other kinds of edits
			r = edit.NoRange()
		}
		ranges[name] = r
	}
	for _, q := range c.Questions {
		for _, v := range q.Answer.values() {
			r := edit.NoRange()
			if len(v.Range) == 2 {
				r = edit.Range(v.Range)
				if len(c.Scale) == 2 {
					r = edit.Range(c.Scale)
				}
			}
			for _, name := range v.names() {
				put(name, r)
			}
		}
	}
	for _, d := range c.Dimensions {
		r := ranges[d.Of[0]]
		for _, name := range d.Of {
			if ranges[name] != r || d.By == "product" || d.By == "sqrt_product" {
				r = edit.NoRange()
			}
		}
		put(d.Name, r)
	}
	if c.Component == "" {
		return ranges
	}
	of := c.onto()
	if all := slices.Compact(slices.Collect(maps.Values(ranges))); !c.Scores() && len(all) == 1 {
		of = all[0]
	}
	return map[string]edit.Range{c.Component: of}
}

// Package calibration maps scores to expected labels, by monotone maps fitted on labelled edits that the scorer has
// not seen. A map keeps the order of scores and has a positive slope everywhere, so that gradients pass through it.
// The package also measures how far scores are from labels (reliability bins, expected calibration error), and how
// wide conformal intervals around scores must be.
package calibration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"

	"assay/internal/jsonfile"
)

// File is the name of a calibration in a scorer directory.
const File = "calibration.json"

// Calibration is the content of a calibration file: maps for the score of a scorer, or for its dimensions.
type Calibration struct {
	Format int    `json:"format"` // 1
	Scorer string `json:"scorer"` // digest of the head and the configuration that it was fitted for
	Maps   []Map  `json:"maps"`
}

// Methods of fitting.
const (
	Isotonic = "isotonic" // the mean label of neighbouring scores
	Platt    = "platt"    // a logistic curve, for labels 0 and 1
	Inverse  = "inverse"  // the mean score of each label, inverted
)

// Methods lists the methods of fitting.
func Methods() []string { return []string{Isotonic, Platt, Inverse} }

// Map maps score01 to the expected label, on 0..1.
type Map struct {
	Dimension string    `json:"dimension"` // "": the score
	Method    string    `json:"method"`
	X         []float64 `json:"x,omitempty"` // knots: score01, ascending
	Y         []float64 `json:"y,omitempty"` // labels at the knots, ascending; linear in between
	A         float64   `json:"a,omitempty"` // platt: 1/(1 + e^(a x + b))
	B         float64   `json:"b,omitempty"`
	Interval  *Interval `json:"interval,omitempty"`
	Fitted    Fitted    `json:"fitted"`
}

// Interval is a conformal interval around calibrated scores.
type Interval struct {
	Coverage  float64 `json:"coverage"`   // minimum share of the labels within HalfWidth of the score
	HalfWidth float64 `json:"half_width"` // on 0..1
	Rows      int     `json:"rows"`       // that it was computed on: other rows than the map's
	Measured  float64 `json:"measured"`   // coverage on further rows
	Tested    int     `json:"tested"`     // number of these rows
}

// Fitted describes the data of a map.
type Fitted struct {
	Table   string `json:"table"`  // name of the file
	Digest  string `json:"digest"` // of its rows in use: pictures, instructions, labels
	Rows    int    `json:"rows"`
	Seed    uint64 `json:"seed"`    // of the split
	Trained string `json:"trained"` // whether the scorer was trained on it: no, unknown, in part (used anyway)
}

// beyond is the slope of a map outside its knots, relative to its mean slope. Little is known there, but scores keep
// their order and gradients their direction.
const beyond = 0.01

// At returns the calibrated score of x, and the map's slope there: at a knot, the slope of the line to its right.
func (m *Map) At(x float64) (y, slope float64) {
	if m.Method == Platt {
		p := logistic(-(m.A*x + m.B))
		return p, -m.A * p * (1 - p)
	}
	n, outside := len(m.X), m.Outside()
	i := sort.Search(n, func(i int) bool { return m.X[i] > x }) // knots at or below x
	switch i {
	case 0:
		return m.Y[0] + outside*(x-m.X[0]), outside
	case n:
		return m.Y[n-1] + outside*(x-m.X[n-1]), outside
	}
	slope = (m.Y[i] - m.Y[i-1]) / (m.X[i] - m.X[i-1])
	return m.Y[i-1] + slope*(x-m.X[i-1]), slope
}

// Outside returns the slope of a map with knots outside of its knots.
func (m *Map) Outside() float64 {
	n := len(m.X)
	return beyond * (m.Y[n-1] - m.Y[0]) / (m.X[n-1] - m.X[0])
}

// Sigma returns the standard deviation of the calibrated score of x, where x has the standard deviation s: half the
// width of the image of [x - s, x + s].
func (m *Map) Sigma(x, s float64) float64 {
	if s == 0 {
		return 0
	}
	high, _ := m.At(x + s)
	low, _ := m.At(x - s)
	return (high - low) / 2
}

// logistic returns 1/(1 + e^-z), without overflow.
func logistic(z float64) float64 {
	if z >= 0 {
		return 1 / (1 + math.Exp(-z))
	}
	e := math.Exp(z)
	return e / (1 + e)
}

// Find returns the map of a dimension, "" for the score; nil if there is none.
func (c *Calibration) Find(dimension string) *Map {
	if c == nil {
		return nil
	}
	for i := range c.Maps {
		if c.Maps[i].Dimension == dimension {
			return &c.Maps[i]
		}
	}
	return nil
}

// With returns a copy of the calibration with a map, which replaces the map of the same dimension.
func (c *Calibration) With(m Map) *Calibration {
	out := *c
	out.Maps = slices.DeleteFunc(slices.Clone(c.Maps), func(o Map) bool { return o.Dimension == m.Dimension })
	out.Maps = append(out.Maps, m)
	slices.SortFunc(out.Maps, func(a, b Map) int { return bytes.Compare([]byte(a.Dimension), []byte(b.Dimension)) })
	return &out
}

// Read reads a calibration file strictly.
func Read(file string) (*Calibration, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &Calibration{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err = d.Decode(c); err == nil && d.More() {
		err = errors.New("unexpected data after the calibration")
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w (create a new one with score calibrate)", file, err)
	}
	return c, nil
}

// Write writes the file atomically.
func (c *Calibration) Write(file string) error {
	if err := c.check(); err != nil {
		return err
	}
	return jsonfile.Write(file, c)
}

func (c *Calibration) check() error {
	if c.Format != 1 {
		return fmt.Errorf("format %d is not supported; this program reads format 1", c.Format)
	}
	seen := map[string]bool{}
	for i := range c.Maps {
		m := &c.Maps[i]
		if seen[m.Dimension] {
			return fmt.Errorf("maps[%d]: duplicate dimension %q", i, m.Dimension)
		}
		seen[m.Dimension] = true
		if err := m.check(); err != nil {
			return fmt.Errorf("maps[%d]: %w", i, err)
		}
	}
	return nil
}

func (m *Map) check() error {
	switch {
	case !slices.Contains(Methods(), m.Method):
		return fmt.Errorf("method %q: want one of %v", m.Method, Methods())
	case m.Method == Platt && (len(m.X)+len(m.Y) > 0 || !(m.A < 0) || math.IsInf(m.A, 0) || !finite(m.B)):
		return fmt.Errorf("a logistic curve needs a below 0, b, no knots: got a %g, b %g, %d knots", m.A, m.B, len(m.X))
	case m.Method == Platt:
		return m.Interval.check()
	case len(m.X) < 2 || len(m.X) != len(m.Y) || m.A != 0 || m.B != 0:
		return fmt.Errorf("%s needs at least two knots, as many x as y: got %d and %d", m.Method, len(m.X), len(m.Y))
	}
	for i := range m.X {
		if !finite(m.X[i]) || !finite(m.Y[i]) || i > 0 && (m.X[i] <= m.X[i-1] || m.Y[i] <= m.Y[i-1]) {
			return fmt.Errorf("knot %d, (%g, %g), does not ascend", i, m.X[i], m.Y[i])
		}
	}
	return m.Interval.check()
}

// Around returns the interval around a calibrated score, within 0..1, as labels are.
func (i *Interval) Around(score float64) (low, high float64) {
	return min(1, max(0, score-i.HalfWidth)), min(1, max(0, score+i.HalfWidth))
}

func (i *Interval) check() error {
	if i != nil && !(i.Coverage > 0 && i.Coverage < 1 && i.HalfWidth >= 0 && finite(i.HalfWidth)) {
		return fmt.Errorf("interval: got coverage %g and half width %g, want a coverage between 0 and 1 and a finite "+
			"half width that is not negative", i.Coverage, i.HalfWidth)
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

package calibration

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAt compares a map of three knots with its definition: straight lines between knots, the line to the right at a
// knot, and 1% of the mean slope outside.
func TestAt(t *testing.T) {
	m := &Map{Method: Isotonic, X: []float64{0.25, 0.5, 1}, Y: []float64{0.25, 0.5, 0.875}}
	const outside = 0.01 * 0.625 / 0.75
	near(t, "slope outside", m.Outside(), outside, 1e-17)
	for _, c := range []struct{ x, y, slope float64 }{
		{0.25, 0.25, 1}, {0.375, 0.375, 1}, {0.5, 0.5, 0.75}, {0.75, 0.6875, 0.75}, {1, 0.875, outside},
		{-0.75, 0.25 - outside, outside}, {3, 0.875 + 2*outside, outside},
	} {
		y, slope := m.At(c.x)
		near(t, "value", y, c.y, 1e-15)
		near(t, "slope", slope, c.slope, 1e-15)
	}
}

// TestPlattAt: 1/(1 + e^(a x + b)) and its derivative, without overflow far from the middle.
func TestPlattAt(t *testing.T) {
	m := &Map{Method: Platt, A: -4, B: 1}
	for _, c := range []struct{ x, y, slope float64 }{
		{0.25, 0.5, 1},
		{0, 1 / (1 + math.E), 4 * math.E / (1 + math.E) / (1 + math.E)},
		{0.5, math.E / (1 + math.E), 4 * math.E / (1 + math.E) / (1 + math.E)},
		{1000, 1, 0}, {-1000, 0, 0},
	} {
		y, slope := m.At(c.x)
		near(t, "value", y, c.y, 1e-15)
		near(t, "slope", slope, c.slope, 1e-15)
	}
}

func TestSigma(t *testing.T) {
	m := &Map{Method: Isotonic, X: []float64{0, 0.5, 1}, Y: []float64{0, 0.25, 1}}
	for _, c := range []struct{ x, s, want float64 }{
		{0.25, 0, 0}, {0.25, 0.125, 0.0625}, {0.5, 0.25, (0.625 - 0.125) / 2}, {0.75, 0.125, 0.1875},
	} {
		near(t, "sigma", m.Sigma(c.x, c.s), c.want, 1e-15)
	}
}

// TestWithSorts: maps are in the order of their dimensions, and a map replaces the one of its dimension.
func TestWithSorts(t *testing.T) {
	c := &Calibration{Format: 1}
	for _, d := range []string{"quality", "", "following"} {
		c = c.With(Map{Dimension: d, Method: Platt, A: -1})
	}
	c = c.With(Map{Dimension: "following", Method: Platt, A: -2})
	var got []string
	for _, m := range c.Maps {
		got = append(got, m.Dimension)
	}
	if strings.Join(got, ",") != ",following,quality" || c.Find("following").A != -2 {
		t.Errorf("got dimensions %q, %+v, want \"\", following (a -2), quality", got, c.Find("following"))
	}
}

// TestFiles: valid and invalid values of each field of a map and of an interval.
func TestFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"method": "platt", "a": -1}`:                                                                  "",
		`{"method": "platt", "a": -0.5, "b": 1}`:                                                        "",
		`{"method": "platt", "a": 0}`:                                                                   "a below 0",
		`{"method": "platt"}`:                                                                           "a below 0",
		`{"method": "platt", "a": 0.5}`:                                                                 "a below 0",
		`{"method": "platt", "a": -1, "x": [1]}`:                                                        "1 knots",
		`{"method": "platt", "a": -1, "x": [0, 1], "y": [0, 1]}`:                                        "2 knots",
		`{"method": "platt", "a": -1, "y": [1]}`:                                                        "a below 0",
		`{"method": "isotonic", "x": [0, 1], "y": [0, 1]}`:                                              "",
		`{"method": "isotonic", "x": [0, 1], "y": [0, 0.5, 1]}`:                                         "as many x as y",
		`{"method": "isotonic", "x": [0, 0.5, 1], "y": [0, 1]}`:                                         "as many x as y",
		`{"method": "isotonic", "x": [0, 1], "y": [0, 1], "a": 1}`:                                      "knots",
		`{"method": "isotonic", "x": [0, 1], "y": [0, 1], "b": 1}`:                                      "knots",
		`{"method": "inverse", "x": [0, 0], "y": [0, 1]}`:                                               "knot 1",
		`{"method": "inverse", "x": [1, 0], "y": [0, 1]}`:                                               "knot 1",
		`{"method": "inverse", "x": [0, 1], "y": [1, 0]}`:                                               "knot 1",
		`{"method": "platt", "a": -1, "interval": {"coverage": 0.9, "half_width": 0.1}}`:                "",
		`{"method": "platt", "a": -1, "interval": {"coverage": 0.9, "half_width": 0}}`:                  "",
		`{"method": "platt", "a": -1, "interval": {"coverage": 0, "half_width": 0.1}}`:                  "coverage 0",
		`{"method": "platt", "a": -1, "interval": {"coverage": 1, "half_width": 0.1}}`:                  "coverage 1",
		`{"method": "platt", "a": -1, "interval": {"coverage": 1.5, "half_width": 0.1}}`:                "coverage 1.5",
		`{"method": "platt", "a": -1, "interval": {"coverage": 0.9, "half_width": -0.1}}`:               "half width -0.1",
		`{"method": "inverse", "x": [0, 1], "y": [0, 1], "interval": {"coverage": 2, "half_width": 0}}`: "coverage 2",
	} {
		t.Run(text, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), File)
			if err := os.WriteFile(file, []byte(`{"format": 1, "maps": [`+text+`]}`), 0o644); err != nil {
				t.Fatal(err)
			}
			switch _, err := Read(file); {
			case want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestNotFinite: values that JSON cannot represent are refused when a calibration is written.
func TestNotFinite(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	line := Map{Method: Isotonic, X: []float64{0, 1}, Y: []float64{0, 1}}
	for name, m := range map[string]Map{
		"a infinite":   {Method: Platt, A: -inf},
		"a NaN":        {Method: Platt, A: nan},
		"b infinite":   {Method: Platt, A: -1, B: -inf},
		"b NaN":        {Method: Platt, A: -1, B: nan},
		"x infinite":   {Method: Isotonic, X: []float64{0, inf}, Y: []float64{0, 1}},
		"first x":      {Method: Isotonic, X: []float64{-inf, 0}, Y: []float64{0, 1}},
		"y infinite":   {Method: Isotonic, X: []float64{0, 1}, Y: []float64{0, inf}},
		"y NaN":        {Method: Isotonic, X: []float64{0, 1}, Y: []float64{0, nan}},
		"width":        {Method: line.Method, X: line.X, Y: line.Y, Interval: &Interval{Coverage: 0.5, HalfWidth: inf}},
		"width NaN":    {Method: line.Method, X: line.X, Y: line.Y, Interval: &Interval{Coverage: 0.5, HalfWidth: nan}},
		"coverage NaN": {Method: line.Method, X: line.X, Y: line.Y, Interval: &Interval{Coverage: nan, HalfWidth: 0.5}},
		"x and y NaN":  {Method: Isotonic, X: []float64{nan, 1}, Y: []float64{nan, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), File)
			if err := (&Calibration{Format: 1, Maps: []Map{m}}).Write(file); err == nil {
				t.Errorf("%s: written, want an error", name)
			}
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s: a file exists, want none", name)
			}
		})
	}
}

// TestAround: an interval lies within 0..1, also where a map's line beyond its knots leaves it.
func TestAround(t *testing.T) {
	for _, c := range []struct{ score, low, high float64 }{
		{0.5, 0.25, 0.75}, {0.125, 0, 0.375}, {0.875, 0.625, 1}, {1.125, 0.875, 1}, {1.5, 1, 1}, {-0.5, 0, 0},
	} {
		if low, high := (&Interval{HalfWidth: 0.25}).Around(c.score); low != c.low || high != c.high {
			t.Errorf("around %g: got %g..%g, want %g..%g", c.score, low, high, c.low, c.high)
		}
	}
}

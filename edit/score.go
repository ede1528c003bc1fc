package edit

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"assay/data"
)

// Score is a judge's result for an edit. Value, Sigma, Interval and Dimensions are on the judge's [Range].
type Score struct {
	Value      float64     // not clipped
	Score01    float64     // Value on 0 to 1, not clipped; the same as Value if the range has no bounds
	Unbounded  bool        // the range has no bounds
	Sigma      float64     // standard deviation of Value, as estimated by the judge; 0: none
	Raw01      *float64    // Score01 before calibration; nil: not calibrated
	Interval   *Interval   // of a calibrated score; nil: none
	Dimensions []Dimension // of a judge with several, sorted by name

	// Answer is a judge's text answer, or the class that it chose. A judge that chooses a class, or that only scores
	// dimensions, has no Value: it is NaN.
	Answer string
}

// Interval contains the label of an edit with probability at least Coverage.
type Interval struct {
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Coverage float64 `json:"coverage"`
}

// Dimension is one of the numbers that a judge assigns to an edit.
type Dimension struct {
	Name          string    `json:"-"`
	Value         float64   `json:"score"`
	Sigma         float64   `json:"sigma,omitempty"`         // standard deviation of Value; 0: none
	Probabilities []float64 `json:"probabilities,omitempty"` // of classes or choices, in their order
	Class         string    `json:"class,omitempty"`         // the most likely of unordered classes: Value is NaN
}

// MarshalJSON implements json.Marshaler: unordered classes have no score.
func (d Dimension) MarshalJSON() ([]byte, error) {
	type plain Dimension
	if d.Class == "" {
		return json.Marshal(plain(d))
	}
	return json.Marshal(struct {
		Class         string    `json:"class"`
		Probabilities []float64 `json:"probabilities"`
	}{d.Class, d.Probabilities})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Dimension) UnmarshalJSON(raw []byte) error {
	type plain Dimension
	err := json.Unmarshal(raw, (*plain)(d))
	if d.Class != "" {
		d.Value = math.NaN()
	}
	return err
}

// scoreJSON is the JSON form of a score: dimensions by name, no score if the judge has none, and no score01 without
// bounds.
type scoreJSON struct {
	Score      *float64             `json:"score,omitempty"`
	Score01    *float64             `json:"score01,omitempty"`
	Sigma      float64              `json:"sigma,omitempty"`
	Dimensions map[string]Dimension `json:"dimensions,omitempty"`
	Raw01      *float64             `json:"raw01,omitempty"`
	Interval   *Interval            `json:"interval,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s Score) MarshalJSON() ([]byte, error) {
	out := scoreJSON{Sigma: s.Sigma, Raw01: s.Raw01, Interval: s.Interval, Dimensions: s.ByName()}
	if !math.IsNaN(s.Value) {
		out.Score = &s.Value
	}
	if !s.Unbounded && out.Score != nil {
		out.Score01 = &s.Score01
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Score) UnmarshalJSON(raw []byte) error {
	var in scoreJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	value := math.NaN()
	if in.Score != nil {
		value = *in.Score
	}
	*s = Score{Value: value, Score01: value, Unbounded: true, Sigma: in.Sigma, Raw01: in.Raw01, Interval: in.Interval}
	if in.Score01 != nil {
		s.Score01, s.Unbounded = *in.Score01, false
	}
	for _, name := range slices.Sorted(maps.Keys(in.Dimensions)) {
		d := in.Dimensions[name]
		d.Name = name
		s.Dimensions = append(s.Dimensions, d)
	}
	return nil
}

// ByName returns the dimensions by name; nil if there are none.
func (s *Score) ByName() map[string]Dimension {
	if len(s.Dimensions) == 0 {
		return nil
	}
	out := make(map[string]Dimension, len(s.Dimensions))
	for _, d := range s.Dimensions {
		out[d.Name] = d
	}
	return out
}

// Plain is the value of a score or, if it has none (NaN), its answer, a string, or its dimensions by name, a
// map[string]float64.
func (s *Score) Plain() any {
	switch {
	case !math.IsNaN(s.Value):
		return s.Value
	case s.Answer != "":
		return s.Answer
	}
	out := map[string]float64{}
	for _, d := range s.Dimensions {
		out[d.Name] = d.Value
	}
	return out
}

// Gradient is a score with its derivatives with respect to every pixel: d Score01 / d pixel of the pictures as passed
// in, per 8-bit level.
type Gradient struct {
	Score
	Sources []*data.Gradient // of each source; nil if the judge does not look at it
	Output  *data.Gradient
}

// Scale converts it from d Score01 / d pixel to d Value / d pixel of a score on range r.
func (g *Gradient) Scale(r Range) {
	width := float32(r.Width())
	for _, part := range append(slices.Clone(g.Sources), g.Output) {
		if part == nil {
			continue
		}
		for i := range part.Values {
			part.Values[i] *= width
		}
	}
}

// Source is the gradient of the first source; nil if there is none.
func (g *Gradient) Source() *data.Gradient {
	if len(g.Sources) == 0 {
		return nil
	}
	return g.Sources[0]
}

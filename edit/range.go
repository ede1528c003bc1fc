package edit

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
)

// Range is the pair of scores that score01 values of 0 and 1 are reported as.
type Range [2]float64

// NoRange is the range of a scorer with unbounded scores, which are reported as the head outputs them.
func NoRange() Range { return Range{math.Inf(-1), math.Inf(1)} }

// Bounded reports whether the range has bounds.
func (r Range) Bounded() bool { return !math.IsInf(r[0], 0) && !math.IsInf(r[1], 0) }

// Width is d score / d score01.
func (r Range) Width() float64 {
	if !r.Bounded() {
		return 1
	}
	return r[1] - r[0]
}

// Of maps score01 to the score. Without bounds they are the same.
func (r Range) Of(score01 float64) float64 {
	if !r.Bounded() {
		return score01
	}
	return r[0] + (r[1]-r[0])*score01
}

// To01 maps a score to score01.
func (r Range) To01(score float64) float64 {
	if !r.Bounded() {
		return score
	}
	return (score - r[0]) / (r[1] - r[0])
}

// Words describes the range: "on 0 to 10", or "without bounds".
func (r Range) Words() string {
	if !r.Bounded() {
		return "without bounds"
	}
	return fmt.Sprintf("on %g to %g", r[0], r[1])
}

// MarshalJSON writes [lo, hi], or null without bounds.
func (r Range) MarshalJSON() ([]byte, error) {
	if !r.Bounded() {
		return []byte("null"), nil
	}
	return json.Marshal([2]float64(r))
}

// MarshalYAML writes [lo, hi], or none.
func (r Range) MarshalYAML() ([]byte, error) {
	if !r.Bounded() {
		return []byte("none"), nil
	}
	return yaml.MarshalWithOptions([2]float64(r), yaml.Flow(true))
}

// UnmarshalYAML reads [lo, hi], or none.
func (r *Range) UnmarshalYAML(raw []byte) error {
	var word string
	if yaml.Unmarshal(raw, &word) == nil && word == "none" {
		*r = NoRange()
		return nil
	}
	var v [2]float64
	if err := yaml.UnmarshalWithOptions(raw, &v, yaml.Strict()); err != nil {
		return fmt.Errorf("score_range: want [lo, hi] or none: %w", err)
	}
	*r = v
	return nil
}

// Scale maps a score to the range. Its Value, Sigma, Interval and Dimensions must be on 0 to 1 before.
func (r Range) Scale(s *Score) {
	width := math.Abs(r.Width())
	s.Score01, s.Unbounded = s.Value, !r.Bounded()
	s.Value, s.Sigma = r.Of(s.Value), width*s.Sigma
	if i := s.Interval; i != nil {
		low, high := r.Of(i.Low), r.Of(i.High)
		s.Interval = &Interval{Low: min(low, high), High: max(low, high), Coverage: i.Coverage}
	}
	for k := range s.Dimensions {
		d := &s.Dimensions[k]
		d.Value, d.Sigma = r.Of(d.Value), width*d.Sigma
	}
}

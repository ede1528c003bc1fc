package model

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
)

// ScoreRange is what score01 of 0 and of 1 are reported as.
type ScoreRange [2]float64

// NoRange is the range of a scorer whose scores have no bounds: they are reported as the head gives them.
func NoRange() ScoreRange { return ScoreRange{math.Inf(-1), math.Inf(1)} }

// Bounded reports whether there is a range at all.
func (r ScoreRange) Bounded() bool { return !math.IsInf(r[0], 0) && !math.IsInf(r[1], 0) }

// Width is d score / d score01.
func (r ScoreRange) Width() float64 {
	if !r.Bounded() {
		return 1
	}
	return r[1] - r[0]
}

// Of maps score01 to the score. Without a range they are the same.
func (r ScoreRange) Of(score01 float64) float64 {
	if !r.Bounded() {
		return score01
	}
	return r[0] + (r[1]-r[0])*score01
}

// Words says the range: "on 0 to 10", or "without bounds".
func (r ScoreRange) Words() string {
	if !r.Bounded() {
		return "without bounds"
	}
	return fmt.Sprintf("on %g to %g", r[0], r[1])
}

// MarshalJSON writes [lo, hi], or null where there is none.
func (r ScoreRange) MarshalJSON() ([]byte, error) {
	if !r.Bounded() {
		return []byte("null"), nil
	}
	return json.Marshal([2]float64(r))
}

// MarshalYAML writes [lo, hi], or none.
func (r ScoreRange) MarshalYAML() ([]byte, error) {
	if !r.Bounded() {
		return []byte("none"), nil
	}
	return yaml.MarshalWithOptions([2]float64(r), yaml.Flow(true))
}

// UnmarshalYAML reads [lo, hi], or none.
func (r *ScoreRange) UnmarshalYAML(raw []byte) error {
	var word string
	if yaml.Unmarshal(raw, &word) == nil && word == "none" {
		*r = NoRange()
		return nil
	}
	var v [2]float64
	if err := yaml.UnmarshalWithOptions(raw, &v, yaml.Strict()); err != nil {
		return fmt.Errorf("score_range: [lo, hi] or none is wanted: %w", err)
	}
	*r = v
	return nil
}

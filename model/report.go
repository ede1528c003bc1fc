package model

// Report is a judgement on the scorer's range, as it is written to JSON.
type Report struct {
	Score      float64                    `json:"score"`
	Score01    *float64                   `json:"score01,omitempty"` // nil: the scores have no bounds
	Sigma      float64                    `json:"sigma,omitempty"`   // standard deviation of Score; 0: none
	Dimensions map[string]DimensionReport `json:"dimensions,omitempty"`
	Raw01      *float64                   `json:"raw01,omitempty"`    // the score before it was calibrated
	Interval   *IntervalReport            `json:"interval,omitempty"` // of a calibrated score
}

// IntervalReport is where an edit's label lies, on the scorer's range.
type IntervalReport struct {
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Coverage float64 `json:"coverage"` // probability, at least
}

// DimensionReport is what one head says, on the scorer's range.
type DimensionReport struct {
	Score         float64   `json:"score"`
	Sigma         float64   `json:"sigma,omitempty"`
	Probabilities []float64 `json:"probabilities,omitempty"` // of the classes or choices, in their order
}

// Report puts a judgement on the scorer's range.
func (c *ScorerConfig) Report(j Judgement) Report {
	width := c.ScoreRange.Width()
	if width < 0 {
		width = -width
	}
	r := Report{Score: c.Range(j.Score01), Sigma: width * j.Sigma01}
	if c.ScoreRange.Bounded() {
		r.Score01 = &j.Score01
	}
	r.Raw01 = j.Raw01
	if i := j.Interval; i != nil {
		low, high := c.Range(i.Low01), c.Range(i.High01)
		r.Interval = &IntervalReport{Low: min(low, high), High: max(low, high), Coverage: i.Coverage}
	}
	for _, d := range j.Dimensions {
		if r.Dimensions == nil {
			r.Dimensions = map[string]DimensionReport{}
		}
		r.Dimensions[d.Name] = DimensionReport{
			Score:         c.Range(d.Score01),
			Sigma:         width * d.Sigma01,
			Probabilities: d.Probabilities,
		}
	}
	return r
}

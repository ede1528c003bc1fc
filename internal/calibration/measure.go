package calibration

import (
	"fmt"
	"math"
	"slices"
)

// Bin is a bin of scores, with the means of scores and labels.
type Bin struct {
	Low   float64 `json:"low"` // scores from here up to the next bin's
	Count int     `json:"count"`
	Score float64 `json:"score"` // means over its edits; 0 if there are none
	Label float64 `json:"label"`
}

// Reliability bins edits by score into n bins of equal width over 0..1; scores outside go into the outermost bins.
func Reliability(scores, labels []float64, n int) []Bin {
	bins := make([]Bin, n)
	for i := range bins {
		bins[i].Low = float64(i) / float64(n)
	}
	for i, s := range scores {
		b := &bins[max(0, min(n-1, int(math.Floor(s*float64(n)))))]
		b.Count++
		b.Score += s
		b.Label += labels[i]
	}
	for i := range bins {
		if c := float64(bins[i].Count); c > 0 {
			bins[i].Score, bins[i].Label = bins[i].Score/c, bins[i].Label/c
		}
	}
	return bins
}

// Error returns the expected calibration error (Naeini et al., 2015; Guo et al., 2017). It is the mean over all edits
// of the distance between mean score and mean label of their bin.
func Error(bins []Bin) float64 {
	sum, n := 0.0, 0
	for _, b := range bins {
		sum += float64(b.Count) * math.Abs(b.Score-b.Label)
		n += b.Count
	}
	return sum / float64(n)
}

// Distance returns the mean absolute difference of scores and labels.
func Distance(scores, labels []float64) (sum float64) {
	for i := range scores {
		sum += math.Abs(scores[i]-labels[i]) / float64(len(scores))
	}
	return sum
}

// HalfWidth returns half the width of an interval around a score that contains the label of another edit with a
// probability of at least coverage. It is the ceil((n + 1) coverage)-th smallest distance of score and label (split
// conformal prediction: Vovk et al., 2005; Lei et al., 2018). The edits must not be among those that the map was
// fitted on.
func HalfWidth(scores, labels []float64, coverage float64) (float64, error) {
	distances := make([]float64, len(scores))
	for i := range scores {
		distances[i] = math.Abs(scores[i] - labels[i])
	}
	slices.Sort(distances)
	k := int(math.Ceil(float64(len(scores)+1)*coverage - 1e-9)) // 0.9 of 10 is 9, whatever the product rounds to
	if k > len(scores) {
		return 0, fmt.Errorf("an interval with coverage %g needs at least %d separate edits, got %d", coverage,
			IntervalRows(coverage), len(scores))
	}
	return distances[k-1], nil
}

// IntervalRows returns the minimum number of edits that HalfWidth needs for a coverage.
func IntervalRows(coverage float64) int { return int(math.Ceil(coverage/(1-coverage) - 1e-9)) }

// Coverage returns the share of edits whose label is within half of their score.
func Coverage(scores, labels []float64, half float64) float64 {
	n := 0
	for i := range scores {
		if math.Abs(scores[i]-labels[i]) <= half {
			n++
		}
	}
	return float64(n) / float64(len(scores))
}

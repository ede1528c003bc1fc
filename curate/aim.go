package curate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Emotions are the eight categories of Mikels et al. (2005), as EmoSet and AIM-Bench use them.
var Emotions = []string{"amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness"}

// Triplet is a candidate of affective tuning: an input, an instruction, and the repainted target, with the judges'
// values.
type Triplet struct {
	Row       int
	Target    string  // identifies the target: several inputs may lead to one
	Emotion   string  // of the target
	ClipI     float64 // cosine of the original and the repainted picture
	VIE       float64 // (SC + PQ) / 2
	ClipT     float64
	Aesthetic float64
	Quality   float64 // set by Select
}

// Selection are the filters of AIM-40k.
type Selection struct {
	ClipI      float64 // CLIP-I must exceed it; 0.85 in the paper
	Top        int     // best triplets kept of each target; 0: all
	PerEmotion int     // triplets of each emotion; 0: as many as the rarest has
}

// Select applies the filters of AIM-Bench, sections 3.4 and 5.1, one after the other:
//
//   - CLIP-I of original and repainted picture is above a threshold.
//   - Of each target the best k by quality = 0.5 VIE + 0.3 CLIP-T + 0.2 aesthetic, each min-max normalised over the
//     rows that are left (equation 3).
//   - Of each of the eight emotions the same number, best first.
//
// It returns the chosen triplets by row, and a reason for every other row, also with an error.
func (s Selection) Select(all []Triplet) (chosen []Triplet, dropped map[int]string, err error) {
	dropped = map[int]string{}
	var left []Triplet
	for _, t := range all {
		t.Emotion = strings.ToLower(strings.TrimSpace(t.Emotion))
		switch {
		case !slices.Contains(Emotions, t.Emotion):
			dropped[t.Row] = fmt.Sprintf("emotion %q is none of %s", t.Emotion, strings.Join(Emotions, ", "))
		case !(t.ClipI > s.ClipI):
			dropped[t.Row] = fmt.Sprintf("clip_i %g is not above %g", t.ClipI, s.ClipI)
		default:
			left = append(left, t)
		}
	}
	vie := minMax(left, func(t *Triplet) float64 { return t.VIE })
	text := minMax(left, func(t *Triplet) float64 { return t.ClipT })
	aesthetic := minMax(left, func(t *Triplet) float64 { return t.Aesthetic })
	for i := range left {
		t := &left[i]
		t.Quality = 0.5*vie(t.VIE) + 0.3*text(t.ClipT) + 0.2*aesthetic(t.Aesthetic)
	}
	slices.SortStableFunc(left, func(a, b Triplet) int { return cmp.Compare(b.Quality, a.Quality) })
	of := map[string]int{}
	byEmotion := map[string][]Triplet{}
	for _, t := range left {
		if of[t.Target]++; s.Top > 0 && of[t.Target] > s.Top {
			dropped[t.Row] = fmt.Sprintf("quality %.4f is not among the %d best of its target", t.Quality, s.Top)
			continue
		}
		byEmotion[t.Emotion] = append(byEmotion[t.Emotion], t)
	}
	each := s.PerEmotion
	if each == 0 {
		each = math.MaxInt
		for _, e := range Emotions {
			each = min(each, len(byEmotion[e]))
		}
	}
	var short []string
	for _, e := range Emotions {
		if n := len(byEmotion[e]); n < each || n == 0 {
			short = append(short, fmt.Sprintf("%s %d", e, n))
		}
	}
	if len(short) > 0 {
		return nil, dropped, fmt.Errorf("the emotions cannot be balanced: of some too few are left (%s)",
			strings.Join(short, ", "))
	}
	for _, e := range Emotions {
		for i, t := range byEmotion[e] {
			if i < each {
				chosen = append(chosen, t)
			} else {
				dropped[t.Row] = fmt.Sprintf("quality %.4f is not among the %d best of %s", t.Quality, each, e)
			}
		}
	}
	slices.SortFunc(chosen, func(a, b Triplet) int { return a.Row - b.Row })
	return chosen, dropped, nil
}

// minMax returns the map onto 0..1 of a value over all triplets; a constant becomes 0.
func minMax(all []Triplet, value func(*Triplet) float64) func(float64) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range all {
		v := value(&all[i])
		lo, hi = min(lo, v), max(hi, v)
	}
	if !(hi > lo) {
		return func(float64) float64 { return 0 }
	}
	return func(v float64) float64 { return (v - lo) / (hi - lo) }
}

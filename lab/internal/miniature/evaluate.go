package miniature

import (
	"encoding/json"
	"math"

	"assay/internal/stats"
)

// Scored is a candidate with its true degree of success and its score.
type Scored struct {
	Group  string // the same for all candidates of one task
	Family Family
	Kind   Kind
	Parts  int // of the instruction
	Truth  float64
	Score  float64
}

// Measure is a rank correlation (Spearman's, in [-1, 1]) or a share, NaN if it is undefined: for constant scores, or
// no data. In JSON, NaN is null.
type Measure float64

// MarshalJSON writes null for NaN.
func (c Measure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(c)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(c))
}

// Result describes how well scores agree with the truth.
type Result struct {
	Outputs         int                `json:"outputs"`
	Spearman        Measure            `json:"spearman"`
	Families        map[Family]Measure `json:"families"`    // of each family
	FamilyMean      Measure            `json:"family_mean"` // mean of these
	OnePart         Measure            `json:"one_part"`    // instructions with one part
	TwoParts        Measure            `json:"two_parts"`
	Alive           Measure            `json:"alive"` // without copies of the source, corrupt and foreign pictures
	AliveFamilies   map[Family]Measure `json:"alive_families"`
	AliveFamilyMean Measure            `json:"alive_family_mean"` // undefined ones count as 0

	Pairs int `json:"pairs"` // of one instruction's outputs, with degrees more than Margin apart
	// share of these in which the better one has the higher score; equal scores are wrong
	PairAccuracy Measure          `json:"pair_accuracy"`
	PerfectOver  map[Kind]float64 `json:"perfect_over"` // the same for perfect outputs against each kind
}

// Margin is the difference of degrees above which one of two candidates is the better one.
const Margin = 0.15

// Evaluate compares scores with the truth.
func Evaluate(rows []Scored) Result {
	r := Result{Outputs: len(rows), Families: map[Family]Measure{}, AliveFamilies: map[Family]Measure{},
		PerfectOver: map[Kind]float64{}}
	alive := filter(rows, func(s Scored) bool { return s.Kind.Alive() })
	r.Spearman, r.Alive = spearman(rows), spearman(alive)
	r.OnePart = spearman(filter(rows, func(s Scored) bool { return s.Parts == 1 }))
	r.TwoParts = spearman(filter(rows, func(s Scored) bool { return s.Parts == 2 }))
	var each, eachAlive []float64
	for _, f := range Families {
		of := func(s Scored) bool { return s.Family == f }
		own := filter(rows, of)
		if len(own) == 0 {
			continue
		}
		r.Families[f], r.AliveFamilies[f] = spearman(own), spearman(filter(alive, of))
		each, eachAlive = append(each, float64(r.Families[f])), append(eachAlive, orZero(r.AliveFamilies[f]))
	}
	r.FamilyMean, r.AliveFamilyMean = Measure(stats.Mean(each)), Measure(stats.Mean(eachAlive))
	r.pairs(rows)
	return r
}

func filter(rows []Scored, keep func(Scored) bool) []Scored {
	var out []Scored
	for _, s := range rows {
		if keep(s) {
			out = append(out, s)
		}
	}
	return out
}

func spearman(rows []Scored) Measure {
	var score, truth []float64
	for _, s := range rows {
		score, truth = append(score, s.Score), append(truth, s.Truth)
	}
	return Measure(stats.Spearman(score, truth))
}

func orZero(c Measure) float64 {
	if math.IsNaN(float64(c)) {
		return 0
	}
	return float64(c)
}

func (r *Result) pairs(rows []Scored) {
	groups := map[string][]Scored{}
	for _, s := range rows {
		groups[s.Group] = append(groups[s.Group], s)
	}
	right, over := 0, map[Kind]int{}
	count := map[Kind]int{}
	for _, g := range groups {
		for _, a := range g {
			for _, b := range g {
				if a.Truth <= b.Truth+Margin {
					continue
				}
				r.Pairs++
				if a.Kind == Perfect {
					count[b.Kind]++
				}
				if a.Score > b.Score {
					right++
					if a.Kind == Perfect {
						over[b.Kind]++
					}
				}
			}
		}
	}
	r.PairAccuracy = Measure(float64(right) / float64(r.Pairs))
	for k, n := range count {
		r.PerfectOver[k] = float64(over[k]) / float64(n)
	}
}

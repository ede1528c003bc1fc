package miniature

import (
	"math"

	"assay/internal/stats"
)

// Scored is a candidate with its true degree of success and what a scorer says of it.
type Scored struct {
	Group  string // the same for all candidates of one task
	Family Family
	Kind   Kind
	Parts  int // of the instruction
	Truth  float64
	Score  float64
}

// Result says how well scores agree with the truth. What is undefined (a constant score) is NaN.
type Result struct {
	Outputs       int
	Spearman      float64            // of all candidates
	Families      map[Family]float64 // Spearman of each family
	FamilyMean    float64            // mean of these
	OnePart       float64            // Spearman where the instruction has one part
	TwoParts      float64
	Alive         float64 // Spearman without the source itself, corrupt and foreign pictures, which are easily told
	AliveFamilies map[Family]float64
	AliveFamily   float64          // mean of these, undefined ones as 0
	Pairs         int              // pairs of candidates of one task whose degrees differ by more than Margin
	PairAccuracy  float64          // share of these where the better one has the higher score; equal scores are wrong
	PerfectOver   map[Kind]float64 // pair accuracy of perfect candidates against each kind
}

// Margin is the difference of degrees above which one of two candidates is the better one.
const Margin = 0.15

// Evaluate compares scores with the truth.
func Evaluate(rows []Scored) Result {
	r := Result{Outputs: len(rows), Families: map[Family]float64{}, AliveFamilies: map[Family]float64{}, PerfectOver: map[Kind]float64{}}
	all := func(Scored) bool { return true }
	alive := func(s Scored) bool { return s.Kind.Alive() }
	r.Spearman, r.Alive = spearman(rows, all), spearman(rows, alive)
	r.OnePart = spearman(rows, func(s Scored) bool { return s.Parts == 1 })
	r.TwoParts = spearman(rows, func(s Scored) bool { return s.Parts == 2 })
	var each, eachAlive []float64
	for _, f := range Families {
		of := func(s Scored) bool { return s.Family == f }
		rho := spearman(rows, of)
		if none(rows, of) {
			continue
		}
		aliveRho := spearman(rows, func(s Scored) bool { return of(s) && alive(s) })
		r.Families[f], r.AliveFamilies[f] = rho, aliveRho
		each = append(each, rho)
		if math.IsNaN(aliveRho) {
			aliveRho = 0
		}
		eachAlive = append(eachAlive, aliveRho)
	}
	r.FamilyMean, r.AliveFamily = stats.Mean(each), stats.Mean(eachAlive)
	r.pairs(rows)
	return r
}

// spearman is the rank correlation of scores and truth where a condition holds.
func spearman(rows []Scored, where func(Scored) bool) float64 {
	var score, truth []float64
	for _, s := range rows {
		if where(s) {
			score, truth = append(score, s.Score), append(truth, s.Truth)
		}
	}
	return stats.Spearman(score, truth)
}

func none(rows []Scored, where func(Scored) bool) bool {
	for _, s := range rows {
		if where(s) {
			return false
		}
	}
	return true
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
	r.PairAccuracy = float64(right) / float64(r.Pairs)
	for k, n := range count {
		r.PerfectOver[k] = float64(over[k]) / float64(n)
	}
}

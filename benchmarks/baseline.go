package benchmarks

import (
	"assay/internal/stats"
	"errors"
	"fmt"
	"strings"
)

// Baseline is made-up predictions.
type Baseline struct {
	Predictions
	Name        string
	Expectation map[string]Value // of its numbers: the mean over chanceDraws random judges; nil for the constant one
}

// NewBaseline returns the baseline "random" (scores uniform on 0..10, answers with equal chances, from a seed) or
// "constant" (5 everywhere).
func NewBaseline(s Set, name string, seed uint64) (*Baseline, error) {
	g, ok := s.(Guessable)
	if !ok {
		return nil, errors.New("this benchmark takes components, not scores: baselines do not apply")
	}
	switch name {
	case "constant":
		return &Baseline{Predictions: g.Guess(nil), Name: name}, nil
	case "random":
		return &Baseline{Predictions: g.Guess(stats.NewRand(seed)), Name: name, Expectation: expectation(g, seed)}, nil
	}
	return nil, fmt.Errorf("baseline %q: random, constant, %s was expected", name, strings.Join(Similarities, ", "))
}

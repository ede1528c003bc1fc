package runner

import (
	"errors"
	"fmt"
	"strings"

	"assay/encoders"
	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// Baseline is generated predictions, random or constant.
type Baseline struct {
	protocol.Predictions
	Name string
	// of its numbers: the mean over protocol.ChanceDraws random judges; nil for the constant one
	Expectation map[string]protocol.Value
}

// NewBaseline returns the baseline "random" (scores uniform on 0..10, answers with equal chances, from a seed) or
// "constant" (5 everywhere).
func NewBaseline(s protocol.Set, name string, seed uint64) (*Baseline, error) {
	g, ok := s.(protocol.Guessable)
	if !ok {
		return nil, errors.New("this benchmark takes components, not scores: baselines do not apply")
	}
	switch name {
	case "constant":
		return &Baseline{Predictions: g.Guess(nil), Name: name}, nil
	case "random":
		return &Baseline{Predictions: g.Guess(stats.NewRand(seed)), Name: name, Expectation: protocol.Expectation(g,
			seed)}, nil
	}
	return nil, fmt.Errorf("baseline %q: want one of random, constant, %s", name,
		strings.Join(encoders.SimilarityNames(), ", "))
}

package main

import (
	"context"

	"assay/encoders"
	"assay/model"
	"assay/scoring"
)

// What the tests of this package call by the names that it had here.
type batchResult = scoring.TableResult

var (
	contentOf    = scoring.Content
	similarities = encoders.SimilarityNames()
)

type sampleScorer interface {
	Score(context.Context, []*model.Sample) ([]float64, error)
}

func scoreSamples(ctx context.Context, s sampleScorer, samples []*model.Sample) ([]float64, []error, error) {
	return scoring.Batch(ctx, samples, s.Score)
}

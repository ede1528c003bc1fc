package reward

import (
	"context"

	"assay/model"
	"assay/scoring"
)

// inWords is a scorer that asks a model in words: its edits fail each by itself, and have no gradients.
type inWords = scoring.EachJudge[*model.Sample]

// judgeEach asks about all items at once.
func judgeEach(items []jobItem, judge inWords, out *outcome) {
	samples := make([]*model.Sample, len(items))
	for k, p := range items {
		samples[k] = p.samples[p.i]
	}
	judgements, errs, err := judge.JudgeEach(context.Background(), samples)
	for k := range items {
		if out.errs[k] = err; err == nil {
			out.scores[k], out.errs[k] = judgements[k], errs[k]
		}
	}
}

package model

import (
	"slices"

	"assay/model/batch"
)

// PlanGroups sets the groups of samples that steps will run on, in order, and the number of edits of the largest group,
// which need not be one of these. Usage then estimates the largest run of the graph for any micro-batch of whole
// groups, or for the largest group.
func (t *Tuner) PlanGroups(groups [][]*batch.Sample, largest int) {
	t.groups, t.largest = groups, largest
}

// Planned is a sample without what a plan does not read: unless the tower trains, pictures lose their pixels and share
// features of zeros.
func (t *Tuner) Planned(s *batch.Sample) *batch.Sample {
	size := t.net.FeatureSize()
	out := *s
	out.Pictures, out.Rest = nil, nil
	for _, p := range s.Pictures {
		q := *p
		if !t.net.VisionTrained() {
			if n := q.Tokens * size; n > len(t.zeros) {
				t.zeros = make([]byte, n)
			}
			q.Pixels, q.Features = nil, t.zeros[:q.Tokens*size]
		}
		out.Pictures = append(out.Pictures, &q)
	}
	for _, r := range s.Rest {
		out.Rest = append(out.Rest, t.Planned(r))
	}
	return &out
}

// largestRun are the samples of the run with the most rows, among all micro-batches of the groups and a largest group
// of samples like s.
func (t *Tuner) largestRun(s *batch.Sample, micro int) (largest []*batch.Sample) {
	most := -1
	for _, samples := range append(t.microBatches(micro), slices.Repeat([]*batch.Sample{t.Planned(s)}, t.largest)) {
		if len(samples) == 0 {
			continue
		}
		for _, part := range t.stepParts(samples, nil) {
			run := batch.Pick(samples, part)
			if rows, _ := t.Rows(run); rows > most {
				largest, most = run, rows
			}
		}
	}
	return largest
}

// microBatches are whole groups of at most micro samples, or single larger groups. If there are too few samples for one
// micro-batch, they are repeated as distinct samples.
func (t *Tuner) microBatches(micro int) (batches [][]*batch.Sample) {
	n := 0
	for _, g := range t.groups {
		n += len(g)
	}
	var open []*batch.Sample
	for round := byte(0); round == 0 || n*int(round) < micro; round++ {
		for _, g := range t.groups {
			if len(open) > 0 && len(open)+len(g) > micro {
				batches, open = append(batches, open), nil
			}
			for _, s := range g {
				open = append(open, s.Other(round))
			}
		}
	}
	return append(batches, open)
}

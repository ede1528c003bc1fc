package model

import "slices"

// PlanGroups tells the tuner which groups of samples steps will be over, in their order, and how many edits the largest
// group has, be it one of these or another. Usage is then that of the largest run of the graph that a micro-batch of
// whole groups, or the largest group, makes.
func (t *Tuner) PlanGroups(groups [][]*Sample, largest int) { t.groups, t.largest = groups, largest }

// Planned is a sample without what a plan does not read: the pixels of pictures, unless the tower trains, and other
// features than zeros that all share.
func (t *Tuner) Planned(s *Sample) *Sample {
	width := t.scorer.net.backbone.Decoder().FeatureWidth()
	out := *s
	out.Pictures, out.rest = nil, nil
	for _, p := range s.Pictures {
		q := *p
		if !t.scorer.net.visionTrained() {
			if n := q.Tokens * width; n > len(t.zeros) {
				t.zeros = make([]float32, n)
			}
			q.Pixels, q.features = nil, t.zeros[:q.Tokens*width]
		}
		out.Pictures = append(out.Pictures, &q)
	}
	for _, r := range s.rest {
		out.rest = append(out.rest, t.Planned(r))
	}
	return &out
}

// largestRun are the samples of the run with the most rows, of all micro-batches that the groups make, and of the
// largest group if it has samples like s.
func (t *Tuner) largestRun(s *Sample, micro int) (largest []*Sample) {
	most := -1
	for _, batch := range append(t.microBatches(micro), slices.Repeat([]*Sample{t.Planned(s)}, t.largest)) {
		if len(batch) == 0 {
			continue
		}
		for _, part := range t.stepParts(batch, nil) {
			run := pick(batch, part)
			if rows, _ := t.Rows(run); rows > most {
				largest, most = run, rows
			}
		}
	}
	return largest
}

// microBatches are whole groups of at most micro samples, or one group. If there are too few samples for one, they come
// again as others.
func (t *Tuner) microBatches(micro int) (batches [][]*Sample) {
	n := 0
	for _, g := range t.groups {
		n += len(g)
	}
	var open []*Sample
	for round := byte(0); round == 0 || n*int(round) < micro; round++ {
		for _, g := range t.groups {
			if len(open) > 0 && len(open)+len(g) > micro {
				batches, open = append(batches, open), nil
			}
			for _, s := range g {
				open = append(open, s.other(round))
			}
		}
	}
	return append(batches, open)
}

package model

import (
	"assay/losses"
	"assay/model/nn"
	"assay/onnx"
	"slices"

	"gorgonia.org/tensor"
)

// Counts returns the numbers of parameters, and the bytes of the weights.
func (t *Tuner) Counts() Usage { return t.scorer.net.counts(t.params) }

// Usage estimates the memory of training over micro-batches of that many samples as long as s. It adds the weights
// (once for all graphs; on CUDA once for each), what the optimizer holds, and of every graph the values of its worst
// moment. Those add up on CUDA, where every session keeps its memory between its runs; on the CPU sessions share it,
// and the sum is on the safe side. pictures is how many distinct ones a run sees: a frozen tower's output is kept for
// them, up to the cache's size.
func (t *Tuner) Usage(s *Sample, micro, pictures int, scoring bool) (Usage, error) {
	u := t.Counts()
	if t.scorer.net.onCUDA() && scoring {
		u.Bytes["weights"] *= 2
	}
	peaks := peaks{"training step": t.stepPeak}
	if !t.scorer.net.visionTrained() {
		peaks["vision tower"] = t.scorer.run.visionPeak
	}
	if scoring {
		peaks["scoring"] = t.scorer.peaks()["scoring"]
	}
	t.addPackedCopies(&u, scoring)
	return u, t.scorer.run.addTraining(&u, t.params, s, micro, pictures, peaks)
}

// stepPeak is that of a training step over copies of a sample, which share what they begin with if steps do; or over
// groups that are known (PlanGroups).
func (t *Tuner) stepPeak(s *Sample, micro int) (int64, error) {
	pk := t.stepPacking()
	if t.o.Fixed { // sources of several lengths share nothing there
		pk.share = 0
	}
	samples := slices.Repeat([]*Sample{withFeatures(s, t.scorer.net.backbone.Decoder().FeatureWidth())}, micro)
	if len(t.groups) > 0 {
		samples = t.largestRun(s, micro)
	}
	p, err := pk.pack(t.stepSequences(samples), t.scorer.net.positions)
	if err != nil {
		return 0, err
	}
	vision, err := t.scorer.net.visionFeeds(p)
	if err != nil {
		return 0, err
	}
	b, err := t.scorer.run.sessions.graph(t.stepGraph(p.groups).with(t.scorer.net.variant(p, t.scorer.net.visionTrained())))
	if err != nil {
		return 0, err
	}
	var targets map[string]*tensor.Dense
	if len(t.o.Terms) == 0 {
		targets = t.lossFeeds(p, make([]float64, len(samples)), 1)
	} else {
		rows := make([]*losses.Rows, len(t.o.Terms))
		if targets, err = t.termFeeds(p, losses.AllItems(t.o.Terms, len(samples)), 1, 0, rows); err != nil {
			return 0, err
		}
	}
	in := shapes(p.feeds, vision, targets)
	in["dropout_pool"] = &onnx.Tensor{Shape: []int64{2 * int64(p.rows) * int64(b.Widest)}}
	in["dropout_offsets"] = &onnx.Tensor{Shape: []int64{int64(b.Sites)}}
	t.scorer.run.sessions.resident.addTo(in)
	bytes, _, err := peak(b.Model, in)
	return bytes + 4*in["dropout_pool"].Shape[0], err
}

// stepPacks says whether a step packs. One over several groups of lengths does not: there is a session for every number
// of groups.
func (t *Tuner) stepPacks(g *nn.Graph, groups int) bool {
	return t.scorer.net.plan.prepack && (groups == 1 || groups == 2 && g.Variant.Follows != nil)
}

// addPackedCopies counts those of a step, one for each direction, and of scoring. What they were made from may leave
// the memory again if it lies in a file.
func (t *Tuner) addPackedCopies(u *Usage, scoring bool) {
	copies := int64(0)
	if t.stepPacks(&nn.Graph{}, 1) {
		copies = 2
	}
	if t.scorer.net.plan.prepack && scoring {
		copies++
	}
	if copies > 0 {
		u.Bytes["packed weights"] = copies * u.Bytes["weights"]
	}
}

// Usage estimates the memory of scoring so many samples as long as s at once, by what for; see [Tuner.Usage].
func (s *Scorer) Usage(sample *Sample, batch int) (map[string]int64, error) {
	_, weights := s.net.Weights()
	u := Usage{Bytes: map[string]int64{"weights": weights, "program": program}}
	return u.Bytes, s.run.addPeaks(&u, sample, batch, s.peaks())
}

func (s *Scorer) peaks() peaks {
	scoring := func(sample *Sample, batch int) (int64, error) {
		return s.run.scorePeak(s.forwardGraph(forwardSpec{}), sample, batch)
	}
	return peaks{"vision tower": s.run.visionPeak, "scoring": scoring}
}

// UsageOf is Usage of a process that goes through a table with so many distinct pictures, in batches.
func (s *Scorer) UsageOf(sample *Sample, batch, pictures int) (Usage, error) {
	u := Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = s.net.Weights()
	peaks := s.peaks()
	if err := s.run.addPeaks(&u, sample, batch, peaks); err != nil {
		return u, err
	}
	if s.net.plan.small || s.net.plan.prepack { // packed copies of the weights
		u.Bytes["weights"] *= 2
	}
	if s.net.plan.small { // runs side by side
		for what := range peaks {
			u.Bytes[what] *= int64(s.net.plan.limits.parallel)
		}
	}
	s.run.addPictures(&u, sample, batch, pictures, true)
	switch {
	case s.net.onCUDA():
		s.run.split(&u, len(peaks))
	case !s.net.plan.small: // one after the other they use the same arena
		u.Bytes["scoring or vision tower"] = max(u.Bytes["scoring"], u.Bytes["vision tower"])
		for what := range peaks {
			delete(u.Bytes, what)
		}
	}
	return u, nil
}

// Rows counts the tokens that go through the language model when samples are scored together, and one by one.
func (s *Scorer) Rows(samples []*Sample) (together, alone int) {
	for _, b := range s.net.plan.limits.batches(s.net.packing, samples, s.net.oneGraph()) {
		rows, apart := b.count(pick(samples, b.samples))
		together, alone = together+rows, alone+apart
	}
	return together, alone
}

// Rows is that of a step over samples, together and one by one.
func (t *Tuner) Rows(samples []*Sample) (together, alone int) {
	return t.stepPacking().count(t.stepSequences(samples))
}

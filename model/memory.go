package model

import (
	"slices"

	"gorgonia.org/tensor"

	"assay/losses"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// Counts returns the numbers of parameters and the size of the weights in bytes.
func (t *Tuner) Counts() exec.Usage { return t.net.Counts(t.List) }

// Usage estimates the memory of training with micro-batches of that many samples as long as s. It adds the weights, the
// optimizer state, and the peak memory of the graphs. They share it; on the CPU the sum is on the safe side. pictures
// is the number of distinct pictures in a run: a frozen tower's output is cached for them, up to the cache's size.
func (t *Tuner) Usage(s *batch.Sample, micro, pictures int, scoring bool) (exec.Usage, error) {
	u := t.Counts()
	peaks := exec.Peaks{"training step": t.stepPeak}
	if !t.net.VisionTrained() {
		peaks["vision tower"] = t.run.VisionPeak
	}
	if scoring {
		peaks["scoring"] = t.peaks()["scoring"]
	}
	t.addPackedCopies(&u, scoring)
	return u, t.run.AddTraining(&u, t.List, s, micro, pictures, peaks)
}

// stepPeak is the peak memory of a training step over copies of a sample, which share their prefix if steps do; or over
// known groups (PlanGroups).
func (t *Tuner) stepPeak(s *batch.Sample, micro int) (int64, error) {
	pk := t.stepPacking()
	if t.o.Fixed { // sources of several lengths share nothing there
		pk.Share = 0
	}
	samples := slices.Repeat([]*batch.Sample{t.net.WithFeatures(s)}, micro)
	if len(t.groups) > 0 {
		samples = t.largestRun(s, micro)
	}
	p, err := pk.Pack(t.stepSequences(samples), t.net.Positions)
	if err != nil {
		return 0, err
	}
	var targets map[string]*tensor.Dense
	if len(t.o.Terms) == 0 {
		targets = t.lossFeeds(p, make([]float64, len(samples)), 1)
	} else {
		rows := make([]*losses.Rows, len(t.o.Terms))
		in := StepInput{Items: losses.AllItems(t.o.Terms, len(samples)), Weight: 1}
		if targets, err = t.termFeeds(p, in, rows); err != nil {
			return 0, err
		}
	}
	return t.run.StepPeak(t.stepGraph(p.Groups).With(t.net.Variant(p, t.net.VisionTrained())), p, targets)
}

// stepPacks reports whether a step packs its weights. One over several groups of lengths does not: there is a session
// for every number of groups.
func (t *Tuner) stepPacks(g *nn.Graph, groups int) bool {
	return t.net.Plan.Prepack && (groups == 1 || groups == 2 && g.Variant.Follows != nil)
}

// addPackedCopies counts the packed copies of a step, one for each direction, and of scoring. The originals may leave
// memory again if they are in a file.
func (t *Tuner) addPackedCopies(u *exec.Usage, scoring bool) {
	copies := int64(0)
	if t.stepPacks(&nn.Graph{}, 1) {
		copies = 2
	}
	if t.net.Plan.Prepack && scoring {
		copies++
	}
	if copies > 0 {
		u.Bytes["packed weights"] = copies * u.Bytes["weights"]
	}
}

// Usage estimates the memory of scoring a batch of that many samples as long as sample, by purpose; see [Tuner.Usage].
func (s *Scorer) Usage(sample *batch.Sample, batch int) (map[string]int64, error) {
	_, weights := s.net.Weights()
	u := exec.Usage{Bytes: map[string]int64{"weights": weights, "program": exec.Program}}
	return u.Bytes, s.run.AddPeaks(&u, sample, batch, s.peaks())
}

func (s *Scorer) peaks() exec.Peaks {
	scoring := func(sample *batch.Sample, batch int) (int64, error) {
		return s.run.ScorePeak(s.forwardGraph(forwardSpec{}), sample, batch)
	}
	return exec.Peaks{"vision tower": s.run.VisionPeak, "scoring": scoring}
}

// UsageOf is Usage for a process that scores a table with that many distinct pictures in batches.
func (s *Scorer) UsageOf(sample *batch.Sample, batch, pictures int) (exec.Usage, error) {
	u := exec.Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = s.net.Weights()
	peaks := s.peaks()
	if err := s.run.AddPeaks(&u, sample, batch, peaks); err != nil {
		return u, err
	}
	if s.net.Plan.Small || s.net.Plan.Prepack { // packed copies of the weights
		u.Bytes["weights"] *= 2
	}
	if s.net.Plan.Small { // runs in parallel
		for what := range peaks {
			if n := u.Bytes[what]; n > 0 {
				u.Bytes[what] = n * int64(s.net.Plan.Limits.Parallel)
			}
		}
	}
	s.run.AddPictures(&u, sample, batch, pictures, true)
	switch {
	case s.net.OnCUDA():
		s.run.Split(&u)
	case !s.net.Plan.Small: // run in sequence, they share one arena
		u.Bytes["scoring or vision tower"] = max(u.Bytes["scoring"], u.Bytes["vision tower"])
		for what := range peaks {
			delete(u.Bytes, what)
		}
	}
	return u, nil
}

// Rows counts the tokens that pass through the language model when samples are scored together, and one by one.
func (s *Scorer) Rows(samples []*batch.Sample) (together, alone int) {
	for _, b := range s.net.Plan.Limits.Batches(s.net.Packer, samples, s.net.OneGraph()) {
		rows, apart := b.Count(batch.Pick(samples, b.Samples))
		together, alone = together+rows, alone+apart
	}
	return together, alone
}

// Rows counts the tokens of a step over samples, together and one by one.
func (t *Tuner) Rows(samples []*batch.Sample) (together, alone int) {
	return t.stepPacking().Count(t.stepSequences(samples))
}

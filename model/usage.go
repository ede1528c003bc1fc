package model

import (
	"maps"

	"assay/model/nn"
)

// Usage is what training needs.
type Usage struct {
	Parameters int64            // of backbone and scorer
	Trainable  int64            // of them
	Bytes      map[string]int64 // memory of the device, by what for
	Host       map[string]int64 // on CUDA, memory of the machine; on the CPU that is Bytes
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Counts returns the numbers of parameters, and the bytes of the weights.
func (t *Tuner) Counts() Usage { return t.counts(t.params) }

// counts is Counts of what trains the parameters.
func (n *network) counts(params []nn.Param) Usage {
	u := Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = n.Weights()
	for _, v := range n.tensors {
		u.Parameters += int64(v.DataSize())
	}
	for _, p := range params {
		u.Trainable += elements(p.Shape)
	}
	return u
}

const (
	program    = 96 << 20 // ONNX Runtime's library, Go's own memory, tokenizer, graphs
	arenaSlack = 16       // one part in so many of an arena lies between its blocks

	// On CUDA an arena grows by regions of up to a GiB, and no block lies across two: more of it is lost.
	cudaSlack  = 8
	cudaRegion = 1 << 30
	// What a process takes of a GPU before it computes: the driver's context, kernels, workspaces of cuBLAS.
	cudaContext = 1 << 30
)

// Usage estimates the memory of training over micro-batches of that many samples as long as s. It adds the weights
// (once for all graphs; on CUDA once for each), what the optimizer holds, and of every graph the values of its worst
// moment. Those add up on CUDA, where every session keeps its memory between its runs; on the CPU sessions share it,
// and the sum is on the safe side. pictures is how many distinct ones a run sees: a frozen tower's output is kept for
// them, up to the cache's size.
func (t *Tuner) Usage(s *Sample, micro, pictures int, scoring bool) (Usage, error) {
	u := t.Counts()
	if t.onCUDA() && scoring {
		u.Bytes["weights"] *= 2
	}
	peaks := peaks{"training step": t.stepPeak}
	if !t.visionTrained() {
		peaks["vision tower"] = t.visionPeak
	}
	if scoring {
		peaks["scoring"] = t.scorePeak
	}
	t.addPackedCopies(&u, scoring)
	return u, t.addTraining(&u, t.params, s, micro, pictures, peaks)
}

// addTraining adds what training needs besides the weights: for the optimizer, of graphs, and for the pictures.
func (p *pipeline) addTraining(
	u *Usage, params []nn.Param, s *Sample, micro, pictures int, peaks peaks,
) error {
	// values; a run's gradients, which the collector frees some runs later
	u.Bytes["gradients and optimizer"] = u.Trainable*4*(1+2) + p.held(params)
	if err := p.addPeaks(u, s, micro, peaks); err != nil {
		return err
	}
	p.addPictures(u, s, micro, pictures, !p.visionTrained())
	u.Bytes["pictures"] += u.Bytes["pictures"] / 2 // those that are made ready beside the step
	if p.onCUDA() {
		p.split(u, len(peaks))
		if u.Bytes["parameters"] = 4 * u.Trainable; p.resident != nil { // else fed to every run
			p.resident.count(u)
		}
	}
	return nil
}

// held is what sums of gradients and an optimizer take.
func (p *pipeline) held(params []nn.Param) (bytes int64) {
	if p.options.Held != nil {
		return p.options.Held(params)
	}
	for _, x := range params {
		bytes += 4 * (1 + 2) * elements(x.Shape)
	}
	return bytes
}

// Usage estimates the memory of scoring so many samples as long as s at once, by what for; see [Tuner.Usage].
func (s *Scorer) Usage(sample *Sample, batch int) (map[string]int64, error) {
	_, weights := s.Weights()
	u := Usage{Bytes: map[string]int64{"weights": weights, "program": program}}
	return u.Bytes, s.addPeaks(&u, sample, batch, s.peaks())
}

type peaks = map[string]func(s *Sample, batch int) (bytes int64, err error)

func (s *Scorer) peaks() peaks { return peaks{"vision tower": s.visionPeak, "scoring": s.scorePeak} }

// UsageOf is Usage of a process that goes through a table with so many distinct pictures, in batches.
func (s *Scorer) UsageOf(sample *Sample, batch, pictures int) (Usage, error) {
	u := Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = s.Weights()
	peaks := s.peaks()
	if err := s.addPeaks(&u, sample, batch, peaks); err != nil {
		return u, err
	}
	if s.small || s.prepack { // packed copies of the weights
		u.Bytes["weights"] *= 2
	}
	if s.small { // runs side by side
		for what := range peaks {
			u.Bytes[what] *= int64(s.limits.parallel)
		}
	}
	s.addPictures(&u, sample, batch, pictures, true)
	switch {
	case s.onCUDA():
		s.split(&u, len(peaks))
	case !s.small: // one after the other they use the same arena
		u.Bytes["scoring or vision tower"] = max(u.Bytes["scoring"], u.Bytes["vision tower"])
		for what := range peaks {
			delete(u.Bytes, what)
		}
	}
	return u, nil
}

// addPeaks adds what graphs hold at their worst moments, with what their arenas lose.
func (p *pipeline) addPeaks(u *Usage, s *Sample, batch int, peaks peaks) error {
	for what, peak := range peaks {
		n, err := peak(s, batch)
		if err != nil {
			return err
		}
		slack := n / arenaSlack
		if p.onCUDA() {
			slack = n / cudaSlack
		}
		u.Bytes[what] = n + slack
	}
	return nil
}

// addPictures adds what lies on the host of the pictures: pixels of a batch, features, if they are kept.
func (p *pipeline) addPictures(u *Usage, s *Sample, batch, pictures int, kept bool) {
	var pixels, features int64
	for _, q := range s.Pictures {
		pixels += 4 * int64(len(q.Pixels))
		features = max(features, 4*int64(q.Tokens*p.backbone.Decoder().FeatureWidth()))
	}
	if kept {
		u.Bytes["image features"] = min(features*int64(pictures), p.cache.limit)
	}
	u.Bytes["pictures"] = 2 * pixels * int64(batch)
	u.Bytes["program"] = program
}

// split sorts memory by where it lies, and adds what the device takes for itself. That is its context, and of each
// session's arena the rest of its last region, half of one on average.
func (p *pipeline) split(u *Usage, sessions int) {
	u.Host = map[string]int64{}
	for _, what := range []string{"gradients and optimizer", "image features", "pictures", "program"} {
		if n, ok := u.Bytes[what]; ok {
			u.Host[what] = n
		}
	}
	maps.DeleteFunc(u.Bytes, func(what string, _ int64) bool { return u.Host[what] > 0 })
	u.Bytes["context, ends of arenas"] = cudaContext + int64(sessions)*cudaRegion/2
}

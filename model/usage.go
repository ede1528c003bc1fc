package model

// Usage is what training needs.
type Usage struct {
	Parameters int64            // of backbone and scorer
	Trainable  int64            // of them
	Bytes      map[string]int64 // memory, by what for
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Counts returns the numbers of parameters, and the bytes of the weights.
func (t *Tuner) Counts() Usage {
	u := Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = t.Weights()
	for _, v := range t.tensors {
		u.Parameters += int64(v.DataSize())
	}
	for _, p := range t.params {
		u.Trainable += elements(p.Shape)
	}
	return u
}

// Usage estimates the memory of training over micro-batches of that many samples as long as s: the weights (once for
// all graphs; on CUDA once for each), what the optimizer holds, and of every graph the values of its worst moment.
// Those add up on CUDA, where every session keeps its memory between its runs; on the CPU sessions share it, and the
// sum is on the safe side. pictures is how many distinct ones a run sees: a frozen tower's output is kept for them, up
// to the cache's size.
func (t *Tuner) Usage(s *Sample, micro, pictures int, scoring bool) (Usage, error) {
	u := t.Counts()
	if t.onCUDA() && scoring {
		u.Bytes["weights"] *= 2
	}
	u.optimizer()
	var err error
	add := func(what string, n int64, e error) {
		if err == nil {
			err = e
		}
		u.Bytes[what] = n + n/arenaSlack
	}
	n, e := t.stepPeak(s, micro)
	add("training step", n, e)
	if !t.visionTrained() {
		n, e = t.visionPeak(s, micro)
		add("vision tower", n, e)
	}
	if scoring {
		n, e = t.scorePeak(s, micro)
		add("scoring", n, e)
	}
	u.pictures(t.pipeline, s, micro, pictures)
	return u, err
}

// optimizer counts values, the batch's gradients and two moments; a run's gradients, which the collector frees some
// runs later.
func (u *Usage) optimizer() { u.Bytes["gradients and optimizer"] = u.Trainable * 4 * (4 + 2) }

// pictures counts what is held of the pictures of samples like s besides the values of graphs, and the program itself.
func (u *Usage) pictures(e *pipeline, s *Sample, micro, pictures int) {
	var pixels, features int64
	for _, p := range s.Pictures {
		pixels += 4 * int64(len(p.Pixels))
		features = max(features, 4*int64(p.Tokens*e.backbone.Decoder().FeatureWidth()))
	}
	if !e.visionTrained() {
		u.Bytes["image features"] = min(features*int64(pictures), e.cache.limit)
	}
	u.Bytes["pictures"] = 2 * pixels * int64(micro)
	u.Bytes["program"] = program
}

const (
	program    = 96 << 20 // ONNX Runtime's library, Go's own memory, tokenizer, graphs
	arenaSlack = 16       // one part in so many of an arena lies between its blocks
)

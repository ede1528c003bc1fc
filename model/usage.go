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

// addTraining adds what training needs besides the weights: for the optimizer, of graphs, and for the pictures.
func (r *Runner) addTraining(
	u *Usage, params []nn.Param, s *Sample, micro, pictures int, peaks peaks,
) error {
	// values; a run's gradients, which the collector frees some runs later
	u.Bytes["gradients and optimizer"] = u.Trainable*4*(1+2) + r.held(params)
	if err := r.addPeaks(u, s, micro, peaks); err != nil {
		return err
	}
	r.addPictures(u, s, micro, pictures, !r.net.visionTrained())
	u.Bytes["pictures"] += u.Bytes["pictures"] / 2 // those that are made ready beside the step
	if r.net.onCUDA() {
		r.split(u, len(peaks))
		if u.Bytes["parameters"] = 4 * u.Trainable; r.sessions.resident != nil { // else fed to every run
			r.sessions.resident.count(u)
		}
	}
	return nil
}

// held is what sums of gradients and an optimizer take.
func (r *Runner) held(params []nn.Param) (bytes int64) {
	if r.sessions.options.Held != nil {
		return r.sessions.options.Held(params)
	}
	for _, x := range params {
		bytes += 4 * (1 + 2) * elements(x.Shape)
	}
	return bytes
}

type peaks = map[string]func(s *Sample, batch int) (bytes int64, err error)

// addPeaks adds what graphs hold at their worst moments, with what their arenas lose.
func (r *Runner) addPeaks(u *Usage, s *Sample, batch int, peaks peaks) error {
	for what, peak := range peaks {
		n, err := peak(s, batch)
		if err != nil {
			return err
		}
		slack := n / arenaSlack
		if r.net.onCUDA() {
			slack = n / cudaSlack
		}
		u.Bytes[what] = n + slack
	}
	return nil
}

// addPictures adds what lies on the host of the pictures: pixels of a batch, features, if they are kept.
func (r *Runner) addPictures(u *Usage, s *Sample, batch, pictures int, kept bool) {
	var pixels, features int64
	for _, q := range s.Pictures {
		pixels += 4 * int64(len(q.Pixels))
		features = max(features, 4*int64(q.Tokens*r.net.backbone.Decoder().FeatureWidth()))
	}
	if kept {
		u.Bytes["image features"] = min(features*int64(pictures), r.features.cache.limit)
	}
	u.Bytes["pictures"] = 2 * pixels * int64(batch)
	u.Bytes["program"] = program
}

// split sorts memory by where it lies, and adds what the device takes for itself. That is its context, and of each
// session's arena the rest of its last region, half of one on average.
func (r *Runner) split(u *Usage, sessions int) {
	u.Host = map[string]int64{}
	for _, what := range []string{"gradients and optimizer", "image features", "pictures", "program"} {
		if n, ok := u.Bytes[what]; ok {
			u.Host[what] = n
		}
	}
	maps.DeleteFunc(u.Bytes, func(what string, _ int64) bool { return u.Host[what] > 0 })
	u.Bytes["context, ends of arenas"] = cudaContext + int64(sessions)*cudaRegion/2
}

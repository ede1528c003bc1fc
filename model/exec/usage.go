package exec

import (
	"maps"
	"slices"

	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Usage is the memory that training needs.
type Usage struct {
	Parameters int64            // of backbone and scorer
	Trainable  int64            // of them
	Bytes      map[string]int64 // device memory, by purpose
	Host       map[string]int64 // on CUDA, host memory; on the CPU that is Bytes
	Arena      int64            // on CUDA, device memory of all graphs, which share an arena; for [ort.ReserveArena]
}

// Counts returns the number of parameters, the number of trainable ones, and the memory of the weights.
func (n *Network) Counts(params []nn.Param) Usage {
	u := Usage{Bytes: map[string]int64{}}
	u.Parameters, u.Bytes["weights"] = n.Weights()
	for _, v := range n.Tensors {
		u.Parameters += int64(v.DataSize())
	}
	for _, p := range params {
		u.Trainable += onnx.Elements(p.Shape)
	}
	return u
}

const (
	Program    = 96 << 20 // ONNX Runtime's library, Go's own memory, tokenizer, graphs
	arenaSlack = 16       // one part in arenaSlack of an arena is lost between its blocks
	cudaSlack  = 24       // the same on CUDA, besides what large values lose: see Runner.Peak
	cudaRest   = 40 << 20 // an arena's first regions, tables of fused operators
	cudaTables = 24 << 20 // the same of an arena that is reserved
	// GPU memory that a process needs before it computes: the driver's context, kernels, workspaces of cuBLAS.
	CUDAContext = 1 << 30
)

// CUDAArena returns the device memory of an arena whose blocks take n bytes at their peak, and that is not reserved: it
// grows by regions of 1, 2, 4, ... MiB up to a GiB.
func CUDAArena(n int64) (bytes int64) {
	for region := int64(ort.FirstRegion); bytes < n+n/cudaSlack; region = min(2*region, ort.MaxRegion) {
		bytes += region
	}
	return bytes + cudaRest
}

// AddTraining adds the memory that training needs besides the weights: for the optimizer, graphs and pictures. On CUDA
// its arena should be reserved ([ort.ReserveArena]).
func (r *Runner) AddTraining(
	u *Usage, params []nn.Param, s *batch.Sample, micro, pictures int, peaks Peaks,
) error {
	// values; a run's gradients, which the collector frees some runs later
	u.Bytes["gradients and optimizer"] = u.Trainable*4*(1+2) + r.held(params)
	if err := r.AddPeaks(u, s, micro, peaks); err != nil {
		return err
	}
	r.AddPictures(u, s, micro, pictures, !r.net.VisionTrained())
	u.Bytes["pictures"] += u.Bytes["pictures"] / 2 // pictures that are prepared during the step
	if r.net.OnCUDA() {
		for what := range peaks {
			if _, largest := u.Bytes[what]; largest {
				u.Bytes[what] = u.Arena + cudaTables
			}
		}
		r.Split(u)
		if r.net.Stages() {
			u.Bytes["features of two steps"] = r.net.stagedBytes(s, micro)
		}
		if u.Bytes["parameters"] = 4 * u.Trainable; r.Sessions.Resident != nil { // otherwise they are fed to every run
			r.Sessions.Resident.count(u)
		}
	}
	return nil
}

// held returns the memory of the sums of gradients and an optimizer.
func (r *Runner) held(params []nn.Param) (bytes int64) {
	if r.Sessions.options.Held != nil {
		return r.Sessions.options.Held(params)
	}
	for _, x := range params {
		bytes += 4 * (1 + 2) * onnx.Elements(x.Shape)
	}
	return bytes
}

// Peaks holds the peak memory of graphs, for a batch of samples as long as the given one, by what the graphs do.
type Peaks = map[string]func(s *batch.Sample, batch int) (bytes int64, err error)

// AddPeaks adds the peak memory of graphs, including what their arenas lose. On CUDA they share one, and run in turn:
// only the largest is added.
func (r *Runner) AddPeaks(u *Usage, s *batch.Sample, batch int, peaks Peaks) error {
	var kept int64 // each session has its own
	for what, peak := range peaks {
		r.kept = 0
		n, err := peak(s, batch)
		kept += r.kept
		if err != nil {
			return err
		}
		if u.Bytes[what] = n + n/arenaSlack; r.net.OnCUDA() {
			u.Bytes[what], u.Arena = CUDAArena(n), max(u.Arena, n+n/cudaSlack)
		}
	}
	if !r.net.OnCUDA() {
		return nil
	}
	var largest string
	for _, what := range slices.Sorted(maps.Keys(peaks)) {
		if u.Bytes[what] > u.Bytes[largest] {
			delete(u.Bytes, largest)
			largest = what
		} else {
			delete(u.Bytes, what)
		}
	}
	if kept > 0 {
		u.Bytes["fused operators"] = kept
	}
	return nil
}

// AddPictures adds the host memory of the pictures: pixels of a batch, and features if they are cached.
func (r *Runner) AddPictures(u *Usage, s *batch.Sample, batch, pictures int, kept bool) {
	var pixels, features int64
	for _, q := range s.Pictures {
		pixels += 4 * int64(len(q.Pixels))
		features = max(features, int64(q.Tokens*r.net.FeatureSize()))
	}
	if kept {
		u.Bytes["image features"] = min(features*int64(pictures), r.Features.cache.limit)
	}
	u.Bytes["pictures"] = 2 * pixels * int64(batch)
	u.Bytes["program"] = Program
}

// Split divides memory into device and host memory, and adds the device's context.
func (r *Runner) Split(u *Usage) {
	u.Host = map[string]int64{}
	for _, what := range []string{"gradients and optimizer", "image features", "pictures", "program"} {
		if n, ok := u.Bytes[what]; ok {
			u.Host[what] = n
		}
	}
	maps.DeleteFunc(u.Bytes, func(what string, _ int64) bool { return u.Host[what] > 0 })
	u.Bytes["context"] = CUDAContext
}

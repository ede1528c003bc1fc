package models

import (
	"runtime"
	"slices"

	"assay/model"
	"assay/optim"
	"assay/trainer/config"
	"assay/trainer/optimizer"
)

// held is the memory that this process takes for trained tensors besides their values and a run's gradients. It has
// sums of gradients and the optimizer's state, of its share, and what goes to other ranks at a time.
func held(c *config.Config, params []model.Param) (bytes int64) {
	var sizes []int64 // of what an update takes beside
	for _, p := range params {
		kept, scratch := keeps(c, p.Shape)
		bytes += kept + 4*sizeOf(p.Shape)
		sizes = append(sizes, scratch)
	}
	if c.Ranks > 1 {
		if c.Reduce == config.ReduceOrdered && optimizer.Elementwise(c) {
			bytes /= int64(c.Ranks)
		}
		bytes += 2 * 4 * optimizer.Exchanged
	}
	slices.Sort(sizes)
	for _, n := range sizes[max(0, len(sizes)-runtime.GOMAXPROCS(0)):] {
		bytes += n
	}
	return bytes
}

// sizeOf is the number of elements of a tensor.
func sizeOf(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// keeps is what the optimizer keeps of a tensor of that shape, in bytes, and what an update of it takes beside.
func keeps(c *config.Config, shape []int64) (kept, scratch int64) {
	n := sizeOf(shape)
	switch c.Optimizer.Name {
	case "lion":
		return 4 * n, 0
	case "adamw_8bit":
		return optim.Moments8(n), 0
	case "adafactor":
		if k := len(shape); k > 1 {
			return 4 * (n/shape[k-1] + n/shape[k-2]), 4 * n
		}
		return 4 * n, 4 * n
	}
	return 8 * n, 0
}

package language

import (
	"fmt"

	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

const (
	// promptRows is the maximum number of prompt rows that run together.
	promptRows = 1024
	// promptRowsCPU is the same on the CPU, where larger products are slower: their rows do not fit the L2 cache.
	promptRowsCPU = 512
	// With a plain cache the scores of all rows over the full cache are in memory at once: maxScores limits their
	// bytes, but at least minPromptRows run together.
	minPromptRows, maxScores = 64, 1 << 30
)

// PromptRows is the number of rows of prompts that may run together.
func (l *Model) PromptRows(c *Cache) int {
	switch {
	case !l.net.OnCUDA():
		return promptRowsCPU
	case !l.plainCache():
		return promptRows
	}
	row := 4 * l.net.Backbone.Decoder().Heads * c.capacity // bytes of scores
	return min(max(maxScores/row/2*2, minPromptRows), promptRows)
}

// CacheRoom returns the bytes left on a GPU for keys and values: nine tenths of the free memory minus the weights and
// the memory of runs over prompts, as far as these are known before any picture.
func (l *Model) CacheRoom() (int64, error) {
	free, _, err := ort.FreeMemory(l.net.Plan.Device)
	if err != nil {
		return 0, err
	}
	return l.cacheRoom(free)
}

func (l *Model) cacheRoom(free int64) (int64, error) {
	needed, err := l.needed()
	if err != nil {
		return 0, err
	}
	room := free/10*9 - needed
	if least := l.RowBytes(); room < least {
		return 0, fmt.Errorf("%s has %d MB of free memory, and weights in %s and runs over prompts take %d MB, which leaves "+
			"no room for keys and values. Free memory, use another device, bfloat16, or a backbone of fewer bits "+
			"(train quantize)", l.net.Plan.Device, free>>20, l.DType(), needed>>20)
	}
	return room, nil
}

// needed is the memory of a GPU besides the cache: the weights, the peak of a run with the arenas' overhead, and the
// process's own use before it computes anything.
func (l *Model) needed() (int64, error) {
	_, weights := l.net.Weights()
	most, err := l.promptPeak()
	if err != nil {
		return 0, err
	}
	if l.plainCache() { // scores, with the mask added, and their softmax
		most += 3 * maxScores
	}
	return weights + exec.CUDAArena(most) + exec.CUDAContext, nil
}

// promptPeak is the peak memory of a run over text only.
func (l *Model) promptPeak() (int64, error) {
	b, err := l.run.Sessions.Graph(exec.Recipe{Name: "generate", Build: l.stepGraph})
	if err != nil {
		return 0, err
	}
	d := l.net.Backbone.Decoder()
	rows := min(promptRows, d.MaxPositions)
	p := &Prompt{prompt: rows, axes: make([][]int64, d.Rope.Axes())}
	p.IDs = make([]int64, rows)
	for i := range p.axes {
		p.axes[i] = make([]int64, rows)
	}
	stretch := []Stretch{{Prompt: p, To: rows, Logits: 1}}
	vision, _, err := l.run.Sessions.ShownFeeds(&batch.Inputs{})
	if err != nil {
		return 0, err
	}
	in := exec.Shapes(l.packStretches(stretch).Feeds, plainFeeds(stretch, d.KVHeads), vision)
	for i := range d.Layers {
		for _, what := range nn.CacheParts {
			past, _ := nn.CacheNames(i, what)
			in[past] = &onnx.Tensor{Name: past, Type: l.net.Computes(),
				Shape: []int64{1, int64(d.KVHeads), int64(rows), int64(d.CachedWidth())}}
		}
	}
	return l.run.Peak(b.Model, in)
}

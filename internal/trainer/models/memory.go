package models

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"

	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/optimizer"
	"assay/model"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// pictures returns an upper bound on the number of distinct pictures in the rows, estimated from the examples.
func pictures(c *config.Config, in *PlanInput) int {
	each := 2
	for i := range in.Examples {
		each = max(each, len(in.Examples[i].Edit.Sources)+1)
	}
	n := each * (in.Rows + in.Validation)
	if c.Augment != "none" {
		n *= 8 // flips and quarter turns
	}
	return n
}

// Plan counts tokens, parameters and memory.
func (m *ScorerModel) Plan(_ context.Context, in PlanInput) (*Plan, error) {
	sample := in.Examples
	p := &Plan{Device: m.tuner.Device()}
	var groups [][]*model.Sample
	longest, err := p.count(m.tuner, sample, func(i int, s *model.Sample) {
		if m.config.Data.Sampling != config.WholeGroups {
			return
		}
		if i == 0 || sample[i].Unit != sample[i-1].Unit {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], m.tuner.Planned(s))
	})
	if err != nil {
		return nil, err
	}
	m.tuner.PlanGroups(groups, in.Group)
	if p.Shared, err = m.shared(sample); err != nil {
		return nil, err
	}
	p.onDevice(m.config, m.tuner, m.given)
	return m.fit(p, in.MicroBatch, in.Group, func(n int) (exec.Usage, error) {
		return m.tuner.Usage(longest, n, pictures(m.config, &in), in.Validation > 0)
	}, m.tuner.Layers)
}

// planned is what a plan asks: a Tuner of package model or language.
type planned interface {
	Device() string
	Kernels() exec.Kernels
	Absent() error
	Partly() bool
}

// onDevice fills in the kernels, the memory that the run may use, and which weights are absent.
func (p *Plan) onDevice(c *config.Config, t planned, given int64) {
	p.Kernels, p.Memory = t.Kernels().String(), memoryOf(p.Device, given)
	if limit := int64(c.DeviceOptions.MemoryLimit); limit > 0 && strings.HasPrefix(p.Device, "cuda") {
		p.Memory = min(p.Memory, limit)
	}
	if err := t.Absent(); err != nil {
		p.Absent, p.Partly = err.Error(), t.Partly()
	}
}

// count counts the tokens of examples and returns the longest one; each is passed to see, unless see is nil.
func (p *Plan) count(
	by preparer, sample []dataset.Example, see func(i int, s *model.Sample),
) (longest *model.Sample, err error) {
	at := 0
	for part := range slices.Chunk(sample, runtime.GOMAXPROCS(0)) { // their pixels are not kept
		samples, err := prepareExamples(by, part)
		if err != nil {
			return nil, err
		}
		for _, s := range samples {
			n := len(s.IDs)
			if longest == nil || n > p.Tokens.Max {
				longest = s
			}
			p.Tokens.add(n, len(sample))
			if see != nil {
				see(at, s)
			}
			at++
		}
	}
	return longest, nil
}

// sharedEdits is the maximum number of edits that a plan counts in a group.
const sharedEdits = 16

// shared counts the tokens of the first group with several edits; nil if there is none, or groups are not kept whole.
func (m *ScorerModel) shared(sample []dataset.Example) (*SharedTokens, error) {
	if m.config.Data.Sampling != config.WholeGroups {
		return nil, nil
	}
	lo, hi := 0, 0
	for hi-lo < 2 && hi < len(sample) {
		for lo, hi = hi, hi+1; hi < len(sample) && hi-lo < sharedEdits && sample[hi].Group == sample[lo].Group; {
			hi++
		}
	}
	if hi-lo < 2 {
		return nil, nil
	}
	samples, err := prepareExamples(m.tuner, sample[lo:hi])
	if err != nil {
		return nil, err
	}
	s := &SharedTokens{Edits: hi - lo}
	if s.Together, s.OneByOne = m.tuner.Rows(samples); s.Together == s.OneByOne {
		s.Why = "no part of the prompt that includes a picture comes before the edit"
		if m.config.Judge == nil && m.config.Pair != model.Sequence {
			s.Why = fmt.Sprintf("pair: %s shows source and edit as one picture", m.config.Pair)
		}
	}
	return s, nil
}

// EnoughCPU is the number of tokens in a run of the graph above which matrix products on the CPU get no faster. A GPU
// runs what fits into its memory, up to [exec.MaxTokens].
const EnoughCPU = 2048

// fit chooses the micro-batch (unless given) and, with recompute: auto, the fewest layers to recompute with which it
// fits into memory: the first layers, whose activations would be kept longest. All layers cost the same. The choice
// does not change the results; if the memory is not known, all layers are recomputed. It returns p with the usage
// filled in.
func (m *graphModel[T]) fit(
	p *Plan, given, least int, usage func(n int) (exec.Usage, error), layers int,
) (*Plan, error) {
	auto := m.config.Recompute == config.RecomputeAuto
	if auto {
		m.tuner.RecomputeFirst(0)
	}
	var u exec.Usage
	var err error
	if p.MicroBatch = given; given > 0 {
		u, err = usage(given)
	} else {
		u, err = fitMicroBatch(m.config, p, least, usage)
	}
	if auto && err == nil {
		fits := func(n int) bool {
			if err == nil && n > 0 {
				m.tuner.RecomputeFirst(n)
				u, err = usage(p.MicroBatch)
			}
			return err != nil || n == layers || p.Memory > 0 && Total(u.Bytes) <= p.Memory/10*9
		}
		n := 0
		if !fits(0) {
			if n = 1 + sort.Search(layers-1, func(i int) bool { return fits(i + 1) }); err == nil {
				fits(n)
			}
		}
		m.recompute = &RecomputedLayers{First: n, Of: layers}
		p.Recompute = m.recompute
	}
	if err != nil {
		return nil, err
	}
	ort.ReserveArena(p.Device, u.Arena)
	p.Parameters, p.Trainable, p.Bytes, p.Host = u.Parameters, u.Trainable, u.Bytes, u.Host
	return p, nil
}

// fitMicroBatch chooses the number of samples per run of the graph, but at least least, unless it is configured:
// enough tokens for large matrix products, within nine tenths of the memory.
func fitMicroBatch(
	c *config.Config, p *Plan, least int, usage func(n int) (exec.Usage, error),
) (u exec.Usage, err error) {
	enough := EnoughCPU
	if strings.HasPrefix(p.Device, "cuda") && p.Memory > 0 {
		enough = exec.MaxTokens
	}
	most := min(max(1, int(float64(enough)/p.Tokens.Mean)), c.BatchSize)
	if c.MicroBatch != config.Auto {
		p.MicroBatch = max(min(int(c.MicroBatch), c.BatchSize), least)
		return usage(p.MicroBatch)
	}
	least = max(1, least)
	most = max(most, least)
	fits := func(n int) bool {
		if err == nil {
			p.MicroBatch = n
			u, err = usage(n)
		}
		return err != nil || p.Memory == 0 || Total(u.Bytes) <= p.Memory/10*9
	}
	if fits(most) || most == least {
		return u, err
	}
	if n := most - 1 - sort.Search(most-1-least, func(i int) bool { return fits(most - 1 - i) }); n != p.MicroBatch {
		fits(n)
	}
	return u, err
}

// Total returns the memory of all parts, in bytes.
func Total(bytes map[string]int64) (sum int64) {
	for _, b := range bytes {
		sum += b
	}
	return sum
}

// memoryOf returns the memory that a run may use: as given, of the named GPU, or of this machine; 0 if unknown.
func memoryOf(device string, given int64) int64 {
	if given > 0 {
		return given
	}
	if strings.HasPrefix(device, "cuda") {
		return freeMemory(device)
	}
	return mainMemory()
}

// freeMemory returns the free memory of a GPU in bytes; 0 if unknown.
func freeMemory(device string) int64 {
	found, err := ort.Devices()
	if err != nil {
		return 0
	}
	for _, d := range found {
		if d.Name == device {
			return d.Free
		}
	}
	return 0
}

// mainMemory returns the free memory in bytes: of the machine, or of the container if that is less. 0 if neither is
// known.
func mainMemory() int64 {
	free := int64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		free = available(string(text))
	}
	read := func(name string) (int64, bool) {
		text, err := os.ReadFile("/sys/fs/cgroup/" + name)
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // or the word max
		return n, err == nil
	}
	for _, names := range [][2]string{{"memory.max", "memory.current"},
		{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}} {
		most, ok := read(names[0])
		used, known := read(names[1])
		if ok && known && most < 1<<60 && (free == 0 || most-used < free) {
			free = max(most-used, 0)
		}
	}
	return free
}

// available finds MemAvailable in the text of /proc/meminfo, in bytes.
func available(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			if f := strings.Fields(rest); len(f) == 2 && f[1] == "kB" {
				n, _ := strconv.ParseInt(f[0], 10, 64)
				return n << 10
			}
		}
	}
	return 0
}

// held returns the memory that this process needs for trained tensors besides their values and a run's gradients: its
// share of the gradient sums and the optimizer state, and the buffers exchanged with other ranks.
func held(c *config.Config, params []nn.Param) (bytes int64) {
	var sizes []int64 // of temporary memory during an update
	for _, p := range params {
		kept, scratch := keeps(c, p.Shape)
		bytes += kept + 4*onnx.Elements(p.Shape)
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

// keeps returns the optimizer state of a tensor of that shape and the temporary memory of its update, in bytes.
func keeps(c *config.Config, shape []int64) (kept, scratch int64) {
	n := onnx.Elements(shape)
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

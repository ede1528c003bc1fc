package trainer

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"assay/model"
	"assay/ort"
)

// Expect tells the model what rows a plan is for.
func (m *scorerModel) Expect(rows, validation int) {
	m.pictures, m.scoring = 2*(rows+validation), validation > 0
	if m.config.Augment != "none" {
		m.pictures *= 8 // flips and quarter turns
	}
}

// ExpectGroup tells the model how many edits the largest group has: they are in one run of the graph.
func (m *scorerModel) ExpectGroup(edits int) { m.least = edits }

// Plan counts tokens, parameters and memory.
func (m *scorerModel) Plan(_ context.Context, sample []Example) (*Plan, error) {
	p := &Plan{Device: m.tuner.Device()}
	var longest *model.Sample
	for part := range slices.Chunk(sample, runtime.GOMAXPROCS(0)) { // their pixels are not kept
		samples, err := prepareExamples(m.tuner, part)
		if err != nil {
			return nil, err
		}
		for _, s := range samples {
			n := len(s.IDs)
			if longest == nil || n > p.Tokens.Max {
				longest = s
			}
			if p.Tokens.Min == 0 {
				p.Tokens.Min = n
			}
			p.Tokens.Min, p.Tokens.Max = min(p.Tokens.Min, n), max(p.Tokens.Max, n)
			p.Tokens.Mean += float64(n) / float64(len(sample))
		}
	}
	var err error
	if p.Shared, err = m.shared(sample); err != nil {
		return nil, err
	}
	p.Memory = m.memory()
	if err := m.tuner.Absent(); err != nil {
		p.Absent = err.Error()
	}
	u, err := m.fit(p, longest)
	if err != nil {
		return nil, err
	}
	p.Parameters, p.Trainable, p.Bytes = u.Parameters, u.Trainable, u.Bytes
	return p, nil
}

// sharedEdits bounds the edits of the group that a plan counts.
const sharedEdits = 16

// shared counts the tokens of the first group of several edits; nil if there is none, or groups are not kept whole.
func (m *scorerModel) shared(sample []Example) (*SharedTokens, error) {
	if m.config.Data.Sampling != WholeGroups {
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
		s.Why = "nothing of a prompt with a picture in it stands before the edit"
		if m.config.Judge == nil && m.config.Pair != model.Sequence {
			s.Why = fmt.Sprintf("pair: %s shows source and edit as one picture", m.config.Pair)
		}
	}
	return s, nil
}

// fit chooses the samples of a run of the graph, unless the configuration says: enough tokens for large matrix
// products, and no more than fits into nine tenths of the memory.
func (m *scorerModel) fit(p *Plan, longest *model.Sample) (u model.Usage, err error) {
	const enough = 2048
	n := min(max(1, int(enough/p.Tokens.Mean)), m.config.BatchSize)
	fixed := m.config.MicroBatch != Auto
	if fixed {
		n = min(int(m.config.MicroBatch), m.config.BatchSize)
	}
	n = max(n, m.least)
	for ; ; n-- {
		p.MicroBatch = n
		u, err = m.tuner.Usage(longest, n, m.pictures, m.scoring)
		if err != nil || fixed || n <= max(1, m.least) || p.Memory == 0 || total(u.Bytes) <= p.Memory/10*9 {
			return u, err
		}
	}
}

func total(bytes map[string]int64) (sum int64) {
	for _, b := range bytes {
		sum += b
	}
	return sum
}

// memory is what the run may use: of the GPU that was named, or of this machine's; 0 if it is not known.
func (m *scorerModel) memory() int64 {
	if m.given > 0 {
		return m.given
	}
	if strings.HasPrefix(m.tuner.Device(), "cuda") {
		return freeMemory(m.tuner.Device())
	}
	return mainMemory()
}

// freeMemory of a GPU in bytes; 0 where it is not known.
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

// mainMemory is the memory in bytes that processes may still take: of the machine, or of the container if that has
// less. 0 where neither is known.
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
	for _, names := range [][2]string{{"memory.max", "memory.current"}, {"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}} {
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

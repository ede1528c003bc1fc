// Package trial builds the small training problem that devices are checked with: a checkpoint with random weights, a
// scorer on it, four pairs of pictures, and ways of computing a step that should agree. Package doctor and lab/device
// compute it on a device and on the CPU and compare the results.
package trial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/lora"
	"assay/model"
	"assay/model/fresh"
	"assay/onnx"
)

// Pairs is the number of pairs per step.
const Pairs = 4

// Tolerances within which two ways of computing count as the same: for float32 with another order of additions, and
// for bfloat16, whose relative step is 2^-8.
const (
	CloseGradients, CloseLosses = 1e-3, 1e-4
	HalfGradients, HalfLosses   = 0.2, 0.05
)

// Way is one way of computing a step.
type Way struct {
	Device, DType string
	Recompute     bool
	Alone         bool   // pair by pair
	Kernels       string // see model.Options
	Profile       string
	OnGraph       func(graph string, m *onnx.Model)
}

func (w Way) String() string {
	text := w.Device + ", " + w.DType
	if w.Recompute {
		text += ", layers recomputed"
	}
	if w.Alone {
		text += ", pair by pair"
	}
	if w.Kernels != "" {
		text += ", " + w.Kernels + " kernels"
	}
	return text
}

// Options returns the session options of the way, with attention in blocks of that many queries unless pairs are
// computed one by one.
func (w Way) Options(blocks int) model.Options {
	if w.Alone {
		blocks = 0
	}
	return model.Options{Device: w.Device, Kernels: w.Kernels, Profile: w.Profile, OnGraph: w.OnGraph, Cache: 1 << 30,
		Blocks: blocks}
}

// Batches calls f with all samples together, or one by one, and with the index of the first.
func (w Way) Batches(samples []*model.Sample, f func(batch []*model.Sample, first int) error) error {
	size, first := len(samples), 0
	if w.Alone {
		size = 1
	}
	for batch := range slices.Chunk(samples, size) {
		if err := f(batch, first); err != nil {
			return err
		}
		first += len(batch)
	}
	return nil
}

// Labels returns the labels of n pairs, starting at pair first.
func Labels(first, n int) []float64 {
	labels := make([]float64, n)
	for i := range labels {
		labels[i] = float64(first+i) / Pairs
	}
	return labels
}

// text is the training text of a tokenizer.
const text = `How well was "make it brighter" done? It is. Rotate the picture, turn the cup blue, remove the sky.
Change the colour of the sky, add a hat, mirror it, and make the second picture darker than the first.
`

// Checkpoint creates a checkpoint with random weights that are exact in bfloat16, like most published weights.
func Checkpoint(dir string, sizes fresh.Sizes) error {
	words := dir + ".txt"
	if err := os.WriteFile(words, []byte(text), 0o666); err != nil {
		return err
	}
	if _, err := fresh.Create(dir, sizes, []string{words}, 1); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err == nil && len(files) == 0 {
		err = errors.New("the new checkpoint has no weights")
	}
	for _, f := range files {
		err = errors.Join(err, roundFile(f))
	}
	return err
}

// roundFile rounds the values of a safetensors file, which must all be float32, to bfloat16 in place.
func roundFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(raw) < 8 {
		return fmt.Errorf("%s is truncated", path)
	}
	for data := raw[8+binary.LittleEndian.Uint64(raw):]; len(data) >= 4; data = data[4:] {
		v := math.Float32frombits(binary.LittleEndian.Uint32(data))
		binary.LittleEndian.PutUint32(data, uint32(onnx.BFloat16Bits(v))<<16)
	}
	return os.WriteFile(path, raw, 0o666)
}

// Scorer creates the scorer that steps train. Its adapter is past initialization (B is not zero), so that all
// parameters have gradients.
func Scorer(backbone, dtype string) (*model.ScorerState, error) {
	c := (&model.OnePassConfig{
		Backbone:   backbone,
		Pair:       model.Sequence,
		Question:   `How well was "[INSTRUCTION]" done?`,
		Answer:     "It is [SCORE].",
		TextLoss:   "answer",
		ScoreRange: [2]float64{0, 10},
		DType:      dtype,
		// A ReLU that is on in one dtype and off in the other would not be a rounding difference.
		Head: model.HeadConfig{Hidden: []int{64}, Activation: "gelu", Kind: "regression"},
	}).Scorer()
	if err := c.Normalize(); err != nil {
		return nil, err
	}
	state, err := model.NewScorerState(c, Adapter(backbone), 1)
	if err == nil {
		FillB(state.Adapter)
	}
	return state, err
}

// Adapter returns the configuration of the scorers' adapters.
func Adapter(backbone string) *lora.Config {
	l := lora.NewConfig(8, 16, lora.Names{List: []string{"q_proj", "v_proj"}})
	l.Base = backbone
	return l
}

// FillB fills the matrices B of a fresh adapter, which are zero, with values.
func FillB(a *lora.Adapter) {
	for name, t := range a.Tensors {
		if strings.Contains(name, ".lora_B.") {
			for i, v := 0, t.Float32s(); i < len(v); i++ {
				v[i] = float32(0.01 * math.Sin(float64(i+len(name))))
			}
		}
	}
}

// Picture returns a different pattern for each number.
func Picture(n int) *data.Picture {
	p := data.NewPicture(112, 112)
	for i := range p.Pix {
		x, y := i/3%112, i/3/112
		p.Pix[i] = byte(128 + 100*math.Sin(float64(x*(n+1)+y*(i%3+2))/17))
	}
	return p
}

// Samples prepares the edits, all with the same source if they are a group.
func Samples(
	prepare func(*edit.Edit, model.Ask) (*model.Sample, error), group bool,
) (samples []*model.Sample, err error) {
	for i := range Pairs {
		source := Picture(2 * i)
		if group {
			source = Picture(0)
		}
		s, err := prepare(edit.New(source, Picture(2*i+1), "make it brighter"), model.Ask{})
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// Worse returns the larger of two differences; NaN counts as the largest finite number.
func Worse(a, b float64) float64 {
	if math.IsNaN(b) {
		return math.MaxFloat64
	}
	return min(max(a, b), math.MaxFloat64)
}

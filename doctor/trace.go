package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"assay/data"
	"assay/lora"
	"assay/model"
	"assay/onnx"
	"assay/optim"
)

// pairs is the number of pairs of a step.
const pairs = 4

// Within these a way of computing counts as the same: float32 in another order of additions, and bfloat16, whose steps
// are 2^-8.
const (
	closeGradients, closeLosses = 1e-3, 1e-4
	halfGradients, halfLosses   = 0.2, 0.05
)

// way is one way of computing a step.
type way struct {
	device, dtype string
	recompute     bool
	alone         bool // pair by pair
	profile       string
	opened        func(graph string, m *onnx.Model)
	steps         int
}

func (w way) String() string {
	text := w.device + ", " + w.dtype
	if w.recompute {
		text += ", layers recomputed"
	}
	if w.alone {
		text += ", pair by pair"
	}
	return text
}

// traced is what some steps gave.
type traced struct {
	losses    []float64
	gradients map[string][]float32 // of the first two steps, as "step N: parameter"
	seconds   []float64
	tokens    int // of a step
	plan      model.Usage
	used      int64 // of a GPU's memory, while its sessions are open
	trainable int64
}

// Compared is a trace beside the reference.
type Compared struct {
	Way       string    `json:"way"`
	Gradients float64   `json:"gradients"` // largest difference of a gradient of the first two steps, of its largest value
	Worst     string    `json:"worst"`     // that step and parameter
	Loss      float64   `json:"loss"`      // largest relative difference of any step's loss
	Losses    []float64 `json:"losses"`
	Same      bool      `json:"same"` // within what the type allows
}

// ways are those that are held against the reference: the device's, and on the CPU independent orders of computing.
func (d *doctor) ways() []way {
	if d.cuda() {
		return []way{
			{device: d.Device, dtype: "float32"},
			{device: d.Device, dtype: "float32", recompute: true},
			{device: d.Device, dtype: "bfloat16"},
		}
	}
	return []way{
		{device: "cpu", dtype: "float32", recompute: true},
		{device: "cpu", dtype: "float32", alone: true},
	}
}

// trace runs steps in all ways and compares them.
func (d *doctor) trace(ctx context.Context) error {
	reference := way{device: "cpu", dtype: "float32"}
	d.Reference = reference.String()
	d.o.Note("training on " + d.Reference)
	before := d.memoryBefore("cpu")
	want, err := d.train(ctx, reference)
	if err != nil {
		return err
	}
	d.Model.Trainable, d.Model.Parameters, d.Model.Batch = want.trainable, want.plan.Parameters, pairs
	if !d.cuda() {
		d.memoryAfter(before, want)
		d.speed(reference, want)
		d.Notes = append(d.Notes, "the CPU computes bfloat16 in float32: there is nothing to compare")
	}
	for i, w := range d.ways() {
		d.o.Note("training on " + w.String())
		before := d.memoryBefore(w.device)
		got, err := d.train(ctx, w)
		if err != nil {
			d.problem("%v: %v", w, err)
			continue
		}
		if d.cuda() {
			if i == 0 {
				d.memoryAfter(before, got)
			}
			d.speed(w, got)
		}
		c := compare(want, got)
		c.Way = w.String()
		gradients, losses := closeGradients, closeLosses
		if w.dtype == "bfloat16" {
			gradients, losses = halfGradients, halfLosses
		}
		if c.Same = c.Gradients <= gradients && c.Loss <= losses; !c.Same {
			d.problem("%s: gradients differ by %.1e (%s), losses by %.1e", c.Way, c.Gradients, c.Worst, c.Loss)
		}
		d.Traces = append(d.Traces, c)
	}
	return nil
}

// compare holds a trace against another. What is not finite is infinitely far, and so is what is not zero where the
// reference is, as LoRA's A in the first step while B is zero: there the products are zero in any order and type.
func compare(want, got *traced) (c Compared) {
	c.Losses = got.losses
	for i, l := range want.losses {
		c.Loss = worse(c.Loss, math.Abs(got.losses[i]-l)/math.Abs(l))
	}
	for name, a := range want.gradients {
		largest, most := 0.0, 0.0
		b := got.gradients[name]
		if len(b) != len(a) {
			return Compared{Losses: c.Losses, Loss: c.Loss, Gradients: math.MaxFloat64, Worst: name}
		}
		for i, v := range a {
			largest = max(largest, math.Abs(float64(v)))
			most = worse(most, math.Abs(float64(v)-float64(b[i])))
		}
		far := most / largest
		if largest == 0 && most == 0 {
			far = 0
		}
		if !(far <= c.Gradients) || c.Worst == "" {
			c.Gradients, c.Worst = worse(c.Gradients, far), name
		}
	}
	return c
}

func worse(a, b float64) float64 {
	if math.IsNaN(b) {
		return math.MaxFloat64
	}
	return min(max(a, b), math.MaxFloat64)
}

// open makes the tuner of a way, the same at each call.
func (d *doctor) open(w way) (*model.Tuner, []*model.Sample, error) {
	c := &model.ScorerConfig{Format: 1, Backbone: d.o.Backbone, Pair: model.Sequence,
		Question: `How well was "[INSTRUCTION]" done?`, Answer: "It is [SCORE].", TextLoss: "answer",
		ScoreRange: [2]float64{0, 10}, DType: w.dtype,
		Head: model.HeadConfig{Hidden: []int{64}, Activation: "relu", Kind: "regression"}}
	if err := c.Normalize(); err != nil {
		return nil, nil, err
	}
	l := lora.NewConfig(8, 16, lora.Names{List: []string{"q_proj", "v_proj"}})
	l.Base = d.o.Backbone
	state, err := model.NewScorerState(c, l, 1)
	if err != nil {
		return nil, nil, err
	}
	t, err := model.NewTuner(state, model.TuneOptions{
		Options:  model.Options{Device: w.device, Profile: w.profile, Opened: w.opened, Cache: 1 << 30},
		TextLoss: 1, ScoreLoss: 10, Recompute: w.recompute, Fixed: d.cuda(),
	})
	if err != nil {
		return nil, nil, err
	}
	var samples []*model.Sample
	for i := range pairs {
		source, edit := picture(2*i), picture(2*i+1)
		s, err := t.Prepare(model.Pair{Source: source, Edit: edit, Instruction: "make it brighter"})
		if err != nil {
			t.Close()
			return nil, nil, err
		}
		samples = append(samples, s)
	}
	return t, samples, nil
}

// picture is a pattern of its own for each number.
func picture(n int) *data.Picture {
	p := data.NewPicture(112, 112)
	for i := range p.Pix {
		x, y := i/3%112, i/3/112
		p.Pix[i] = byte(128 + 100*math.Sin(float64(x*(n+1)+y*(i%3+2))/17))
	}
	return p
}

// train runs the steps of a way.
func (d *doctor) train(ctx context.Context, w way) (*traced, error) {
	t, samples, err := d.open(w)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	d.Model.Tokens = len(samples[0].IDs)
	micro, steps := pairs, d.o.Steps
	if w.alone {
		micro = 1
	}
	if w.steps > 0 {
		steps = w.steps
	}
	out := &traced{gradients: map[string][]float32{}}
	if out.plan, err = t.Usage(samples[0], micro, 2*pairs, false); err != nil {
		return nil, err
	}
	out.trainable = out.plan.Trainable
	params := optim.NewParams(t.Params())
	update := optim.NewAdamW(params, [2]float64{0.9, 0.999}, 1e-8, 0)
	for step := range steps {
		begin := time.Now()
		grads := make([][]float32, len(params))
		loss, at := 0.0, 0
		out.tokens = 0
		for part := range slices.Chunk(samples, micro) {
			labels := make([]float64, len(part))
			for i := range labels {
				labels[i] = float64(at+i) / pairs
			}
			at += len(part)
			r, err := t.Step(ctx, part, labels, 1.0/pairs, 0)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", step+1, err)
			}
			out.tokens += r.Tokens
			for _, l := range r.Loss {
				loss += l / pairs
			}
			for i, g := range optim.Gradients(params, r.Grads) {
				grads[i] = sum(grads[i], g.Data().([]float32))
			}
		}
		if step < 2 { // LoRA's A has gradients from the second on, when B is not zero any more
			for i, p := range params {
				out.gradients[fmt.Sprintf("step %d: %s", step+1, p.Name)] = slices.Clone(grads[i])
			}
		}
		update.Update(params, grads, 1e-3)
		out.losses = append(out.losses, loss)
		out.seconds = append(out.seconds, time.Since(begin).Seconds())
	}
	if w.device != "cpu" {
		out.used = usedOnGPU(w.device)
	}
	return out, nil
}

func sum(a, b []float32) []float32 {
	if a == nil {
		return slices.Clone(b)
	}
	for i, v := range b {
		a[i] += v
	}
	return a
}

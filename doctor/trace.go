package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"assay/data"
	"assay/model"
	"assay/onnx"
	"assay/optim"
)

// pairs is the number of pairs of a step.
const pairs = 4

// Within these a way of computing counts as the same: float32 in another order of additions, and bfloat16, whose steps
// are 2^-8. There the single gradient says little: one that is a small difference of large numbers may be off by its
// own size. What counts is the distance of all gradients together; in the parts, that of each tensor's.
const (
	closeGradients, closeLosses = 1e-3, 1e-4
	halfGradients, halfLosses   = 0.2, 0.05
	halfDistance                = 0.1
)

// rate is the learning rate of the traces: small steps, so that types part slowly.
const rate = 1e-4

// way is one way of computing a step.
type way struct {
	device, dtype string
	recompute     bool
	alone         bool // pair by pair
	profile       string
	onGraph       func(graph string, m *onnx.Model)
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
	gradients map[string][]float32 // of the first step, by parameter
	seconds   []float64
	tokens    int // of a step
	plan      model.Usage
	used      int64 // of a GPU's memory, while its sessions are open
	trainable int64
}

// Compared is a trace beside the reference.
type Compared struct {
	Way       string  `json:"way"`
	Gradients float64 `json:"gradients"` // largest difference of a tensor's first gradient, of its largest value
	Worst     string  `json:"worst"`     // that parameter
	Distance  float64 `json:"distance"`  // of all first gradients together from the reference's, of their norm
	// Loss is the largest difference of any step's loss, of that loss or a tenth of the first one, if that is larger.
	Loss   float64   `json:"loss"`
	Losses []float64 `json:"losses"`
	Same   bool      `json:"same"` // within what the type allows
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
		c.Same = c.Gradients <= closeGradients && c.Loss <= closeLosses
		if w.dtype == "bfloat16" {
			c.Same = c.Distance <= halfDistance && c.Loss <= halfLosses
		}
		if !c.Same {
			d.problem("%s: gradients differ by %.1e of their norm, at most by %.1e (%s), losses by %.1e", c.Way, c.Distance,
				c.Gradients, c.Worst, c.Loss)
		}
		d.Traces = append(d.Traces, c)
	}
	return nil
}

// compare holds a trace against another. What is not finite is infinitely far, and so is what is not zero where the
// reference is: there the products are zero in any order and type.
func compare(want, got *traced) (c Compared) {
	c.Losses = got.losses
	for i, l := range want.losses {
		c.Loss = worse(c.Loss, math.Abs(got.losses[i]-l)/max(math.Abs(l), math.Abs(want.losses[0])/10))
	}
	var difference, size float64
	for name, a := range want.gradients {
		largest, most := 0.0, 0.0
		b := got.gradients[name]
		if len(b) != len(a) {
			return Compared{Losses: c.Losses, Loss: c.Loss, Gradients: math.MaxFloat64, Distance: math.MaxFloat64, Worst: name}
		}
		for i, v := range a {
			largest = max(largest, math.Abs(float64(v)))
			most = worse(most, math.Abs(float64(v)-float64(b[i])))
			size += float64(v) * float64(v)
			difference += (float64(v) - float64(b[i])) * (float64(v) - float64(b[i]))
		}
		far := most / largest
		if largest == 0 && most == 0 {
			far = 0
		}
		if !(far <= c.Gradients) || c.Worst == "" {
			c.Gradients, c.Worst = worse(c.Gradients, far), name
		}
	}
	if difference != 0 {
		c.Distance = worse(0, math.Sqrt(difference/size))
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
	state, err := scorer(d.o.Backbone, w.dtype)
	if err != nil {
		return nil, nil, err
	}
	t, err := model.NewTuner(state, model.TuneOptions{
		Options:   w.of(0),
		TextLoss:  1,
		ScoreLoss: 10,
		Recompute: w.recompute,
		Fixed:     d.cuda(),
		Resident:  w.resident(),
	})
	if err != nil {
		return nil, nil, err
	}
	samples, err := prepare(t.Prepare, false)
	if err != nil {
		t.Close()
		return nil, nil, err
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
	grads := newSums(t.Params())
	update := optim.NewAdamW(grads.params, [2]float64{0.9, 0.999}, 1e-8, 0)
	for step := range steps {
		begin := time.Now()
		loss, tokens, err := traceStep(ctx, t, w, samples, micro, grads)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step+1, err)
		}
		if step == 0 {
			for i, p := range grads.params {
				out.gradients[p.Name] = slices.Clone(grads.values[i])
			}
		}
		update.Update(grads.params, grads.values, rate)
		out.losses, out.tokens = append(out.losses, loss), tokens
		out.seconds = append(out.seconds, time.Since(begin).Seconds())
	}
	if w.device != "cpu" {
		out.used = usedOnGPU(w.device)
	}
	return out, nil
}

// resident tells whether a way keeps parameters and the sums of gradients on the device, as training does.
func (w way) resident() bool { return strings.HasPrefix(w.device, "cuda") }

// traceStep computes the gradients of a step over all pairs, and their mean loss.
func traceStep(ctx context.Context, t *model.Tuner, w way, samples []*model.Sample, micro int, grads *sums) (
	loss float64, tokens int, err error) {
	grads.clear()
	if w.resident() {
		if err := t.Begin(ctx); err != nil {
			return 0, 0, err
		}
	}
	at := 0
	for part := range slices.Chunk(samples, micro) {
		labels := make([]float64, len(part))
		for i := range labels {
			labels[i] = float64(at+i) / pairs
		}
		at += len(part)
		r, err := t.Step(ctx, part, labels, 1.0/pairs, 0)
		if err != nil {
			return 0, 0, err
		}
		tokens += r.Tokens
		for _, l := range r.Loss {
			loss += l / pairs
		}
		if !w.resident() {
			grads.add(optim.Gradients(grads.params, r.Grads))
		}
	}
	if w.resident() {
		err = t.Sums(ctx, grads.values)
	}
	return loss, tokens, err
}

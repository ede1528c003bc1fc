package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/doctor/trial"
	"assay/internal/optim"
	"assay/model"
	"assay/model/exec"
	"assay/ort"
)

// halfDistance is the largest allowed distance of all bfloat16 gradients together. A single gradient says little: one
// that is a small difference of large numbers may be off by its own size.
const halfDistance = 0.1

// rate is the learning rate of the traces: small, so that dtypes diverge slowly.
const rate = 1e-4

// steps holds the losses of some training steps and the gradients of the first.
type steps struct {
	losses    []float64
	gradients map[string][]float32 // of the first step, by parameter
	plan      exec.Usage
	used      int64 // GPU memory in bytes, while the sessions are open
}

// Trace compares one way of computing with the reference.
type Trace struct {
	Way       string  `json:"way"`
	Gradients float64 `json:"gradients"` // largest difference in a tensor's first gradient, relative to its largest value
	Worst     string  `json:"worst"`     // the parameter with that difference
	Distance  float64 `json:"distance"`  // of all first gradients together from the reference's, relative to their norm
	// Loss is the largest difference of any step's loss, relative to that loss or to a tenth of the first loss,
	// whichever is larger.
	Loss   float64   `json:"loss"`
	Losses []float64 `json:"losses"`
	Same   bool      `json:"same"` // within the tolerance of the dtype
}

// ways returns the ways of computing that are compared with the reference: those of a GPU, or on the CPU independent
// orders of computation.
func (d *doctor) ways() []trial.Way {
	if d.cuda() {
		ways := []trial.Way{
			{Device: d.Device, DType: "float32"},
			{Device: d.Device, DType: "float32", Recompute: true},
			{Device: d.Device, DType: "bfloat16"}, // with the kernels that training uses
		}
		if n, err := ort.FusedKernels(d.Device); err != nil || n == 0 {
			d.Notes = append(d.Notes, "no trace of fused kernels: `make cuda-ops` compiles them")
			return ways
		}
		return append(ways, trial.Way{Device: d.Device, DType: "bfloat16", Kernels: exec.KernelsPlain})
	}
	ways := []trial.Way{
		{Device: "cpu", DType: "float32", Recompute: true},
		{Device: "cpu", DType: "float32", Alone: true},
	}
	if _, err := ort.FusedLibrary(); err != nil {
		d.Notes = append(d.Notes, "no trace of fused kernels: "+err.Error())
		return ways
	}
	return append(ways, trial.Way{Device: "cpu", DType: "float32", Kernels: exec.KernelsFused})
}

// trace runs steps in all ways and compares them.
func (d *doctor) trace(ctx context.Context) error {
	reference := trial.Way{Device: "cpu", DType: "float32"}
	d.Reference = reference.String()
	d.o.Note("training on " + d.Reference)
	before := d.memoryBefore("cpu")
	want, err := d.train(ctx, reference)
	if err != nil {
		return err
	}
	d.Model.Trainable, d.Model.Parameters, d.Model.Batch = want.plan.Trainable, want.plan.Parameters, trial.Pairs
	if !d.cuda() {
		d.memoryAfter(before, want)
		d.Notes = append(d.Notes, "the CPU computes bfloat16 in float32, so bfloat16 is not compared")
	}
	for i, w := range d.ways() {
		d.o.Note("training on " + w.String())
		before := d.memoryBefore(w.Device)
		got, err := d.train(ctx, w)
		if err != nil {
			d.problem("%v: %v", w, err)
			continue
		}
		if d.cuda() && i == 0 {
			d.memoryAfter(before, got)
		}
		c := compare(want, got)
		c.Way = w.String()
		c.Same = c.Gradients <= trial.CloseGradients && c.Loss <= trial.CloseLosses
		if w.DType == "bfloat16" {
			c.Same = c.Distance <= halfDistance && c.Loss <= trial.HalfLosses
		}
		if !c.Same {
			d.problem("%s: gradients differ by %.1e of their norm, at most by %.1e (%s), losses by %.1e", c.Way, c.Distance,
				c.Gradients, c.Worst, c.Loss)
		}
		d.Traces = append(d.Traces, c)
	}
	return nil
}

// compare compares two runs. A value that is not finite counts as infinitely far, and so does a nonzero gradient
// tensor whose reference is all zero: such products are zero in any order and dtype.
func compare(want, got *steps) (c Trace) {
	c.Losses = got.losses
	for i, l := range want.losses {
		c.Loss = trial.Worse(c.Loss, math.Abs(got.losses[i]-l)/max(math.Abs(l), math.Abs(want.losses[0])/10))
	}
	var difference, size float64
	for name, a := range want.gradients {
		largest, most := 0.0, 0.0
		b := got.gradients[name]
		if len(b) != len(a) {
			return Trace{Losses: c.Losses, Loss: c.Loss, Gradients: math.MaxFloat64, Distance: math.MaxFloat64, Worst: name}
		}
		for i, v := range a {
			largest = max(largest, math.Abs(float64(v)))
			most = trial.Worse(most, math.Abs(float64(v)-float64(b[i])))
			size += float64(v) * float64(v)
			difference += (float64(v) - float64(b[i])) * (float64(v) - float64(b[i]))
		}
		far := most / largest
		if largest == 0 && most == 0 {
			far = 0
		}
		if !(far <= c.Gradients) || c.Worst == "" {
			c.Gradients, c.Worst = trial.Worse(c.Gradients, far), name
		}
	}
	if difference != 0 {
		c.Distance = trial.Worse(0, math.Sqrt(difference/size))
	}
	return c
}

// open creates the tuner and samples of a way, the same at each call.
func (d *doctor) open(w trial.Way) (*model.Tuner, []*model.Sample, error) {
	state, err := trial.Scorer(d.o.Backbone, w.DType)
	if err != nil {
		return nil, nil, err
	}
	t, err := model.NewTuner(state, model.TuneOptions{
		Options:   w.Options(0),
		TextLoss:  1,
		ScoreLoss: 10,
		Recompute: w.Recompute,
		Fixed:     d.cuda(),
		Resident:  resident(w),
	})
	if err != nil {
		return nil, nil, err
	}
	samples, err := trial.Samples(t.Sample, false)
	if err != nil {
		t.Close()
		return nil, nil, err
	}
	return t, samples, nil
}

// train runs the steps of a way.
func (d *doctor) train(ctx context.Context, w trial.Way) (*steps, error) {
	t, samples, err := d.open(w)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	d.Model.Tokens = len(samples[0].IDs)
	micro := trial.Pairs
	if w.Alone {
		micro = 1
	}
	if w.Device == d.Device && w.Kernels == "" {
		d.Kernels = t.Kernels().String()
	}
	out := &steps{gradients: map[string][]float32{}}
	if out.plan, err = t.Usage(samples[0], micro, 2*trial.Pairs, false); err != nil {
		return nil, err
	}
	ort.ReserveArena(w.Device, out.plan.Arena)
	grads := trial.NewSums(t.Params())
	update := optim.NewAdamW(grads.Params, [2]float64{0.9, 0.999}, 1e-8, 0)
	for step := range d.o.Steps {
		loss, err := traceStep(ctx, t, w, samples, grads)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step+1, err)
		}
		if step == 0 {
			for i, p := range grads.Params {
				out.gradients[p.Name] = slices.Clone(grads.Values[i])
			}
		}
		update.Update(grads.Params, grads.Values, rate)
		out.losses = append(out.losses, loss)
	}
	if w.Device != "cpu" {
		out.used = usedOnGPU(w.Device)
	}
	return out, nil
}

// resident reports whether parameters and accumulated gradients stay on the device, as in training.
func resident(w trial.Way) bool { return strings.HasPrefix(w.Device, "cuda") }

// traceStep computes the gradients of a step over all pairs, and their mean loss.
func traceStep(ctx context.Context, t *model.Tuner, w trial.Way, samples []*model.Sample, grads *trial.Sums) (
	loss float64, err error) {
	grads.Clear()
	if resident(w) {
		if err := t.Begin(ctx); err != nil {
			return 0, err
		}
	}
	err = w.Batches(samples, func(batch []*model.Sample, first int) error {
		r, err := t.Step(ctx, batch, model.StepInput{Labels: trial.Labels(first, len(batch)), Weight: 1.0 / trial.Pairs})
		if err != nil {
			return err
		}
		for _, l := range r.Loss {
			loss += l / trial.Pairs
		}
		if !resident(w) {
			grads.Add(optim.Gradients(grads.Params, r.Grads))
		}
		return nil
	})
	if err == nil && resident(w) {
		err = t.Sums(ctx, grads.Values)
	}
	return loss, err
}

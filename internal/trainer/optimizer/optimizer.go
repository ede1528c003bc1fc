// Package optimizer updates the parameters of a run. An Optimizer sums the gradients of micro-batches, clips them,
// and applies them by parameter groups, each with its own learning rate, weight decay and schedule.
package optimizer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/optim"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
	"assay/internal/workers"
)

// Optimizer holds the trained parameters, their gradient sums over a batch, and the optimizer state. If there are
// several processes, each may own a part of the elements, and only updates that part.
type Optimizer struct {
	config *config.Config
	Params []optim.Param     // all trained parameters
	owned  []optim.Param     // updated by this process: parameters, or slices of them
	Groups optim.ParamGroups // of owned, with their own learning rates
	Grads  [][]float32       // of owned
	Steps  int64             // of the run, for the schedule

	accumulator Accumulator // the model, if it sums gradients itself; nil: the optimizer does
	released    int64       // bytes of gradients dropped since the last garbage collection
}

// New creates the optimizer of a model's parameters; this process updates owned.
func New(c *config.Config, model any, params, owned []optim.Param) (*Optimizer, error) {
	groups, err := newGroupsOf(c, params, owned)
	o := &Optimizer{config: c, Params: params, owned: owned, Groups: groups}
	if a, ok := model.(Accumulator); ok && a.Accumulates() {
		o.accumulator = a
	}
	return o, err
}

// MakeGrads allocates the gradient sums.
func (o *Optimizer) MakeGrads() {
	o.Grads = nil
	for _, p := range o.owned {
		o.Grads = append(o.Grads, make([]float32, len(p.Floats())))
	}
}

// Rates returns the learning rates of the groups in the current step, and records them in the metrics.
func (o *Optimizer) Rates(
	m *records.StepMetrics, step int64, plateaus map[string]*optim.PlateauState,
) (each []float64) {
	at := func(group string) float64 {
		c := o.config.CourseOf(group, o.Steps)
		if p := plateaus[o.config.OwnerOf(group)]; p != nil {
			c.Cuts = p.Cuts
		}
		return c.LR(step)
	}
	m.LR = at(config.OtherGroup)
	for i := range o.Groups {
		name := o.Groups[i].Name
		each = append(each, at(name))
		if name != config.OtherGroup {
			if m.LRs == nil {
				m.LRs = records.Rates{}
			}
			m.LRs[name] = each[i]
		}
	}
	return each
}

// Begin starts a step with zero gradients.
func (o *Optimizer) Begin(ctx context.Context) error {
	if a := o.accumulator; a != nil {
		return a.Begin(ctx)
	}
	for i := range o.Grads {
		clear(o.Grads[i])
	}
	return nil
}

// Check returns an error if the model's gradients do not match the parameters.
func (o *Optimizer) Check(grads []*tensor.Dense) error {
	want := len(o.Params)
	if o.accumulator != nil {
		want = 0
	}
	if len(grads) != want {
		return fmt.Errorf("the model returned %d gradients for %d parameters", len(grads), len(o.Params))
	}
	for i, g := range grads {
		if g == nil || len(g.Float32s()) != len(o.Params[i].Floats()) {
			return fmt.Errorf("the gradient of %s does not have the shape of the parameter", o.Params[i].Name)
		}
	}
	return nil
}

// Add adds a micro-batch's gradients to the sums of the batch.
func (o *Optimizer) Add(grads []*tensor.Dense) {
	workers.Do(len(grads), func(i int) {
		sum := o.Grads[i]
		for j, v := range grads[i].Float32s() {
			sum[j] += v
		}
	})
}

// minReleased is the number of bytes of dropped gradients that is worth a garbage collection.
const minReleased = 8 << 20

// Release drops a micro-batch's gradients after they were summed, and triggers a garbage collection once enough of
// them are dropped. By itself, the garbage collector would wait until they are as large as the whole live heap:
// parameters, sums and moments.
func (o *Optimizer) Release(grads *[]*tensor.Dense) {
	if len(*grads) == 0 {
		return
	}
	var bytes int64
	for _, g := range *grads {
		bytes += 4 * int64(g.DataSize())
	}
	*grads = nil
	if o.released += bytes; o.released >= max(minReleased, 2*bytes) {
		runtime.GC()
		o.released = 0
	}
}

// Sum fetches the gradient sums if the model has them, and returns their norm.
func (o *Optimizer) Sum(ctx context.Context) (norm float64, err error) {
	if a := o.accumulator; a != nil {
		if err := a.Sums(ctx, o.Grads); err != nil {
			return 0, err
		}
	}
	return optim.Root(optim.Squares(o.Grads)), nil
}

// Apply clips the gradients by their norm, and updates the parameters.
func (o *Optimizer) Apply(norm float64, rates []float64) {
	optim.Clip(o.Grads, norm, o.config.ClipNorm)
	o.Groups.Update(o.owned, o.Grads, rates)
}

// Accumulator is a model that may keep parameters and gradient sums on its device. Step then returns no gradients.
type Accumulator interface {
	// Accumulates reports whether it does.
	Accumulates() bool
	// Begin starts an optimizer step with the current parameters and zero gradients.
	Begin(ctx context.Context) error
	// Sums copies the gradient sums since Begin into into, in the order of Params. Gradients are added in the order
	// of the calls.
	Sums(ctx context.Context, into [][]float32) error
}

// Exchanged is the number of elements that ranks exchange at a time.
const Exchanged = 4 << 20

// Restore copies a checkpoint's tensors into the parameters and the optimizer: the slices of this process; tensors is
// the number of tensors in all.
func (o *Optimizer) Restore(dir string, here []checkpoint.Slice, tensors int, updates int64) error {
	f, err := checkpoints.OpenFile(filepath.Join(dir, checkpoint.TensorFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range here {
		if err := here[i].Read(f); err != nil {
			return err
		}
	}
	if n := len(f.Names()); n != tensors {
		return fmt.Errorf("%s: has %d tensors, but the model has %d parameters: it is from a different model", f.Path(), n,
			len(o.Params))
	}
	o.Groups.SetUpdates(updates)
	return nil
}

// Tensors lists the tensors of a checkpoint that this process has; that may be only a part of the optimizer state.
func (o *Optimizer) Tensors() []checkpoint.Slice {
	var out []checkpoint.Slice
	for _, p := range o.Params {
		out = append(out, checkpoint.NewSlice("parameter/"+p.Name, p.Value.Shape(), 0, p.Floats(), nil))
	}
	for _, s := range o.Groups.State() {
		out = append(out, checkpoint.NewSlice(s.Kind+"/"+o.owned[s.Param].Name, s.Shape, s.First, s.Values, s.Bytes))
	}
	return out
}

// Digest hashes all parameters.
func (o *Optimizer) Digest() (map[string]string, error) {
	h, b := sha256.New(), make([]byte, 0, 4<<12)
	for _, p := range o.Params {
		for part := range slices.Chunk(p.Floats(), 1<<12) {
			b = b[:0]
			for _, v := range part {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
			h.Write(b)
		}
	}
	return map[string]string{"parameters": hex.EncodeToString(h.Sum(nil))[:32]}, nil
}

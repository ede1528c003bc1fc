package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorgonia.org/tensor"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// On a device other than the host, most copying is feeding parameters to every run and fetching gradients from every
// run. So they may stay on the device. Parameters are uploaded once per optimizer step, graphs add their gradients to
// sums on the device, and the sums are downloaded once. They are added in the order of the runs, so that they equal,
// bit for bit, the sums that the host would compute.

// aligned is the alignment of tensors in elements: 256 bytes, as of CUDA's allocations.
const aligned = 64

// transferred is the number of elements per transfer.
const transferred = 16 << 20

// Residence is device memory that holds parameters and the sums of their gradients.
type Residence struct {
	params []nn.Param // in the order of Params
	first  []int64    // first element of each; element 0 is a zero
	size   int64      // elements of all parameters, with the gaps between them
	memory *ort.Memory
	stage  *ort.HostBuffer // a part on its way to or from the device
	views  []*ort.View     // all, to be freed
	values map[string]*ort.View
	sums   map[string]*ort.View
	zeros  map[int]*ort.View // by rank
	summed map[string]bool   // since Begin
	begun  bool
}

// newResidence lays out memory for parameters; it is allocated when the first step begins.
func newResidence(params []nn.Param) *Residence {
	r := &Residence{params: params, size: aligned}
	for _, p := range params {
		r.first = append(r.first, r.size)
		r.size += (onnx.Elements(p.Shape) + aligned - 1) / aligned * aligned
	}
	return r
}

// open allocates the memory.
func (r *Residence) open(device string) (err error) {
	if r.memory != nil {
		return nil
	}
	if r.memory, err = ort.NewMemory(device, 4*2*r.size); err != nil {
		return fmt.Errorf("device memory for parameters and sums of gradients: %w", err)
	}
	r.stage = ort.NewHostBuffer(device, int(min(r.size, transferred)))
	r.values, r.sums, r.zeros = map[string]*ort.View{}, map[string]*ort.View{}, map[int]*ort.View{}
	for i, p := range r.params {
		if r.values[p.Name], err = r.view(r.first[i], p.Shape...); err != nil {
			return err
		}
		if r.sums[p.Name], err = r.view(r.size+r.first[i], p.Shape...); err != nil {
			return err
		}
		one := slices.Repeat([]int64{1}, len(p.Shape))
		if r.zeros[len(one)] == nil {
			if r.zeros[len(one)], err = r.view(0, one...); err != nil {
				return err
			}
		}
	}
	return nil
}

// view makes a tensor over the elements starting at at.
func (r *Residence) view(at int64, shape ...int64) (*ort.View, error) {
	v, err := r.memory.View(4*at, onnx.Float, shape...)
	if err == nil {
		r.views = append(r.views, v)
	}
	return v, err
}

// each iterates over all elements in parts: copying is called for every range of a parameter in a part, from lo to hi-1
// of its elements.
func (r *Residence) each(
	ctx context.Context, transfer func(at int64, part []float32) error, copying func(i int, lo, hi int64, part []float32),
	before bool,
) error {
	for at := int64(0); at < r.size; at += transferred {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		part := r.stage.Values()[:min(r.size-at, transferred)]
		clear(part)
		if !before {
			if err := transfer(at, part); err != nil {
				return err
			}
		}
		for i, p := range r.params {
			from, n := r.first[i], onnx.Elements(p.Shape)
			if lo, hi := max(at, from), min(at+int64(len(part)), from+n); lo < hi {
				copying(i, lo-from, hi-from, part[lo-at:hi-at])
			}
		}
		if before {
			if err := transfer(at, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin uploads the current parameters and resets the sums.
func (r *Residence) begin(ctx context.Context, value func(name string) *tensor.Dense) error {
	r.begun, r.summed = false, map[string]bool{}
	err := r.each(ctx, func(at int64, part []float32) error { return r.memory.Write(4*at, part) },
		func(i int, lo, hi int64, part []float32) {
			copy(part, value(r.params[i].Name).Data().([]float32)[lo:hi])
		}, true)
	r.begun = err == nil
	return err
}

// fetch downloads the sums, in the order of the parameters; zeros if nothing was added.
func (r *Residence) fetch(ctx context.Context, into [][]float32) error {
	if !r.begun || len(into) != len(r.params) {
		return fmt.Errorf("no sums of %d gradients: the step was not started with Begin, or it failed", len(into))
	}
	err := r.each(ctx, func(at int64, part []float32) error { return r.memory.Read(4*(r.size+at), part) },
		func(i int, lo, hi int64, part []float32) { copy(into[i][lo:hi], part) }, false)
	for i, p := range r.params {
		if !r.summed[p.Name] {
			clear(into[i])
		}
	}
	return err
}

// run runs a session that sums gradients; some of its inputs are on the device.
func (r *Residence) run(
	ctx context.Context, on *Session, in map[string]*tensor.Dense, more map[string]*ort.View,
) (map[string]*tensor.Dense, error) {
	if !r.begun {
		return nil, errors.New("a step whose gradients are summed on the device must start with Begin")
	}
	views := ort.Views{In: map[string]*ort.View{}, Out: map[string]*ort.View{}}
	maps.Copy(views.In, more)
	for _, p := range on.Params {
		views.In[p.Name] = r.values[p.Name]
		views.In[nn.OfSum+p.Name] = r.zeros[len(p.Shape)]
		if r.summed[p.Name] {
			views.In[nn.OfSum+p.Name] = r.sums[p.Name]
		}
		views.Out[nn.OfSummed+p.Name] = r.sums[p.Name]
	}
	out, err := on.RunWith(ctx, in, nil, views)
	if err != nil { // some of the sums may have changed
		r.begun = false
		return nil, err
	}
	for _, p := range on.Params {
		r.summed[p.Name] = true
	}
	return out, nil
}

func (r *Residence) close() error {
	if r == nil || r.memory == nil {
		return nil
	}
	for _, v := range r.views {
		v.Free()
	}
	return errors.Join(r.memory.Close(), r.stage.Close())
}

// addTo declares the sums of a graph with sums for its peak.
func (r *Residence) addTo(in shapesOf) {
	if r == nil {
		return
	}
	for _, p := range r.params {
		in[nn.OfSum+p.Name] = &onnx.Tensor{Name: nn.OfSum + p.Name, Type: onnx.Float, Shape: p.Shape}
	}
}

// count counts the device memory, and the host memory for transfers.
func (r *Residence) count(u *Usage) {
	stage := 4 * min(r.size, transferred)
	u.Bytes["parameters"] = 4 * r.size
	u.Bytes["sums of gradients"] = 4 * r.size
	u.Host["gradients and optimizer"] += stage - 2*4*u.Trainable // gradients of runs are not downloaded
}

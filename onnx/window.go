package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// Window is the geometry of a convolution or pooling node along its spatial axes.
type Window struct {
	Kernel, Strides, Dilations []int64
	Pads                       []int64 // begins, then ends; nil if auto_pad depends on unknown sizes
}

// WindowOf reads kernel size, strides, dilations and pads of a node. kernel is used if the node has no kernel_shape;
// size (spatial sizes of the input, as far as known) is used for auto_pad.
func WindowOf(n *Node, kernel []int64, size []Dim) Window {
	if k := n.Ints("kernel_shape"); k != nil {
		kernel = k
	}
	w := Window{Kernel: kernel, Strides: n.Ints("strides"), Dilations: n.Ints("dilations"), Pads: n.Ints("pads")}
	ones := slices.Repeat([]int64{1}, len(kernel))
	if w.Strides == nil {
		w.Strides = ones
	}
	if w.Dilations == nil {
		w.Dilations = ones
	}
	mode := n.Str("auto_pad", "NOTSET")
	if w.Pads == nil || mode == "VALID" {
		w.Pads = make([]int64, 2*len(kernel))
	}
	if mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return w
	}
	pads := make([]int64, 2*len(kernel))
	for i := range kernel {
		var total int64
		switch span := (kernel[i]-1)*w.Dilations[i] + 1; {
		case size[i].Known():
			out := (size[i].Size + w.Strides[i] - 1) / w.Strides[i]
			total = max(0, (out-1)*w.Strides[i]+span-size[i].Size)
		case w.Strides[i] == 1:
			total = span - 1
		default:
			w.Pads = nil
			return w
		}
		pads[i], pads[i+len(kernel)] = total/2, total-total/2
		if mode == "SAME_LOWER" {
			pads[i], pads[i+len(kernel)] = total-total/2, total/2
		}
	}
	w.Pads = pads
	return w
}

// output returns the output size along axis i for input size d.
func (w Window) output(i int, d Dim, ceil bool) Dim {
	k := len(w.Kernel)
	if w.Pads == nil {
		return Dim{Size: -1}
	}
	span := (w.Kernel[i]-1)*w.Dilations[i] + 1
	room := d.integer().plus(known(w.Pads[i] + w.Pads[i+k] - span))
	s := w.Strides[i]
	if !room.Known {
		if s > 1 && ceil {
			return Dim{Size: -1}
		}
		return room.over(known(s), true).plus(known(1)).dim()
	}
	n := room.over(known(s), true).Value + 1
	if ceil && room.Value%s != 0 {
		n++
		if (n-1)*s >= d.Size+w.Pads[i] { // no window may start in the padding at the end
			n--
		}
	}
	return Fixed(n)
}

// ErrWindow is wrapped by the errors of convolutions and poolings whose window is larger than their padded input. ONNX
// Runtime may end the process (SIGFPE) when it runs them.
var ErrWindow = errors.New("the kernel is larger than the padded input")

// outputs returns the output sizes along the spatial axes of x.
func (w Window) outputs(x []Dim, ceil bool) ([]Dim, error) {
	out := make([]Dim, len(w.Kernel))
	for i := range out {
		size := x[2+i]
		if out[i] = w.output(i, size, ceil); size.Known() && w.Pads != nil && out[i].Size < 1 {
			return nil, fmt.Errorf("%w along axis %d", ErrWindow, 2+i)
		}
	}
	return out, nil
}

func (c *inference) window(kernel []int64, x []Dim) (Window, error) {
	w := WindowOf(c.n, kernel, x[2:])
	k := len(x) - 2
	if len(w.Kernel) != k || len(w.Strides) != k || len(w.Dilations) != k || w.Pads != nil && len(w.Pads) != 2*k {
		return w, fmt.Errorf("kernel_shape %v, strides %v, dilations %v and pads %v do not fit %d spatial axes",
			w.Kernel, w.Strides, w.Dilations, w.Pads, k)
	}
	return w, nil
}

func kernelOf(w []Dim) ([]int64, bool) {
	k := []int64{}
	for _, d := range w[2:] {
		if !d.Known() {
			return nil, false
		}
		k = append(k, d.Size)
	}
	return k, true
}

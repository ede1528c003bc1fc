package metrics

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// sizes knows which sizes of pictures a graph can take. ONNX Runtime ends the process if a picture is so small that a
// convolution or a pooling has no output, so their size is first followed through the graph.
type sizes struct {
	graph *onnx.Model // without the contents of weights
}

// largeWeights is the number of bytes above which the contents of a tensor are not kept. Contents that shapes depend on
// are smaller.
const largeWeights = 4096

func newSizes(g *onnx.Model) *sizes {
	bare := *g
	bare.Initializers = slices.Clone(g.Initializers)
	for i, t := range bare.Initializers {
		if len(t.Data) > largeWeights {
			empty := *t
			empty.Data = nil
			bare.Initializers[i] = &empty
		}
	}
	return &sizes{graph: &bare}
}

// unfitError is an error about the sizes of an edit's pictures.
type unfitError struct{ error }

// Unfit implements [edit.Unfit].
func (unfitError) Unfit() bool { return true }

// check is an error if the pictures are too small for the graph.
func (s *sizes) check(feeds map[string]*tensor.Dense) error {
	g := *s.graph
	g.Inputs = slices.Clone(g.Inputs)
	var at []int
	for i, in := range g.Inputs {
		if x := feeds[in.Name]; x != nil {
			at = x.Shape()
			g.Inputs[i].Ranked, g.Inputs[i].Shape = true, make([]onnx.Dim, len(at))
			for k, n := range at {
				g.Inputs[i].Shape[k] = onnx.Fixed(int64(n))
			}
		}
	}
	_, err := onnx.Infer(&g)
	if !errors.Is(err, onnx.ErrWindow) { // of anything else the runtime says what is wrong
		return nil
	}
	if len(at) == 4 {
		err = fmt.Errorf("a picture of %d x %d pixels is too small for the graph: %w", at[3], at[2], err)
	}
	return unfitError{err}
}

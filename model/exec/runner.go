package exec

import (
	"errors"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
	"assay/store"
)

// RunOptions say how sessions run.
type RunOptions struct {
	CUDA    ort.CUDAOptions
	Profile string                            // prefix of traces of nodes' times, a file for each session; "": none
	OnGraph func(graph string, m *onnx.Model) // told of every graph before its session is opened; nil: nobody
	Held    func(params []nn.Param) int64     // memory of the optimizer, see Options.Held; nil: AdamW's
}

// Runner runs graphs over packed samples: sessions, and the features that a frozen tower makes of pictures.
type Runner struct {
	net      *Network
	Sessions *Sessions
	Features *visionFeatures
}

// NewRunner opens nothing yet. print identifies what image features depend on, in the store.
func NewRunner(n *Network, o RunOptions, pictures *PictureCache, in *store.Store, print func() (string, error)) *Runner {
	s := newSessions(n, o)
	return &Runner{n, s, newVisionFeatures(s, pictures, in, print)}
}

// Close frees sessions and weights.
func (r *Runner) Close() error { return errors.Join(r.Sessions.close(), r.net.Backbone.Close()) }

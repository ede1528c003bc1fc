package exec

import (
	"cmp"

	"assay/internal/store"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Options configure where and how graphs run.
type Options struct {
	Device    string       // cpu (default), cuda:N, auto
	Threads   int          // of the CPU; 0: ONNX Runtime's choice, one for each physical core
	Cache     int64        // bytes of image features kept in memory; 0: 64 MiB
	Store     *store.Store // where image features outlive the process; nil: nowhere
	Elsewhere bool         // the device may be missing on this machine: graphs are planned, not run
	On        string       // device that runs graphs built for Device: for tests of GPU graphs on the CPU; "": Device
	DType     string       // of a language model: auto (as it is stored, on CUDA), float32, bfloat16; "": auto
	Pair      string       // of a language model: how messages show pictures, see CheckPair
	CUDA      ort.CUDAOptions
	Kernels   string                            // auto, plain, fused: operators that layers are built from; "": auto
	Profile   string                            // prefix of the node timing traces, one file per session; "": none
	OnGraph   func(graph string, m *onnx.Model) // called with every graph before its session is opened; may be nil
	Blocks    int                               // queries per block of attention, from twice as many rows; 0: automatic
	Pieces    int                               // rows from which a step attends in pieces; 0: automatic
	LossRows  int                               // rows per chunk of a loss over the vocabulary; 0: automatic
	Raw       bool                              // scores as head and fusion output them, uncalibrated
	// Held returns the memory in bytes that training needs for parameters besides their values and a run's gradients;
	// nil: sums of gradients, and two moments (AdamW).
	Held func(params []nn.Param) int64
	// Dimension is the head of a scorer of format 2 whose dimension is the score; "": the scorer's fusion.
	Dimension string

	Backbone string            // where the backbone is; "": where scorer.yaml says
	Warn     func(text string) // called with warnings about a scorer; may be nil
}

// cacheSize returns how many bytes of image features are cached in memory.
func (o *Options) cacheSize() int64 {
	return cmp.Or(o.Cache, 64<<20)
}

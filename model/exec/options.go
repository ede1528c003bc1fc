package exec

import (
	"assay/internal/store"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Options say where and how graphs run.
type Options struct {
	Device    string       // cpu (default), cuda:N, auto
	Threads   int          // of the CPU; 0: ONNX Runtime's choice, one for each physical core
	Cache     int64        // bytes of image features kept in memory; 0: 64 MiB
	Store     *store.Store // where image features outlive the process; nil: nowhere
	Elsewhere bool         // the device need not be here: graphs are planned, not run
	On        string       // device that runs graphs made for Device: tests, of a GPU's graphs on the CPU; "": Device
	DType     string       // of a language model: auto (as it is stored, on CUDA), float32, bfloat16; "": auto
	Pair      string       // of a language model: how messages show pictures, see CheckPair
	CUDA      ort.CUDAOptions
	Kernels   string                            // auto, plain, fused: what layers are built of; "": auto
	Profile   string                            // prefix of traces of nodes' times, a file for each session; "": none
	OnGraph   func(graph string, m *onnx.Model) // told of every graph before its session is opened; nil: nobody
	Blocks    int                               // queries in a block of attention, from twice as many on; 0: it chooses
	Pieces    int                               // rows from which a step attends in pieces; 0: it chooses
	LossRows  int                               // rows of a chunk of a loss over the vocabulary; 0: it chooses
	Raw       bool                              // scores as head and fusion give them, without the scorer's calibration
	// Held is the memory that training takes for parameters besides their values and a run's gradients, in bytes;
	// nil: sums of gradients, and two moments (AdamW).
	Held func(params []nn.Param) int64
	// Dimension is the head of a scorer of format 2 whose dimension is the score; "": the scorer's fusion.
	Dimension string

	Backbone string            // where the backbone is; "": where scorer.yaml says
	Warn     func(text string) // told what is doubtful about a scorer; nil: nobody
}

// cacheSize is the bytes of image features kept in memory.
func (o *Options) cacheSize() int64 {
	if o.Cache == 0 {
		return 64 << 20
	}
	return o.Cache
}

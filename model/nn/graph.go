package nn

import (
	"fmt"

	"gorgonia.org/tensor"

	"assay/lora"
	"assay/onnx"
)

// Opset is the ai.onnx operator set version of every graph built here: the first with RMSNormalization and
// RotaryEmbedding.
const Opset = 23

// Weights is where a graph finds the parameters of a checkpoint; *checkpoints.Weights implements it.
type Weights interface {
	Has(name string) bool
	// Tensor refers to the parameter where it is stored; see onnx.External.
	Tensor(name string) (*onnx.Tensor, error)
	Dense(name string) (*tensor.Dense, error)
}

// Param is one trainable tensor of a graph: an input of that name.
type Param struct {
	Name  string
	Shape []int64
}

// Graph builds one ONNX model from a checkpoint. Frozen parameters become initializers that refer to the checkpoint's
// own bytes; trained ones become float32 graph inputs, listed in Params in order of first use. The first error is kept
// and returned by Err, so that the building code reads like the model's formula.
type Graph struct {
	*onnx.Builder
	Params []Param

	weights      Weights
	TrainsWeight func(name string) bool   // checkpoint parameters that are graph inputs
	Adapter      *lora.Adapter            // nil: no LoRA
	Trained      *lora.Adapter            // of a training, in all its graphs; nil: none
	Members      int                      // scorers whose rows a batch mixes, see members.go; 0: a single scorer
	Tensors      map[string]*tensor.Dense // tensors of the scorer directory by name: LoRA, head, score token
	TrainsTensor func(name string) bool   // which of them are graph inputs, not constants
	dropout      *dropout                 // nil: none
	Compute      onnx.DType               // of the large matrix products
	LowMemory    bool                     // save memory: tables keep their stored type
	Spread       bool                     // rows of products may be padded: see pad
	Blocks       Blocks

	RecomputeFirst *int // how many of the first layers a backward pass recomputes; nil: all or none
	LossRows       int  // rows per chunk of a loss over the vocabulary; 0: see ChunkRows
	Kernels        Kernels

	memberRows, selection, rows string // see members.go

	Variant Variant           // layout of the batch that the graph is for
	values  map[string]string // parameter -> float32 or compute-typed value
	err     error
}

// NewGraph starts a graph over the parameters of a checkpoint, all frozen.
func NewGraph(name string, w Weights) *Graph {
	return &Graph{
		Builder:      onnx.NewBuilder(name, Opset),
		weights:      w,
		Compute:      onnx.Float,
		values:       map[string]string{},
		TrainsWeight: nothing,
		TrainsTensor: nothing,
	}
}

func nothing(string) bool { return false }

// Err returns the first error met while building.
func (g *Graph) Err() error { return g.err }

func (g *Graph) fail(format string, args ...any) string {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
	return "error"
}

// Has reports whether the checkpoint holds a parameter (such as an optional bias).
func (g *Graph) Has(key string) bool { return g.weights.Has(key) }

// Param returns the value of a checkpoint parameter as float32.
func (g *Graph) Param(key string) string { return g.param(key, onnx.Float) }

func (g *Graph) param(key string, t onnx.DType) string {
	id := fmt.Sprint(key, ":", t)
	if v, ok := g.values[id]; ok {
		return v
	}
	w, err := g.weights.Tensor(key)
	if err != nil {
		return g.fail("%w", err)
	}
	v, have := key, w.Type
	if own := g.whole(key); own != "" {
		v, have = g.ScorerTensor(own), onnx.Float
	} else if g.TrainsWeight(key) {
		have = onnx.Float
		if _, declared := g.values[key]; !declared {
			g.values[key] = g.trainable(key, w.Shape)
		}
	} else {
		g.Weight(w)
	}
	if have != t {
		v = g.OpA("Cast", onnx.Attrs{"to": t}, v)
	}
	g.values[id] = v
	return v
}

func (g *Graph) trainable(name string, shape []int64) string {
	g.Params = append(g.Params, Param{name, shape})
	dims := make([]onnx.Dim, len(shape))
	for i, d := range shape {
		dims[i] = onnx.Fixed(d)
	}
	return g.Input(name, onnx.Float, dims)
}

// ScorerTensor returns the value of a tensor of the scorer directory: a graph input while it is trained, else a
// constant.
func (g *Graph) ScorerTensor(name string) string {
	if v, ok := g.values[name]; ok {
		return v
	}
	t := g.Tensors[name]
	if t == nil {
		return g.fail("the scorer has no tensor %q", name)
	}
	if !g.TrainsTensor(name) {
		return g.constant("", name, g.Tensors)
	}
	v := g.trainable(name, dimensions(t.Shape()))
	g.values[name] = v
	return v
}

// RMSNorm normalises the last axis: x / sqrt(mean(x^2) + eps) * weight, in float32.
func (g *Graph) RMSNorm(x, key string, eps float64) string {
	if g.fusesNorm(key) && g.Compute == onnx.Float { // the GPU kernel is for a norm after a sum
		return g.fusedNorm(x, key, eps)
	}
	return g.OpA("RMSNormalization", onnx.Attrs{"axis": -1, "epsilon": eps}, x, g.Param(key+".weight"))
}

// LayerNorm normalises the last axis to mean 0 and variance 1, then scales and shifts, in float32.
func (g *Graph) LayerNorm(x, key string, eps float64) string {
	return g.OpA("LayerNormalization", onnx.Attrs{"axis": -1, "epsilon": eps}, x, g.Param(key+".weight"),
		g.Param(key+".bias"))
}

// Pick returns the rows of x [n, ...] at distinct indices; its gradient scatters without adding.
func (g *Graph) Pick(x, index string, axis int) string {
	y := g.OpA("Gather", onnx.Attrs{"axis": axis}, x, index)
	g.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
	return y
}

// concat concatenates parts along an axis; a single one stays as it is.
func (g *Graph) concat(axis int, parts ...string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return g.OpA("Concat", onnx.Attrs{"axis": axis}, parts...)
}

// SizeOf returns dimension i of x as an int64 vector of one element.
func (g *Graph) SizeOf(x string, i int) string {
	return g.OpA("Shape", onnx.Attrs{"start": i, "end": i + 1}, x)
}

// Shape concatenates sizes: int64 vectors by name, or Go integers.
func (g *Graph) Shape(parts ...any) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		if n, ok := p.(int); ok {
			names[i] = g.Ints(int64(n))
		} else {
			names[i] = p.(string)
		}
	}
	return g.OpA("Concat", onnx.Attrs{"axis": 0}, names...)
}

// dropout of LoRA inputs. ONNX Runtime's random operators keep internal state, so that a resumed run would differ; here
// the random numbers are inputs. Plain: one pool of factors (0 or 1/(1-p)) per step, in which every site takes its own
// range. Fused: a seed per step, from which every site computes its own (ops/rows.cc).
type dropout struct {
	rate          float64
	pool, offsets string
	seed          string
	sites, widest int
}

// UseDropout enables dropout of the adapters' inputs.
func (g *Graph) UseDropout(rate float64) { g.dropout = &dropout{rate: rate} }

// dropped returns x [rows, in] with dropout, in its type t; "" without dropout. The fused operator takes rows in the
// type of the products.
func (g *Graph) dropped(x string, t onnx.DType, in int) string {
	d := g.dropout
	if d == nil {
		return ""
	}
	site := d.sites
	d.sites++
	if g.Kernels == Fused {
		if d.seed == "" {
			d.seed = g.Input(InDropoutSeed, onnx.Int64, onnx.Dims(1))
		}
		return g.Node(onnx.FusedDomain, "Dropout", 1, onnx.Attrs{"rate": d.rate, "site": site}, x, d.seed)[0]
	}
	if d.pool == "" {
		d.pool = g.Input("dropout_pool", onnx.Float, onnx.Dims("pool"))
		d.offsets = g.Input(inOffsets, onnx.Int64, onnx.Dims("sites"))
	}
	start := g.OpA("Slice", nil, d.offsets, g.Ints(int64(site)), g.Ints(int64(site+1)))
	d.widest = max(d.widest, in)
	size := g.Op("Shape", x)
	end := g.Op("Add", start, g.OpA("ReduceProd", onnx.Attrs{"keepdims": 1}, size))
	mask := g.Op("Reshape", g.Op("Slice", d.pool, start, end), size)
	return g.to(g.Op("Mul", g.to(x, t, onnx.Float), mask), onnx.Float, t) // factors are not exact in half precision
}

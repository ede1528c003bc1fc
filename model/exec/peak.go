package exec

import (
	"encoding/binary"
	"slices"

	"gorgonia.org/tensor"

	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
)

// shapesOf holds the shapes of a run's inputs, and the contents of the inputs from which other shapes are computed.
type shapesOf map[string]*onnx.Tensor

// maxContents is the maximum length of an integer input from which shapes are assumed to be computed (sizes of
// groups).
const maxContents = 64

// Shapes returns the shapes of a run's feeds.
func Shapes(feeds ...map[string]*tensor.Dense) shapesOf {
	out := shapesOf{}
	for _, f := range feeds {
		for name, t := range f {
			x := &onnx.Tensor{Name: name, Type: onnx.Float, Shape: make([]int64, t.Dims())}
			for i, d := range t.Shape() {
				x.Shape[i] = int64(d)
			}
			switch v := t.Data().(type) {
			case []uint16:
				x.Type = onnx.BFloat16
			case []int64:
				if x.Type = onnx.Int64; len(v) <= maxContents {
					for _, n := range v {
						x.Data = binary.LittleEndian.AppendUint64(x.Data, uint64(n))
					}
				}
			}
			out[name] = x
		}
	}
	return out
}

// Peak simulates a run of a graph and returns the bytes of the values that are in memory at its worst moment, and of
// the largest value. Every value lives from its node to its last reader, reshaped ones share memory, and weights are
// not counted. Values whose size could not be determined count as the largest value that they are computed from.
func Peak(m *onnx.Model, inputs shapesOf) (bytes, largest int64, err error) {
	l, err := simulate(m, inputs)
	if err != nil {
		return 0, 0, err
	}
	return l.peak, l.most, nil
}

// simulate is [Peak] with what else was counted.
func simulate(m *onnx.Model, inputs shapesOf) (*liveness, error) {
	m = inputs.declare(m)
	types, err := onnx.Infer(m)
	if err != nil {
		return nil, err
	}
	l := newLiveness(m)
	for _, n := range onnx.RunOrder(m.Nodes) {
		if l.constant[n.Outputs[0]] {
			continue
		}
		inner, err := bodyPeak(n, types)
		if err != nil {
			return nil, err
		}
		l.run(n, types, inner)
	}
	return l, nil
}

// bodyPeak returns the peak of the last step of a Scan, whose block of queries sees the most keys, with the states
// before it.
func bodyPeak(n *onnx.Node, types *onnx.Types) (bytes int64, err error) {
	inner := types.LastStep(n)
	if inner == nil {
		return 0, nil
	}
	for _, x := range n.Inputs[:len(n.Inputs)-int(n.Int("num_scan_inputs", 0))] {
		if sizes, ok := types.Of(x).Sizes(); ok {
			bytes += onnx.Elements(sizes) * int64(types.Of(x).Type.Size())
		}
	}
	most, _, err := Peak(inner, nil)
	return bytes + most, err
}

// declare returns a copy of a model with inputs of these shapes; inputs with contents become constants.
func (s shapesOf) declare(m *onnx.Model) *onnx.Model {
	c := *m
	c.Inputs, c.Initializers = nil, slices.Clone(m.Initializers)
	for _, in := range m.Inputs {
		x := s[in.Name]
		switch {
		case x == nil: // a parameter: its shape is declared
			c.Inputs = append(c.Inputs, in)
		case x.Data != nil:
			c.Initializers = append(c.Initializers, x)
		default:
			in.Shape, in.Ranked = make([]onnx.Dim, len(x.Shape)), true
			for i, d := range x.Shape {
				in.Shape[i] = onnx.Fixed(d)
			}
			c.Inputs = append(c.Inputs, in)
		}
	}
	return &c
}

// liveness counts the remaining readers of each value.
type liveness struct {
	owner      map[string]string   // value -> the value whose memory it shares
	shared     map[string][]string // the reverse
	size       map[string]int64
	readers    map[string]int
	constant   map[string]bool // folded when the session is opened
	live, peak int64
	most       int64 // size of the largest value
	kept       kept
}

func newLiveness(m *onnx.Model) *liveness {
	l := &liveness{
		owner:    map[string]string{},
		shared:   map[string][]string{},
		size:     map[string]int64{},
		readers:  map[string]int{},
		constant: map[string]bool{},
	}
	for _, t := range m.Initializers {
		l.constant[t.Name] = true
	}
	for _, n := range m.Nodes {
		if !l.fold(n) {
			for _, x := range n.Reads() {
				l.readers[l.of(x)]++
			}
		}
		l.alias(n)
	}
	for _, o := range m.Outputs {
		l.readers[l.of(o.Name)]++ // lives to the end
	}
	return l
}

// run allocates a node's outputs, then frees values that have no readers left. inner is the memory that its body takes
// meanwhile.
func (l *liveness) run(n *onnx.Node, types *onnx.Types, inner int64) {
	for _, y := range n.Outputs {
		if y == "" || l.of(y) != y {
			continue
		}
		l.size[y] = l.sizeOf(y, n, types)
		l.live += l.size[y]
		l.most = max(l.most, l.size[y])
	}
	l.peak = max(l.peak, l.live+scratch(n)+inner)
	l.kept.add(n, types)
	for _, x := range n.Reads() {
		l.done(l.of(x))
	}
	for _, y := range n.Outputs {
		if l.of(y) == y && l.readers[y] == 0 { // it has no readers
			l.live -= l.size[y]
			l.size[y] = 0
		}
	}
}

// sizeOf returns the size of an output, which may be known only by what it is reshaped to.
func (l *liveness) sizeOf(y string, n *onnx.Node, types *onnx.Types) int64 {
	for _, x := range append([]string{y}, l.shared[y]...) {
		if sizes, ok := types.Of(x).Sizes(); ok {
			return onnx.Elements(sizes) * int64(types.Of(x).Type.Size())
		}
	}
	return l.largest(n, types)
}

// largest returns the size of the largest value that a node reads, which an output of unknown size counts as. Such
// outputs are the distinct rows of what was read more than once: there are at most as many as reads.
func (l *liveness) largest(n *onnx.Node, types *onnx.Types) (bytes int64) {
	for _, x := range n.Reads() {
		size := l.size[l.of(x)]
		if sizes, ok := types.Of(x).Sizes(); ok {
			size = onnx.Elements(sizes) * int64(types.Of(x).Type.Size())
		}
		bytes = max(bytes, size)
	}
	return bytes
}

// kept is scratch memory that fused operators keep for the next node, outside the runtime's arena (ops/cuda.cc): g o',
// gradients of k and v in parts, rows of zeros instead of omitted inputs, and a place for omitted outputs.
type kept struct{ own, parts, zeros, unwanted int64 }

func (k *kept) total() int64 { return k.own + k.parts + k.zeros + k.unwanted }

func (k *kept) add(n *onnx.Node, types *onnx.Types) {
	if n.Domain != onnx.FusedDomain {
		return
	}
	numbers := func(input int) int64 { // of an input; 0: omitted, or of unknown size
		if n.Inputs[input] == "" {
			return 0
		}
		sizes, ok := types.Of(n.Inputs[input]).Sizes()
		if !ok {
			return 0
		}
		return onnx.Elements(sizes)
	}
	lacksOutput := slices.Contains(n.Outputs, "")
	switch n.Op {
	case "FlashAttentionGrad":
		q := numbers(1)
		if sizes, ok := types.Of(n.Inputs[1]).Sizes(); ok {
			k.own = max(k.own, 4*sizes[0]*n.Int("heads", 1))
		}
		if n.Int("heads", 1) != n.Int("kv_heads", 1) {
			k.parts = max(k.parts, 2*4*q)
		}
		if lacksOutput {
			k.unwanted = max(k.unwanted, 2*numbers(2))
		}
	case "RMSNormGrad":
		if lacksOutput {
			k.unwanted = max(k.unwanted, 4*numbers(2))
		}
		if n.Inputs[0] == "" {
			k.zeros = max(k.zeros, 2*numbers(2))
		}
	case "RopeSplitGrad":
		if slices.Contains(n.Inputs[:3], "") {
			k.zeros = max(k.zeros, 2*numbers(0), 2*numbers(1), 2*numbers(2))
		}
	}
}

// scratch returns the memory that a node needs besides its outputs while it runs: products with a packed weight
// dequantize it to float32.
func scratch(n *onnx.Node) int64 {
	if n.Domain != nn.Microsoft || n.Op != "MatMulNBits" && n.Op != "MatMulBnb4" {
		return 0
	}
	return 4 * n.Int("N", 0) * n.Int("K", 0)
}

func (l *liveness) of(name string) string {
	if o, ok := l.owner[name]; ok {
		return o
	}
	return name
}

// fold marks values that are computed only from constants.
func (l *liveness) fold(n *onnx.Node) bool {
	for _, x := range n.Reads() {
		if !l.constant[x] {
			return false
		}
	}
	for _, y := range n.Outputs {
		l.constant[y] = true
	}
	return true
}

// alias notes outputs that share their input's memory.
func (l *liveness) alias(n *onnx.Node) {
	switch n.Op {
	case "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity":
	case "Add":
		if !nn.InPlace(n) {
			return
		}
	default:
		return
	}
	of, y := l.of(n.Inputs[0]), n.Outputs[0]
	l.owner[y], l.shared[of] = of, append(l.shared[of], y)
}

func (l *liveness) done(x string) {
	if l.readers[x]--; l.readers[x] == 0 {
		l.live -= l.size[x]
		l.size[x] = 0
	}
}

// WithFeatures returns a sample whose pictures, including the pictures of its other passes, have placeholder features.
func (n *Network) WithFeatures(s *batch.Sample) *batch.Sample {
	out := *s
	out.Pictures, out.Rest = nil, nil
	for _, p := range s.Pictures {
		q := *p
		if q.Features == nil {
			q.Features = make([]byte, q.Tokens*n.FeatureSize())
		}
		out.Pictures = append(out.Pictures, &q)
	}
	for _, r := range s.Rest {
		out.Rest = append(out.Rest, n.WithFeatures(r))
	}
	return &out
}

// VisionPeak returns the peak of the frozen vision tower over the pictures of copies of a sample.
func (r *Runner) VisionPeak(s *batch.Sample, micro int) (int64, error) {
	b, err := r.Sessions.Graph(r.net.VisionRecipe(s.Pictures))
	if err != nil {
		return 0, err
	}
	largest := slices.MaxFunc(s.Pictures, func(a, b *backbone.Picture) int { return len(a.Pixels) - len(b.Pixels) })
	var run []*backbone.Picture
	values := 0
	for i := range len(s.Pictures) * micro {
		p := s.Pictures[i%len(s.Pictures)]
		if p.Layout != largest.Layout || len(run) > 0 && values+len(p.Pixels) > r.net.Plan.Limits.Pixels {
			continue
		}
		run, values = append(run, p), values+len(p.Pixels)
	}
	feeds, err := r.net.Backbone.Feeds(run, backbone.JoinPixels(run))
	if err != nil {
		return 0, err
	}
	return r.Peak(b.Model, Shapes(feeds))
}

// ScorePeak returns the peak of scoring copies of a sample, both as edits that share a prefix and as edits that do not.
func (r *Runner) ScorePeak(graph Recipe, s *batch.Sample, micro int) (int64, error) {
	copies := slices.Repeat([]*batch.Sample{r.net.WithFeatures(s)}, micro)
	first := r.net.Plan.Limits.Batches(r.net.Packer, copies, r.net.OneGraph())[0]
	most, err := r.packedPeak(graph, first.Packer, batch.Pick(copies, first.Samples))
	if err != nil || first.Share == 0 || r.net.OneGraph() {
		return most, err
	}
	n, err := r.packedPeak(graph, r.net.Packer, copies[:min(micro, max(1, r.net.Plan.Limits.Rows/len(s.IDs)))])
	return max(most, n), err
}

// packedPeak returns the peak of one scoring run.
func (r *Runner) packedPeak(graph Recipe, pk batch.Packer, samples []*batch.Sample) (int64, error) {
	p, err := pk.Pack(samples, r.net.Positions)
	if err != nil {
		return 0, err
	}
	b, in, err := r.planned(graph.With(r.net.Variant(p, r.net.VisionTrained())), p)
	if err != nil {
		return 0, err
	}
	return r.Peak(b.Model, in)
}

// Peak is [Peak] with what a GPU's arena loses to large values: no block spans two of its regions.
func (r *Runner) Peak(m *onnx.Model, inputs shapesOf) (int64, error) {
	l, err := simulate(m, inputs)
	if err != nil {
		return 0, err
	}
	if !r.net.OnCUDA() {
		return l.peak, nil
	}
	r.kept = max(r.kept, l.kept.total())
	return l.peak + 2*l.most, nil
}

// planned returns a graph and its inputs for a packed batch and others, in a plan.
func (r *Runner) planned(
	graph Recipe, p *batch.Inputs, others ...map[string]*tensor.Dense,
) (*nn.Program, map[string]*onnx.Tensor, error) {
	b, err := r.Sessions.Graph(graph)
	if err != nil {
		return nil, nil, err
	}
	vision, err := r.Sessions.visionShapes(p)
	return b, Shapes(append([]map[string]*tensor.Dense{p.Feeds, vision}, others...)...), err
}

// StepPeak returns the peak of a training step over a packed batch with these other inputs, including the dropout
// factors and the sums of gradients on the device.
func (r *Runner) StepPeak(graph Recipe, p *batch.Inputs, others ...map[string]*tensor.Dense) (int64, error) {
	b, in, err := r.planned(graph, p, others...)
	if err != nil {
		return 0, err
	}
	pool := 2 * int64(p.Rows) * int64(b.Widest)
	in["dropout_pool"] = &onnx.Tensor{Shape: []int64{pool}}
	in["dropout_offsets"] = &onnx.Tensor{Shape: []int64{int64(b.Sites)}}
	in[nn.InDropoutSeed] = &onnx.Tensor{Shape: []int64{1}}
	r.Sessions.Resident.addTo(in)
	bytes, err := r.Peak(b.Model, in)
	return bytes + 4*pool, err
}

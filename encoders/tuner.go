package encoders

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/internal/workers"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Tuner trains all weights of an encoder with a contrastive loss: a CLIP on pictures and their captions, any other
// encoder on two views of each picture. As an [Encoder] it embeds with the current weights. DINOv2's position
// embeddings stay as they are where pictures of another size than image_size resample them.
type Tuner struct {
	*Model
	session *ort.Session
	inputs  map[string]*tensor.Dense // the trained parameters, inputs of the step
	grads   map[string]string        // gradient output by parameter
	names   []string                 // of parameters, sorted
}

// NewTuner opens a checkpoint directory for training.
func NewTuner(dir string, o Options) (*Tuner, error) {
	o.Batch = cmp.Or(o.Batch, 32)
	m, t, err := readCheckpoint(dir, o)
	if err != nil {
		return nil, fmt.Errorf("encoder %s: %w", dir, err)
	}
	if m.dropout > 0 {
		m.Close()
		return nil, fmt.Errorf("encoder %s: config.json: dropout (%g) is not supported in training: set it to 0 to train "+
			"without it", dir, m.dropout)
	}
	for _, name := range m.weights.Names() {
		if strings.Contains(name, ".mlp.weights_in.") {
			m.Close()
			return nil, fmt.Errorf("encoder %s: %s holds two matrices of SwiGLU in one, which is not supported in training: "+
				"save the checkpoint with a version of transformers that stores gate_proj and up_proj", dir, name)
		}
	}
	m.trained = map[string]*tensor.Dense{}
	tuner := &Tuner{Model: m}
	if m.fingerprint, err = backbone.Fingerprint(dir, m.weights); err == nil { // of the initial weights
		err = tuner.openStep(t, o)
	}
	if err == nil {
		err = m.openTowers(t, o)
	}
	if err != nil {
		tuner.Close()
		return nil, fmt.Errorf("encoder %s: %w", dir, err)
	}
	return tuner, nil
}

// stepGraph builds the forward pass, loss and backward pass.
func (t *Tuner) stepGraph(of towers) (*nn.Graph, error) {
	g := t.graph("contrast", of)
	images, _, err := of.images(g)
	if err != nil {
		return nil, err
	}
	if of.texts != nil {
		texts, _, err := of.texts(g)
		if err != nil {
			return nil, err
		}
		clipLoss(g, images, texts)
	} else {
		viewLoss(g, images)
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	for _, p := range g.Params {
		t.names = append(t.names, p.Name)
	}
	slices.Sort(t.names)
	t.grads, err = g.Backward(outLoss, t.names...)
	return g, err
}

// openStep opens the step's session.
func (t *Tuner) openStep(of towers, o Options) error {
	g, err := t.stepGraph(of)
	if err != nil {
		return err
	}
	if t.inputs, err = t.values(g); err != nil {
		return err
	}
	t.session, err = t.OpenGraph(g, o, false)
	return err
}

// Params returns the trained tensors and their names, in a fixed order. An optimizer updates them in place.
func (t *Tuner) Params() (names []string, values []*tensor.Dense) {
	for _, n := range t.names {
		values = append(values, t.trained[n])
	}
	return t.names, values
}

// Contrast is the result of a step.
type Contrast struct {
	Loss  []float64                // of every row
	Found []bool                   // whether the row's partner has the highest logit: for CLIP, the picture's caption
	Grads map[string]*tensor.Dense // of the weighted sum of losses, by parameter
}

// Captions runs the forward and backward pass of a CLIP over pictures with one caption each: symmetric InfoNCE, in
// which equal captions are not negatives of each other. weights multiply the rows' losses.
func (t *Tuner) Captions(ctx context.Context, pictures []*data.Picture, captions []string,
	weights []float64) (*Contrast, error) {
	if t.texts == nil {
		return nil, ErrNoTexts
	}
	ids := make([][]int64, len(captions))
	for i, text := range captions {
		var err error
		if ids[i], err = t.texts.encode(text); err != nil {
			return nil, err
		}
	}
	in, err := t.texts.feeds(ids)
	if err != nil {
		return nil, err
	}
	partner := make([]int64, len(captions))
	for i := range partner {
		partner[i] = int64(i)
	}
	return t.step(ctx, in, pictures, partner, weights, func(i, j int) bool { return i != j && captions[i] == captions[j] })
}

// Views runs the forward and backward pass over views, of which 2i and 2i+1 are of the same picture: NT-Xent.
func (t *Tuner) Views(ctx context.Context, views []*data.Picture, weights []float64) (*Contrast, error) {
	if t.texts != nil || len(views)%2 != 0 {
		return nil, fmt.Errorf("%d views: want two of every picture, and an encoder without texts", len(views))
	}
	partner := make([]int64, len(views))
	for i := range partner {
		partner[i] = int64(i ^ 1)
	}
	in := map[string]*tensor.Dense{inPartner: tensor.New(tensor.WithShape(len(views)), tensor.WithBacking(partner))}
	return t.step(ctx, in, views, partner, weights, func(i, j int) bool { return i == j })
}

func (t *Tuner) step(ctx context.Context, in map[string]*tensor.Dense, pictures []*data.Picture, partner []int64,
	weights []float64, masked func(i, j int) bool) (*Contrast, error) {
	n := len(partner)
	if len(pictures) != n || len(weights) != n || n == 0 {
		return nil, fmt.Errorf("%d pictures and %d weights for %d rows", len(pictures), len(weights), n)
	}
	ready := make([]prepared, n)
	workers.Do(n, func(i int) { ready[i] = prepared{i, t.processor.pixels(pictures[i])} })
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(weights[i])
	}
	in[inPixels] = t.join(ready)
	in[inMasked] = tensor.New(tensor.WithShape(n, n), tensor.WithBacking(maskOf(n, masked)))
	in[inRowWeight] = tensor.New(tensor.WithShape(n), tensor.WithBacking(w))
	maps.Copy(in, t.inputs)
	out, err := t.session.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	c := &Contrast{Found: firsts(out[outLogits].Float32s(), partner), Grads: make(map[string]*tensor.Dense, len(t.grads))}
	for _, v := range out[outRowLoss].Float32s() {
		c.Loss = append(c.Loss, float64(v))
	}
	for name, as := range t.grads {
		c.Grads[name] = out[as]
	}
	return c, nil
}

// SaveInto writes the checkpoint with the current weights to dir, an existing empty folder.
func (t *Tuner) SaveInto(dir string) error { return t.weights.SaveInto(dir, t.trained) }

// Close frees the sessions, the tokenizer and the weights.
func (t *Tuner) Close() error {
	if t.session != nil {
		if err := t.session.Close(); err != nil {
			return err
		}
	}
	return t.Model.Close()
}

var _ Encoder = (*Tuner)(nil)

// Names of the inputs and outputs of a contrastive loss.
const (
	// [n, n] float, added to the logits: 0, or apart if a row and a column are not negatives of each other
	inMasked    = "masked"
	inPartner   = "partner"  // [n] int64: the other view of each row's picture
	inRowWeight = "weight"   // [n] float, weight of each row's loss
	outLogits   = "logits"   // [n, n], masked
	outRowLoss  = "row_loss" // [n]
	outLoss     = "loss"     // [1], the weighted sum
	logitScale  = "logit_scale"
)

// apart removes a pair from a softmax. It is finite so that a masked logit has gradient 0 instead of NaN.
const apart = -1e9

// Temperature divides the similarities of two views' embeddings in the NT-Xent loss.
const Temperature = 0.1

// clipLoss adds the symmetric InfoNCE loss of CLIP (Radford et al. 2021, figure 3) of pictures a and texts b, [n,
// width], row by row a pair:
//
//	l = exp(logit_scale) a/|a| (b/|b|)' + masked
//	row_loss_i = (logsumexp_j l_ij + logsumexp_j l_ji)/2 - l_ii
func clipLoss(g *nn.Graph, a, b string) {
	a, b = unit(g, a), unit(g, b)
	a = g.Op("Mul", a, g.Op("Exp", g.Param(logitScale)))
	logits := similarities(g, a, b)
	both := g.Op("Add", logSum(g, logits, 1), logSum(g, logits, 0))
	contrast(g, g.Op("Mul", both, g.Scalar(onnx.Float, 0.5)), dot(g, a, b))
}

// viewLoss adds SimCLR's NT-Xent loss (Chen et al. 2020, equation 1) of views z [n, width]; masked must exclude each
// row from itself:
//
//	l = z/|z| (z/|z|)'/Temperature + masked
//	row_loss_i = logsumexp_j l_ij - l_i,partner(i)
func viewLoss(g *nn.Graph, z string) {
	z = unit(g, z)
	scaled := g.Op("Mul", z, g.Scalar(onnx.Float, 1/Temperature))
	other := g.Pick(z, g.Input(inPartner, onnx.Int64, onnx.Dims("n")), 0)
	contrast(g, logSum(g, similarities(g, scaled, z), 1), dot(g, scaled, other))
}

// similarities returns a b' + masked [n, n], and declares it as an output.
func similarities(g *nn.Graph, a, b string) string {
	l := g.OpA("Gemm", onnx.Attrs{"transB": 1}, a, b)
	l = g.Op("Add", l, g.Input(inMasked, onnx.Float, onnx.Dims("n", "n")))
	g.Output(outLogits, l, onnx.Float, onnx.Dims("n", "n"))
	return l
}

// contrast declares the loss of every row, all - own, and the weighted sum of the losses.
func contrast(g *nn.Graph, all, own string) {
	loss := g.Op("Sub", all, own)
	g.Output(outRowLoss, loss, onnx.Float, onnx.Dims("n"))
	weighted := g.Op("Mul", loss, g.Input(inRowWeight, onnx.Float, onnx.Dims("n")))
	g.Output(outLoss, g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, weighted, g.Ints(0)), onnx.Float, onnx.Dims(1))
}

// unit normalises rows.
func unit(g *nn.Graph, x string) string {
	return g.Op("Div", x, g.OpA("ReduceL2", onnx.Attrs{"keepdims": 1}, x, g.Ints(1)))
}

func logSum(g *nn.Graph, x string, axis int64) string {
	return g.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 0}, x, g.Ints(axis))
}

func dot(g *nn.Graph, a, b string) string {
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", a, b), g.Ints(1))
}

// maskOf lays out a mask.
func maskOf(n int, masked func(i, j int) bool) []float32 {
	m := make([]float32, n*n)
	for i := range n {
		for j := range n {
			if masked(i, j) {
				m[i*n+j] = apart
			}
		}
	}
	return m
}

// firsts reports for every row whether its partner has the highest logit.
func firsts(logits []float32, partner []int64) []bool {
	n := len(partner)
	found := make([]bool, n)
	for i, p := range partner {
		best := float32(math.Inf(-1))
		for j, v := range logits[i*n : (i+1)*n] {
			if v > best {
				best, found[i] = v, int64(j) == p
			}
		}
	}
	return found
}

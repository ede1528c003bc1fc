package encoders

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/internal/workers"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/ort"
)

// Tuner trains every weight of an encoder by contrast: of a CLIP by pictures and their captions, of another by two
// views of each picture. As an [Encoder] it embeds with the weights as they are.
type Tuner struct {
	*Model
	session *ort.Session
	inputs  map[string]*tensor.Dense // the trained parameters of the step
	grads   map[string]string        // output by parameter
	names   []string                 // of parameters, sorted
}

// NewTuner opens a checkpoint directory.
func NewTuner(dir string, o Options) (*Tuner, error) {
	if o.Batch == 0 {
		o.Batch = 32
	}
	m, t, err := readCheckpoint(dir, o)
	if err != nil {
		return nil, fmt.Errorf("encoder %s: %w", dir, err)
	}
	if m.dropout > 0 {
		m.Close()
		return nil, fmt.Errorf("encoder %s: config.json: dropout (%g) is not supported in training: set it to 0 to train "+
			"without", dir, m.dropout)
	}
	m.trained = map[string]*tensor.Dense{}
	tuner := &Tuner{Model: m}
	if m.fingerprint, err = backbone.Fingerprint(dir, m.weights); err == nil { // of what training begins with
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

// stepGraph is forward pass, loss and backward pass.
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
	t.session, err = t.open(g, o)
	return err
}

// Params returns the trained tensors by name, in a fixed order. Whoever optimises them changes them in place.
func (t *Tuner) Params() (names []string, values []*tensor.Dense) {
	for _, n := range t.names {
		values = append(values, t.trained[n])
	}
	return t.names, values
}

// Contrast is the result of a step.
type Contrast struct {
	Loss  []float64                // of every row
	Found []bool                   // whether the row's partner is the nearest of all: of a CLIP, a picture's caption
	Grads map[string]*tensor.Dense // of the weighted sum of losses, by parameter
}

// Captions runs forward and backward pass of a CLIP over pictures with a caption each: symmetric InfoNCE, in which
// equal captions are no negatives of each other. weights multiply the rows' losses.
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

// Views runs forward and backward pass over views, of which 2i and 2i+1 are of the same picture: NT-Xent.
func (t *Tuner) Views(ctx context.Context, views []*data.Picture, weights []float64) (*Contrast, error) {
	if t.texts != nil || len(views)%2 != 0 {
		return nil, fmt.Errorf("%d views: want two of every picture, and an encoder of pictures alone", len(views))
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

// SaveInto writes the checkpoint as it is now into dir, a folder that exists and is empty.
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

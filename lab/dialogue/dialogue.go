// Package dialogue trains all weights of a backbone on questions and answers about pairs of pictures. The miniature
// backbone is pretrained this way. A dialogue is tokenised into a Sample; samples are packed into one batch, whose
// turns share the rows of the pictures; a step returns losses and the gradients of all parameters.
package dialogue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/model/text"
	"assay/onnx"
)

// Dialogue is a source and its edit with independent turns about them.
type Dialogue struct {
	Source, Edit *data.Picture
	Turns        []Turn
}

// Turn is a question with the answer to learn.
type Turn struct {
	Question, Answer string
	Weight           float64 // weight of the mean cross-entropy over the tokens of the answer and the end of the turn
}

// Sample is a tokenised dialogue. The pictures are in it once, before all turns.
type Sample struct {
	pictures []*backbone.Picture
	turns    []text.Tokens
	weights  []float64
	shared   int // tokens at the start that all turns share
}

// Tuner trains all weights of a backbone on dialogues. There is no score token and no head.
type Tuner struct {
	pair      string // of model.Join
	size      []int
	net       *exec.Network
	processor *exec.Processor
	run       *exec.Runner
	*exec.Parameters
}

// New opens a backbone that gets pairs in one of the ways of [model.Join], each picture first resized to size,
// [height, width] in pixels, unless size is nil.
func New(dir, pair string, size []int, o model.Options) (*Tuner, error) {
	b, err := backbone.OpenBackbone(dir)
	if err != nil {
		return nil, err
	}
	t := &Tuner{pair: pair, size: size, net: &exec.Network{
		Backbone: b,
		Tensors:  map[string]*tensor.Dense{},
		DType:    "float32",
		Plan:     exec.Plan{Training: exec.TrainBackbone, Device: o.Device},
	}}
	if err := t.open(o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if t.Parameters, err = t.run.Sessions.Parameters(t.step(true), false); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Tuner) open(o model.Options) error {
	b := t.net.Backbone
	if !b.CanPair(t.pair) {
		return fmt.Errorf("pair: the backbone %s cannot show a source and its edit as %q", b.Dir, t.pair)
	}
	if err := t.net.ResolveDevice(o.Elsewhere, exec.KernelsPlain); err != nil {
		return err
	}
	if err := b.Unpacked("its own weights cannot be trained, only an adapter"); err != nil {
		return err
	}
	t.net.CompletePlan(o.Threads)
	var err error
	words := exec.ProcessorOptions{Token: "[SCORE]", AddsToken: true} // as for a scorer over the backbone
	t.processor, t.run, err = exec.Open(t.net, &o, words, exec.NoScorer)
	return err
}

// Close frees sessions, tokenizer and weights.
func (t *Tuner) Close() error { return errors.Join(t.processor.Close(), t.run.Close()) }

// BackboneFingerprint identifies the backbone.
func (t *Tuner) BackboneFingerprint() (string, error) { return t.net.BackboneFingerprint() }

// SaveInto writes the current checkpoint into dir, an existing empty folder.
func (t *Tuner) SaveInto(dir string) error {
	return t.net.Backbone.Weights.SaveInto(dir, t.run.Sessions.Trained)
}

// Prepare tokenises a dialogue. It is safe for concurrent use.
func (t *Tuner) Prepare(d Dialogue) (*Sample, error) {
	joined, err := model.Join(t.pair, t.size, d.Source, d.Edit)
	if err != nil {
		return nil, err
	}
	s := &Sample{}
	var counts []int
	for _, frames := range joined {
		q, err := t.net.Backbone.Prepare(frames...)
		if err != nil {
			return nil, err
		}
		s.pictures, counts = append(s.pictures, q), append(counts, q.Tokens)
	}
	for _, turn := range d.Turns {
		prompt, err := t.processor.Text.Prompt(len(s.pictures), turn.Question)
		if err != nil {
			return nil, err
		}
		tokens, err := t.processor.Text.EncodeText(prompt, turn.Answer, t.processor.EndOfTurn(),
			t.net.Backbone.Placeholder(), counts)
		if err != nil {
			return nil, err
		}
		s.turns, s.weights = append(s.turns, tokens), append(s.weights, turn.Weight)
	}
	return s, s.share()
}

// share finds the shared prefix of all turns: the prompt up to the end of the last picture.
func (s *Sample) share() error {
	if len(s.turns) == 0 || len(s.pictures) == 0 {
		return fmt.Errorf("a dialogue without a turn or without pictures")
	}
	first := s.turns[0]
	last := len(s.pictures) - 1
	s.shared = first.Pictures[last] + s.pictures[last].Tokens
	for _, t := range s.turns {
		if len(t.IDs) <= s.shared || t.AnswerStart <= s.shared || !slices.Equal(t.IDs[:s.shared], first.IDs[:s.shared]) {
			return fmt.Errorf("the chat template puts the question before the pictures: turns cannot share a prefix")
		}
	}
	return nil
}

// Result holds the weighted loss of every sample, -log p of the first answer token of every turn, and the gradients
// of the weighted sum of losses by parameter.
type Result struct {
	Loss   []float64
	First  [][]float64
	Tokens int
	Grads  map[string]*tensor.Dense
}

// Step runs forward and backward pass over a micro-batch; weight multiplies every sample's loss.
func (t *Tuner) Step(ctx context.Context, samples []*Sample, weight float64) (*Result, error) {
	return t.pass(ctx, samples, weight, true)
}

// Measure is Step without gradients.
func (t *Tuner) Measure(ctx context.Context, samples []*Sample) (*Result, error) {
	return t.pass(ctx, samples, 1, false)
}

func (t *Tuner) pass(
	ctx context.Context,
	samples []*Sample,
	weight float64,
	backward bool,
) (*Result, error) {
	s, err := t.run.Sessions.Session(t.step(backward))
	if err != nil {
		return nil, err
	}
	p := packDialogues(samples, weight, t.net.Positions)
	pixels, done, err := t.run.Sessions.PixelFeeds(p.Pictures)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := t.run.Sessions.Run(ctx, s, p.Feeds, pixels)
	if err != nil {
		return nil, err
	}
	r := &Result{
		Loss:   make([]float64, len(samples)),
		First:  make([][]float64, len(samples)),
		Tokens: p.Rows,
		Grads:  s.Gradients(out),
	}
	nll, at := out[nn.OutNLL].Data().([]float32), 0
	for i, s := range samples {
		for j, turn := range s.turns {
			n := len(turn.IDs) - turn.AnswerStart
			r.First[i] = append(r.First[i], float64(nll[at]))
			for _, v := range nll[at : at+n] {
				r.Loss[i] += s.weights[j] * float64(v) / float64(n)
			}
			at += n
		}
	}
	return r, nil
}

// step is the forward pass over dialogues, with or without the backward pass.
func (t *Tuner) step(backward bool) exec.Recipe {
	return exec.Recipe{Name: fmt.Sprintf("dialogue backward=%v", backward), Build: func(g *nn.Graph) (*nn.Program, error) {
		return buildDialogues(g, t.net.Backbone, backward)
	}}
}

// buildDialogues assembles embedding, vision tower, decoder and cross-entropy.
func buildDialogues(g *nn.Graph, b backbone.Architecture, backward bool) (*nn.Program, error) {
	dec, keys := b.Decoder(), b.Keys()
	ids := g.Input(nn.InTextIDs, onnx.Int64, onnx.Dims("text_tokens"))
	order := g.Input(nn.InOrder, onnx.Int64, onnx.Dims("rows"))
	p := nn.NewPacking(g, 1, false)
	p.Segments = g.Input(inSegments, onnx.Int64, onnx.Dims("rows"))
	var features string
	g.Scoped("vision", func() { features = b.Vision(g) })
	x := g.Embed(keys, dec, p, ids, order, "", features)
	r := dec.Rotary(g)
	h := dec.Forward(g, x, r, p)
	g.CrossEntropy(keys, h, true)
	if err := g.Err(); err != nil {
		return nil, err
	}
	out := &nn.Program{Model: g.M, Params: g.Params, Grads: map[string]string{}}
	if !backward {
		return out, nil
	}
	return out, g.Differentiate(out, false, false)
}

// inSegments is the input [rows] int64 of Packing.Segments.
const inSegments = "segments"

// packDialogues concatenates samples, padded at the end to the length of the longest one: the turns of a sample are
// segments 1, 2... after the shared segment 0, and padding is a segment that no other row sees.
func packDialogues(samples []*Sample, weight float64, positions func(*batch.Sample) [][]int64) *batch.Inputs {
	length := 0
	for _, s := range samples {
		length = max(length, s.length())
	}
	p := &batch.Inputs{Feeds: map[string]*tensor.Dense{}, Groups: 1, Rows: length * len(samples)}
	d := dialoguePacker{Inputs: p}
	for _, s := range samples {
		d.add(s, weight, length, positions)
		p.Pictures = append(p.Pictures, s.pictures...)
	}
	for i, at := range d.order { // image rows come after all text rows
		if at < 0 {
			d.order[i] = int64(len(d.ids)) - at - 1
		}
	}
	for name, v := range map[string][]int64{
		nn.InTextIDs:    d.ids,
		nn.InOrder:      d.order,
		inSegments:      d.segments,
		nn.InPredict:    d.predict,
		nn.InTargets:    d.targets,
		"group_rows":    {int64(p.Rows)},
		"group_lengths": {int64(length)},
	} {
		p.Feeds[name] = batch.Vector(v)
	}
	p.Feeds[nn.InTargetWeight] = batch.Vector(d.weights)
	p.Feeds[nn.InPositions] = batch.Stack(d.axes)
	return p
}

func (s *Sample) length() int {
	n := s.shared
	for _, t := range s.turns {
		n += len(t.IDs) - s.shared
	}
	return n
}

// dialoguePacker collects the rows of a batch.
type dialoguePacker struct {
	*batch.Inputs
	ids, order, segments, predict, targets []int64
	axes                                   [][]int64
	weights                                []float32
	images                                 int64 // rows of pictures so far, in order as -1, -2...
}

func (d *dialoguePacker) add(s *Sample, weight float64, length int, positions func(*batch.Sample) [][]int64) {
	row := len(d.order)
	picture := make(map[int]bool)
	for i, p := range s.pictures {
		for k := range p.Tokens {
			picture[s.turns[0].Pictures[i]+k] = true
		}
	}
	for j, t := range s.turns {
		axes := positions(&batch.Sample{Tokens: t, Pictures: s.pictures})
		if d.axes == nil {
			d.axes = make([][]int64, len(axes))
		}
		from := s.shared
		if j == 0 {
			from = 0
		}
		for i := from; i < len(t.IDs); i++ {
			segment := int64(j + 1)
			if i < s.shared {
				segment = 0
			}
			if i >= t.AnswerStart { // the row before it predicts it
				d.predict, d.targets = append(d.predict, int64(len(d.order)-1)), append(d.targets, t.IDs[i])
				d.weights = append(d.weights, float32(weight*s.weights[j]/float64(len(t.IDs)-t.AnswerStart)))
			}
			if picture[i] && i < s.shared {
				d.images++
				d.row(-d.images, segment)
			} else {
				d.row(int64(len(d.ids)), segment)
				d.ids = append(d.ids, t.IDs[i])
			}
			for a := range axes {
				d.axes[a] = append(d.axes[a], axes[a][i])
			}
		}
	}
	for len(d.order)-row < length {
		d.row(int64(len(d.ids)), -1)
		d.ids = append(d.ids, 0)
		for a := range d.axes {
			d.axes[a] = append(d.axes[a], 0)
		}
	}
}

func (d *dialoguePacker) row(from, segment int64) {
	d.order, d.segments = append(d.order, from), append(d.segments, segment)
}

package language

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/model/text"
)

// TuneOptions say what a Tuner trains and how.
type TuneOptions struct {
	exec.Options
	Plan         bool          // the backbone's weights may be absent: graphs are built and counted, not run
	Adapter      *lora.Adapter // to train; nil: train every weight of the backbone
	DType        string        // of the large products on CUDA: float32, bfloat16
	ChatTemplate string        // Jinja; "": the checkpoint's
	EndOfTurn    string        // token that ends an answer; "": the family's
	MaxTokens    int           // longest conversation; 0: limited only by the model's positions
	Recompute    bool          // recompute each layer in the backward pass
	Dropout      float64       // of the LoRA layers' inputs
	Fixed        bool          // one group of all conversations: see model.TuneOptions
	Resident     bool          // parameters and the sums of gradients stay on the device: see model.TuneOptions
}

// Tuner trains an adapter, or a whole backbone, on the answers of conversations. There is no score token and no
// head.
type Tuner struct {
	*exec.Parameters // that train
	net              *exec.Network
	processor        *exec.Processor
	run              *exec.Runner
	o                TuneOptions
}

// Conversation is a training example of a Tuner: messages, and the pictures that they show, in order.
type Conversation struct {
	Messages []text.Message
	Pictures []edit.Picture
}

// TextSample is a conversation ready for the graph.
type TextSample struct {
	batch.Sample
	Answers [][2]int // [from, to) of each answer's tokens, including its end of turn
}

// Targets is the number of tokens in the loss.
func (s *TextSample) Targets() int {
	n := 0
	for _, a := range s.Answers {
		n += a[1] - a[0]
	}
	return n
}

// NewTuner opens a backbone for training. The adapter's tensors are updated in place by the optimiser.
func NewTuner(dir string, o TuneOptions) (*Tuner, error) {
	open := backbone.OpenBackbone
	if o.Plan {
		open = backbone.DescribeBackbone
	}
	b, err := open(dir)
	if err != nil {
		return nil, err
	}
	n := &exec.Network{
		Backbone: b,
		Tensors:  map[string]*tensor.Dense{},
		DType:    o.DType,
		Packer:   batch.Packer{Vocab: int64(b.Decoder().Vocab), Table: true},
		Plan: exec.Plan{Training: exec.TrainBackbone, Device: o.Device, Blocks: nn.Blocks(o.Blocks),
			LossRows: o.LossRows},
	}
	t := &Tuner{o: o}
	if err := t.open(n); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	step := t.stepGraph(textPass{1, n.VisionTrained(), true}, &batch.Inputs{})
	if t.Parameters, err = t.run.Sessions.Parameters(step, o.Resident); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Tuner) open(n *exec.Network) (err error) {
	o := &t.o
	if err := n.ResolveDevice(o.Elsewhere, o.Kernels); err != nil {
		return err
	}
	if err := n.CheckDropout(); err != nil {
		return err
	}
	if o.Adapter == nil {
		err = n.Backbone.Unpacked("its own weights cannot be trained, only an adapter over them")
	} else {
		n.Plan.Training = exec.TrainScorer
		err = n.Adapt(o.Adapter)
	}
	if err != nil {
		return err
	}
	n.CompletePlan(o.Threads)
	t.net = n
	t.processor, t.run, err = exec.Open(n, &o.Options,
		exec.ProcessorOptions{ChatTemplate: o.ChatTemplate, EndOfTurn: o.EndOfTurn, Pair: o.Pair}, exec.NoScorer)
	return err
}

// Close frees sessions, tokenizer and weights.
func (t *Tuner) Close() error { return errors.Join(t.processor.Text.Close(), t.run.Close()) }

// SaveInto writes the adapter in PEFT's format, or the full checkpoint, into dir, an existing empty folder.
func (t *Tuner) SaveInto(dir string) error {
	if t.net.Adapter != nil {
		return t.net.Adapter.Save(dir)
	}
	return t.net.Backbone.Weights.SaveInto(dir, t.run.Sessions.Trained)
}

// Prepare turns a conversation into tokens and pictures. A conversation longer than MaxTokens, or whose text is longer
// than the model's positions, is rejected: nothing is truncated. It is safe for concurrent use.
func (t *Tuner) Prepare(c Conversation) (*TextSample, error) {
	s := &TextSample{}
	turns, counts, err := t.addPictures(&s.Sample, c)
	if err != nil {
		return nil, err
	}
	tokens, err := t.tokenise(turns, counts)
	if err != nil {
		return nil, err
	}
	s.Tokens, s.Answers = tokens.Tokens, tokens.Answers
	return s, t.net.CheckPositions(&s.Sample, 0)
}

// addPictures prepares the pictures of a conversation, and counts the tokens of each place that shows one or more.
func (t *Tuner) addPictures(s *batch.Sample, c Conversation) (turns []text.Message, tokens []int, err error) {
	turns, each, err := t.processor.Turns(c.Messages, len(c.Pictures))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(c.Pictures); i += each {
		q, err := t.shown(c.Pictures[i : i+each])
		if err != nil {
			return nil, nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		s.Pictures, tokens = append(s.Pictures, q), append(tokens, q.Tokens)
	}
	return turns, tokens, nil
}

// shown prepares the pictures of one place unless they are in the cache.
func (t *Tuner) shown(pictures []edit.Picture) (*backbone.Picture, error) {
	var parts []string
	for _, p := range pictures {
		parts = append(parts, edit.KeyOf(p))
	}
	key := store.Key{}
	if !slices.Contains(parts, "") {
		key = store.KeyOf(parts...)
	}
	if known := t.prepared().OfEdit(key); known != nil {
		return known[0], nil
	}
	frames := make([]*data.Picture, len(pictures))
	for i, p := range pictures {
		var err error
		if frames[i], err = edit.Decode(p); err != nil {
			return nil, err
		}
	}
	frames, err := exec.FitFrames(frames)
	if err != nil {
		return nil, err
	}
	q, err := t.processor.Picture(frames, false)
	if err == nil {
		t.prepared().PutEdit(key, []*backbone.Picture{q})
	}
	return q, err
}

func (t *Tuner) prepared() *exec.PictureCache { return t.processor.Pictures }

// tokenise renders and tokenises messages about pictures of that many tokens each.
func (t *Tuner) tokenise(messages []text.Message, counts []int) (*text.Conversation, error) {
	c, err := t.processor.Text.Conversation(messages, t.processor.EndOfTurn(), t.net.Backbone.Placeholder(), counts)
	if err != nil {
		return nil, err
	}
	words, err := t.processor.WordTokens(len(c.IDs), counts, "conversation")
	if err != nil {
		return nil, err
	}
	if most := t.o.MaxTokens; most > 0 && len(c.IDs) > most {
		return nil, fmt.Errorf("the conversation has %d tokens, %d of them of text; text.max_tokens is %d: nothing is cut "+
			"off, so shorten it or show smaller pictures", len(c.IDs), words, most)
	}
	return c, nil
}

// CheckText returns the error that Prepare would return for the messages regardless of the pictures, or the number of
// tokens in the loss.
func (t *Tuner) CheckText(messages []text.Message) (targets int, err error) {
	shown := 0
	for _, m := range messages {
		for _, c := range m.Content {
			if c.Image {
				shown++
			}
		}
	}
	messages, each, err := t.processor.Turns(messages, shown)
	if err != nil {
		return 0, err
	}
	c, err := t.tokenise(messages, slices.Repeat([]int{1}, shown/each))
	if err != nil {
		return 0, err
	}
	return (&TextSample{Answers: c.Answers}).Targets(), nil
}

// TextResult is the result of a pass over conversations.
type TextResult struct {
	Loss   []float64 // of each conversation: the sum over its answers' tokens of -log softmax
	Right  []int     // of each: the number of tokens that are the likeliest ones; only from Measure
	Tokens int       // processed, padding included
	Grads  map[string]*tensor.Dense
}

// Step runs the forward and backward pass over a micro-batch. weights multiplies the loss of each token of a
// conversation; seed is the seed of the dropout.
func (t *Tuner) Step(ctx context.Context, samples []*TextSample, weights []float64, seed uint64) (
	*TextResult, error) {
	return t.pass(ctx, samples, weights, seed, true)
}

// Measure runs only the forward pass, without dropout.
func (t *Tuner) Measure(ctx context.Context, samples []*TextSample) (*TextResult, error) {
	return t.pass(ctx, samples, make([]float64, len(samples)), 0, false)
}

func (t *Tuner) pass(
	ctx context.Context, samples []*TextSample, weights []float64, seed uint64, backward bool,
) (*TextResult, error) {
	plain := make([]*batch.Sample, len(samples))
	for i, s := range samples {
		plain[i] = &s.Sample
	}
	if err := t.run.Fill(ctx, plain); err != nil {
		return nil, err
	}
	p, err := t.pack(samples, weights)
	if err != nil {
		return nil, err
	}
	s, out, err := t.runPacked(ctx, t.stepGraph(textPass{p.Groups, t.pixels(p), backward}, p), p, seed)
	if err != nil {
		return nil, err
	}
	r := result(p, out, backward)
	if backward {
		r.Grads = t.gradients(s, out)
	}
	return r, nil
}

// pixels reports whether the inputs of a packed batch are pixels.
func (t *Tuner) pixels(p *batch.Inputs) bool { return t.net.VisionTrained() && len(p.Pictures) > 0 }

// runPacked runs a pass over a packed batch; seed is that of the dropout, if the pass has any.
func (t *Tuner) runPacked(
	ctx context.Context, graph exec.Recipe, p *batch.Inputs, seed uint64,
) (*exec.Session, map[string]*tensor.Dense, error) {
	s, err := t.run.Sessions.Session(graph)
	if err != nil {
		return nil, nil, err
	}
	vision, done, err := t.run.Sessions.ShownFeeds(p)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	out, err := t.run.Sessions.Run(ctx, s, p.Feeds, vision, exec.DropoutFeeds(t.o.Dropout, s, p.Rows, seed))
	return s, out, err
}

// gradients returns the gradients of a step: zeros for the vision side if nothing shows a picture.
func (t *Tuner) gradients(s *exec.Session, out map[string]*tensor.Dense) map[string]*tensor.Dense {
	grads := s.Gradients(out)
	for _, x := range t.List {
		if grads[x.Name] == nil && !s.Sums {
			grads[x.Name] = tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(t.run.Sessions.Param(x.Name).Shape()...))
		}
	}
	return grads
}

// result puts the outputs of a packed batch back into the order of the samples.
func result(p *batch.Inputs, out map[string]*tensor.Dense, backward bool) *TextResult {
	r := &TextResult{Loss: make([]float64, len(p.Order)), Tokens: p.Rows}
	nll := out[nn.OutNLL].Data().([]float32)
	var best, targets []int64
	if !backward {
		r.Right = make([]int, len(p.Order))
		best, targets = out[outBest].Data().([]int64), p.Feeds[nn.InTargets].Data().([]int64)
	}
	for place, i := range p.Order {
		part := p.Targets[place][0]
		for at := part.First; at < part.First+part.N; at++ {
			r.Loss[i] += float64(nll[at])
			if !backward && best[at] == targets[at] {
				r.Right[i]++
			}
		}
	}
	return r
}

// Device is where the graphs run: cpu or cuda:N.
func (t *Tuner) Device() string { return t.net.Device() }

// Kernels are the operators that layers are built from, and the reason for the choice.
func (t *Tuner) Kernels() exec.Kernels { return t.net.Kernels() }

// Absent returns an error that names what is missing of the backbone's weights; nil if they are present.
func (t *Tuner) Absent() error { return t.net.Absent() }

// Partly reports whether some of the absent weights are present: a shard is missing.
func (t *Tuner) Partly() bool { return t.net.Partly() }

// Damage returns an error that names a tensor of the backbone or the scorer with NaN or infinities; nil if there is
// none.
func (t *Tuner) Damage() error { return t.net.Damage() }

// BackboneFingerprint identifies the backbone; see model.Scorer.Fingerprint.
func (t *Tuner) BackboneFingerprint() (string, error) { return t.net.BackboneFingerprint() }

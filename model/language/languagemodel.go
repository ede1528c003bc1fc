// Package language runs backbones as language models, without a scorer.
//
// A [Model] continues conversations that show pictures: a [Prompt] is a conversation as tokens and pictures, a [Cache]
// holds the keys and values of several sequences on the device where the model runs, and [Model.Forward] appends a
// [Stretch] of each sequence to it and returns the logits of the next tokens. Package generate samples answers from
// them.
//
// A [Tuner] trains an adapter, or a whole backbone, on the answers of conversations.
package language

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/model/text"
	"assay/onnx"
)

// Model is a backbone that continues texts: it returns the logits of the next token, and keeps the keys and values of
// previous tokens in a [Cache].
type Model struct {
	net       *exec.Network
	processor *exec.Processor
	run       *exec.Runner
	training  bool // its parts belong to a Tuner
}

// Open opens a Hugging Face checkpoint directory with its tokenizer and chat template, and an adapter over it in PEFT's
// format unless adapter is "".
func Open(dir, adapter string, o exec.Options) (*Model, error) {
	b, err := backbone.OpenBackbone(dir)
	if err != nil {
		return nil, err
	}
	l := &Model{net: &exec.Network{
		Backbone: b,
		Packer:   batch.Packer{Vocab: int64(b.Decoder().Vocab), Table: true},
		Plan:     exec.Plan{Device: o.Device, RunDevice: o.On, WithLMHead: true},
	}}
	if err := l.open(adapter, o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return l, nil
}

// Close frees sessions, tokenizer and weights.
func (l *Model) Close() error {
	if l.training {
		return nil
	}
	return errors.Join(l.processor.Text.Close(), l.run.Close())
}

func (l *Model) open(adapter string, o exec.Options) (err error) {
	n := l.net
	if adapter != "" {
		a, err := lora.Load(adapter)
		if err == nil {
			n.Tensors = map[string]*tensor.Dense{}
			err = n.Adapt(a)
		}
		if err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
	}
	if err := n.ResolveDevice(o.Elsewhere || o.On != "", o.Kernels); err != nil {
		return err
	}
	if n.DType, err = chooseType(n, o.DType); err != nil {
		return err
	}
	n.CompletePlan(o.Threads)
	l.processor, l.run, err = exec.Open(n, &o, exec.ProcessorOptions{Pair: o.Pair}, exec.NoScorer)
	return err
}

// CheckDType returns an error if a language model cannot compute in the type of that name.
func CheckDType(name string) error {
	if !slices.Contains([]string{"", "auto", "float32", "bfloat16"}, name) {
		return fmt.Errorf("dtype %q is unknown: use auto, float32 or bfloat16", name)
	}
	return nil
}

// chooseType returns the type of products, keys and values. For auto it is bfloat16 on CUDA if the stored embedding
// table has a type smaller than float32, and float32 otherwise.
func chooseType(n *exec.Network, dtype string) (string, error) {
	if dtype != "" && dtype != "auto" {
		return dtype, CheckDType(dtype)
	}
	t, err := n.Backbone.Weights.Tensor(n.Backbone.Keys().Embedding)
	if err != nil {
		return "", err
	}
	if n.OnCUDA() && t.Type.Size() < onnx.Float.Size() {
		return "bfloat16", nil
	}
	return "float32", nil
}

// DType is the type in which products, keys and values are computed and stored: float32, or on CUDA bfloat16.
func (l *Model) DType() string {
	if l.net.Computes() == onnx.BFloat16 {
		return "bfloat16"
	}
	return "float32"
}

// plainCache reports whether attention over the cache is built from plain operators.
func (l *Model) plainCache() bool { return l.net.OnCUDA() && l.net.Computes() == onnx.Float }

// Unchanged returns an error if the weight files, which are used in place, were changed since they were opened.
func (l *Model) Unchanged() error { return l.net.Backbone.Weights.Unchanged() }

// Dir is the checkpoint's directory.
func (l *Model) Dir() string { return l.net.Backbone.Dir }

// Vocab is the number of token ids that have logits.
func (l *Model) Vocab() int { return l.net.Backbone.Decoder().Vocab }

// MaxPositions is the model's max_position_embeddings.
func (l *Model) MaxPositions() int { return l.net.Backbone.Decoder().MaxPositions }

// Frames reports whether messages show every two pictures as the frames of one.
func (l *Model) Frames() bool { return l.processor.Frames() }

// Fingerprint identifies the checkpoint, configuration, tokenizer, template and weights, and the adapter over it.
func (l *Model) Fingerprint() (string, error) {
	if l.net.Adapter == nil {
		return l.net.BackboneFingerprint()
	}
	return l.net.Fingerprint(exec.NoScorer, nil, nil)
}

// Decode returns the text of ids, without special tokens.
func (l *Model) Decode(ids []int64) (string, error) { return l.processor.Text.Decode(ids) }

// Encode returns the ids of a text without the special tokens that the tokenizer puts around one.
func (l *Model) Encode(s string) ([]int64, error) { return l.processor.Text.Plain(s) }

// Prompt turns messages into a sequence that ends with the generation prompt. pictures are the pictures that the
// messages show, in order. It is safe for concurrent use.
func (l *Model) Prompt(messages []text.Message, pictures []*data.Picture) (*Prompt, error) {
	messages, each, err := l.processor.Turns(messages, len(pictures))
	if err != nil {
		return nil, err
	}
	prompt, err := l.processor.Text.Chat(messages)
	if err != nil {
		return nil, err
	}
	s := &Prompt{}
	var counts []int
	for i := 0; i < len(pictures); i += each {
		q, err := l.picture(pictures[i : i+each])
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i+1, err)
		}
		s.Pictures, counts = append(s.Pictures, q), append(counts, q.Tokens)
	}
	if s.Tokens, err = l.processor.Text.EncodePrompt(prompt, "", l.net.Backbone.Placeholder(), counts); err != nil {
		return nil, err
	}
	s.prompt, s.axes = len(s.IDs), l.net.Positions(&s.Sample)
	for _, axis := range s.axes {
		s.next = max(s.next, slices.Max(axis)+1)
	}
	s.words = len(s.IDs) - s.ImageTokens()
	if most := l.MaxPositions(); s.words >= most { // as for scores; pictures have their own limits
		return nil, fmt.Errorf("the text has %d tokens, the model's max_position_embeddings are %d: shorten it", s.words,
			most)
	}
	return s, l.net.Backbone.Decoder().Longest(s.next)
}

// Room is the number of tokens that may follow a sequence before the model's context ends.
func (l *Model) Room(s *Prompt) int {
	d := l.net.Backbone.Decoder()
	room := d.MaxPositions - s.words
	if d.Rope.Type == "dynamic" {
		room = min(room, d.MaxPositions-int(s.next))
	}
	return room
}

// picture prepares the pictures of one place unless they are in the cache.
func (l *Model) picture(shown []*data.Picture) (*backbone.Picture, error) {
	shown, err := exec.FitFrames(shown)
	if err != nil {
		return nil, err
	}
	key := exec.PictureKey(shown)
	if known := l.processor.Pictures.Get(key); known != nil {
		shared := *known // features are taken away from a sequence's picture when its prompt is in the cache
		return &shared, nil
	}
	q, err := l.net.Backbone.Prepare(shown...)
	if err != nil {
		return nil, err
	}
	q.Key = key
	return q, nil
}

// ImageFeatures runs the vision tower over the pictures of sequences, once for each distinct one.
func (l *Model) ImageFeatures(ctx context.Context, sequences ...*Prompt) error {
	samples := make([]*batch.Sample, len(sequences))
	for i, s := range sequences {
		samples[i] = &s.Sample
	}
	return l.run.Fill(ctx, samples)
}

// Stretch is a part of a sequence: its tokens From to To follow those in the cache. Logits, at least 1, is the number
// of its last tokens whose logits are returned.
type Stretch struct {
	*Prompt
	From, To, Logits int
}

// Forward appends stretches to consecutive slots of a cache, starting at first, and returns the logits of each stretch,
// [Logits*V]. Several stretches must all start at the beginning of their sequences or have one token each: the
// runtime's attention over a cache requires it.
func (l *Model) Forward(ctx context.Context, c *Cache, first int, stretches ...Stretch) ([][]float32, error) {
	s, err := l.run.Sessions.Session(exec.Recipe{Name: "generate", Build: l.stepGraph})
	if err != nil {
		return nil, err
	}
	for _, t := range stretches {
		if end := t.From + attended(stretches); end > c.capacity || first+len(stretches) > c.slots {
			return nil, fmt.Errorf("%d rows in slot %d do not fit a cache of %d slots of %d", end, first, c.slots, c.capacity)
		}
	}
	p := l.packStretches(stretches)
	vision, done, err := l.run.Sessions.ShownFeeds(p)
	if err != nil {
		return nil, err
	}
	defer done()
	if l.plainCache() {
		maps.Copy(p.Feeds, plainFeeds(stretches, l.net.Backbone.Decoder().KVHeads))
	}
	in := map[string]*tensor.Dense{}
	for _, feeds := range []map[string]*tensor.Dense{p.Feeds, vision} {
		for name, t := range feeds {
			if s.Inputs[name] {
				in[name] = t
			}
		}
	}
	views, free, err := c.views(first, len(stretches))
	if err != nil {
		return nil, err
	}
	defer free()
	if err := l.run.Sessions.FeedParams(s, in, views); err != nil {
		return nil, err
	}
	out, err := s.Session.RunWith(ctx, in, nil, views)
	if err != nil {
		return nil, err
	}
	all, results := out[nn.OutLogit].Data().([]float32), make([][]float32, len(stretches))
	for i, stretch := range stretches {
		n := stretch.Logits * l.Vocab()
		results[i], all = all[:n:n], all[n:]
		if v := results[i][0]; math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, l.overflow(v)
		}
	}
	return results, nil
}

// overflow returns the error for a logit that is not finite: damaged weights, or an overflow.
func (l *Model) overflow(v float32) error {
	if err := l.net.Damage(); err != nil {
		return fmt.Errorf("a logit is %g: %w", v, err)
	}
	return fmt.Errorf("a logit is %g although all weights are finite: the computation overflows", v)
}

// stepGraph builds the graph of a run. On the CPU its rows are laid out for the CPU's cache.
func (l *Model) stepGraph(g *nn.Graph) (*nn.Program, error) {
	g.Spread = !l.net.OnCUDA()
	return l.buildStep(g)
}

// buildStep embeds rows, runs the decoder over them and the cache, and outputs the logits of the selected rows.
func (l *Model) buildStep(g *nn.Graph) (*nn.Program, error) {
	dec, keys := l.net.Backbone.Decoder(), l.net.Backbone.Keys()
	ids := g.Input(nn.InTextIDs, onnx.Int64, onnx.Dims("text_tokens"))
	order := g.Input(nn.InOrder, onnx.Int64, onnx.Dims("rows"))
	features := g.Features(dec)
	p := &nn.Packing{Groups: 1, Select: g.Input("select", onnx.Int64, onnx.Dims("selected")),
		Cached: nn.NewCached(g, dec, l.plainCache())}
	x := g.Embed(keys, dec, p, ids, order, "", features)
	h := dec.Forward(g, x, dec.Rotary(g), p)
	logits := g.WideLinear(h, strings.TrimSuffix(keys.Output, ".weight"), "")
	g.Output(nn.OutLogit, logits, onnx.Float, onnx.Dims("selected", dec.Vocab))
	bound := map[string]bool{}
	for i := range dec.Layers {
		for _, what := range nn.CacheParts {
			past, present := nn.CacheNames(i, what)
			bound[past], bound[present] = true, true
		}
	}
	return &nn.Program{Model: g.M, Params: g.Params, Packed: true, Bound: bound}, g.Err()
}

// TokenBytes returns the bytes that each id of the vocabulary adds to a text; nil: none. trims reports whether the
// decoder strips one leading blank from a text.
func (l *Model) TokenBytes() (tokens [][]byte, trims bool, err error) {
	if tokens, trims, err = l.processor.Text.TokenBytes(); err != nil {
		return nil, false, err
	}
	all := make([][]byte, l.Vocab()) // the table may have more rows than the tokenizer has tokens, or fewer
	copy(all, tokens)
	return all, trims, nil
}

// Device is where the graphs run: cpu or cuda:N.
func (l *Model) Device() string { return l.net.Device() }

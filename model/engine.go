package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/lora"
	"assay/model/text"
	"assay/onnx"
	"assay/ort"
	"assay/store"
)

// Options say where and how graphs run.
type Options struct {
	Device    string       // cpu (default), cuda:N, auto
	Threads   int          // 0: all cores
	Cache     int64        // bytes of image features kept in memory; 0: 64 MiB
	Store     *store.Store // where image features outlive the process; nil: nowhere
	Elsewhere bool         // the device need not be here: graphs are planned, not run
}

// cacheSize is the bytes of image features kept in memory.
func (o *Options) cacheSize() int64 {
	if o.Cache == 0 {
		return 64 << 20
	}
	return o.Cache
}

// engine is a backbone with a scorer's tensors, and the sessions made of them.
type engine struct {
	config   *ScorerConfig
	backbone *Backbone
	text     *text.Processor
	adapter  *lora.Adapter
	own      map[string]*tensor.Dense // of the scorer directory: LoRA, head, score token
	options  Options
	pictures *pictureCache
	kept     func() (kept, error) // opened when image features are first wanted

	few     bool                     // parameters: see small
	tuned   bool                     // own tensors are inputs of the graphs
	full    bool                     // so are the backbone's parameters
	trained map[string]*tensor.Dense // values of the backbone's trained parameters, read when a graph first asks for them

	mu       sync.Mutex
	graphs   map[string]*built // not opened yet
	sessions map[string]*session
}

// session is a graph that is ready to run.
type session struct {
	*built
	*ort.Session
	inputs map[string]bool
}

// openEngine opens the backbone of a scorer's parts and compares the two.
func openEngine(p *ScorerState, o Options) (*engine, error) {
	b, err := p.backbone()
	if err != nil {
		return nil, err
	}
	e := &engine{config: p.Config, backbone: b, adapter: p.Adapter, own: maps.Clone(p.Tensors), options: o, graphs: map[string]*built{}, sessions: map[string]*session{}, trained: map[string]*tensor.Dense{}}
	if err := e.open(); err != nil {
		b.Close()
		return nil, err
	}
	return e, nil
}

func (e *engine) open() (err error) {
	c := e.config
	if !e.options.Elsewhere {
		if e.options.Device, err = ort.Resolve(e.options.Device); err != nil {
			return err
		}
	}
	if !e.backbone.CanPair(c.Pair) {
		return fmt.Errorf("pair: the backbone %s cannot show a source and its edit as %q", c.Backbone, c.Pair)
	}
	if err := checkOwn(c, e.backbone.Decoder().Hidden, e.own); err != nil {
		return err
	}
	if e.adapter != nil {
		if err := e.adapter.Check(e.modules()); err != nil {
			return err
		}
		maps.Copy(e.own, e.adapter.Tensors)
	}
	e.pictures = newPictureCache(e.options.cacheSize())
	e.kept = sync.OnceValues(e.openKept)
	parameters, _ := e.Weights()
	e.few = parameters <= mostSmall && !e.onCUDA()
	if e.text, err = text.Open(c.Backbone, c.ScoreToken, int64(e.backbone.Decoder().Vocab), text.WithTemplate(c.ChatTemplate)); err != nil {
		return err
	}
	if err = e.checkPlaceholder(); err != nil {
		return errors.Join(err, e.text.Close())
	}
	if c.EndOfTurn != "" {
		if _, err = e.text.ID(c.EndOfTurn); err != nil {
			return errors.Join(fmt.Errorf("end_of_turn: %w", err), e.text.Close())
		}
	}
	return nil
}

// checkPlaceholder compares the tokenizer's placeholder of pictures with that of config.json, by which transformers finds them.
func (e *engine) checkPlaceholder() error {
	id, err := e.text.ID(e.backbone.Placeholder())
	if want := e.backbone.Decoder().ImageToken; err == nil && int64(id) != want {
		err = fmt.Errorf("the tokenizer's %s is token %d, config.json's image token %d: they do not belong together", e.backbone.Placeholder(), id, want)
	}
	if err != nil {
		return fmt.Errorf("%s: placeholder of pictures: %w", e.config.Backbone, err)
	}
	return nil
}

// openKept opens the image features in the store.
func (e *engine) openKept() (k kept, err error) {
	if e.options.Store == nil {
		return k, nil
	}
	print, err := e.featureFingerprint()
	if err == nil {
		k.Bucket, err = e.options.Store.Bucket(featureKind, print)
	}
	return k, err
}

// Close frees sessions, tokenizer and weights.
func (e *engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, s := range e.sessions {
		errs = append(errs, s.Session.Close())
	}
	e.sessions = nil
	return errors.Join(append(errs, e.text.Close(), e.backbone.Close())...)
}

// Pair is a question about an edit.
type Pair struct {
	Source, Edit *data.Picture
	Load         func() (source, edit *data.Picture, err error) // instead of the two: called only if they are not known by Key
	Instruction  string
	Question     string // template; "": the scorer's
	Answer       string // template; "": the scorer's
	Key          string // identifies the two pictures, so that Load is called once while they are in the cache. "": unknown
	Pixels       bool   // keep the pixels, for PixelGradient
}

// Prepare turns a pair into tokens and pictures. It is safe for concurrent use.
func (e *engine) Prepare(p Pair) (*Sample, error) {
	if strings.TrimSpace(p.Instruction) == "" {
		return nil, fmt.Errorf("the instruction is empty")
	}
	s := &Sample{}
	if !p.Pixels {
		s.Pictures = e.pictures.pair(p.Key)
	}
	if s.Pictures == nil {
		if p.Load != nil {
			var err error
			if p.Source, p.Edit, err = p.Load(); err != nil {
				return nil, err
			}
		}
		joined, err := Join(e.config.Pair, e.config.PairSize, p.Source, p.Edit)
		if err != nil {
			return nil, err
		}
		for _, frames := range joined {
			q, err := e.picture(frames, p.Pixels)
			if err != nil {
				return nil, err
			}
			s.Pictures = append(s.Pictures, q)
		}
		e.pictures.putPair(p.Key, s.Pictures)
	}
	counts := make([]int, len(s.Pictures))
	for i, q := range s.Pictures {
		counts[i] = q.Tokens
	}
	var err error
	if s.Tokens, err = e.tokens(p, counts); err != nil {
		return nil, err
	}
	last := int64(0)
	for _, axis := range e.positions(s) {
		last = max(last, slices.Max(axis))
	}
	return s, e.backbone.Decoder().longest(last)
}

// tokens asks about pictures of that many tokens each.
func (e *engine) tokens(p Pair, counts []int) (t text.Tokens, err error) {
	if strings.TrimSpace(p.Instruction) == "" {
		return t, fmt.Errorf("the instruction is empty")
	}
	question, answer := e.config.Question, e.config.Answer
	if p.Question != "" {
		question = p.Question
	}
	if p.Answer != "" {
		answer = p.Answer
	}
	prompt, err := e.text.Prompt(len(counts), strings.ReplaceAll(question, InstructionMark, p.Instruction))
	if err != nil {
		return t, err
	}
	if t, err = e.text.Encode(prompt, answer, e.endOfTurn(), e.backbone.Placeholder(), counts); err != nil {
		return t, err
	}
	n := len(t.IDs)
	for _, c := range counts {
		n -= c
	}
	// Pictures are bounded by their tiles, and published checkpoints go beyond their positions with them; text is not.
	if most := e.backbone.Decoder().MaxPositions; n > most {
		return t, fmt.Errorf("the text has %d tokens, the model's max_position_embeddings are %d: shorten the instruction", n, most)
	}
	return t, nil
}

// CheckText gives the error that Prepare would give about the text of a pair, whatever the pictures are.
func (e *engine) CheckText(p Pair) error {
	counts := []int{1}
	if e.config.Pair == Sequence {
		counts = []int{1, 1}
	}
	_, err := e.tokens(p, counts)
	return err
}

func (e *engine) endOfTurn() string {
	for _, t := range []string{e.config.EndOfTurn, e.backbone.EndOfTurn()} {
		if t != "" {
			return t
		}
	}
	return e.text.EndOfSequence()
}

// picture prepares what the backbone is shown, unless it is known already.
func (e *engine) picture(frames []*data.Picture, pixels bool) (*Picture, error) {
	key := digest(frames)
	if !pixels {
		if known := e.pictures.get(key); known != nil {
			return known, nil
		}
	}
	q, err := e.backbone.Prepare(frames...)
	if err != nil {
		return nil, err
	}
	q.key = key
	if e.visionTrained() { // what can be kept are the pixels
		e.pictures.put(q)
	}
	return q, nil
}

// graph starts a graph over this engine's parameters.
func (e *engine) graph(name string) *Graph {
	g := newGraph(name, e.backbone.Weights)
	g.adapter, g.own, g.tuned = e.adapter, e.own, e.tuned
	if e.full {
		g.trained = func(string) bool { return true }
	}
	if e.config.DType == "bfloat16" && e.onCUDA() {
		g.compute = onnx.BFloat16
	}
	return g
}

func (e *engine) onCUDA() bool { return strings.HasPrefix(e.options.Device, "cuda") }

// built returns the graph of that name without opening it.
func (e *engine) built(name string, build func(g *Graph) (*built, error)) (*built, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.make(name, build)
}

// make builds a graph, or takes it from those that wait for their session. e.mu is held.
func (e *engine) make(name string, build func(g *Graph) (*built, error)) (*built, error) {
	if b := e.graphs[name]; b != nil {
		return b, nil
	}
	b, err := build(e.graph(name))
	if err != nil {
		return nil, fmt.Errorf("building the %s graph of %s: %w", name, e.config.Backbone, err)
	}
	e.graphs[name] = b
	return b, nil
}

// session returns the session of that name, building its graph the first time.
func (e *engine) session(name string, build func(g *Graph) (*built, error)) (*session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sessions[name]; s != nil {
		return s, nil
	}
	if e.sessions == nil {
		return nil, fmt.Errorf("the scorer is closed")
	}
	if err := e.backbone.Weights.Present(); err != nil {
		return nil, err
	}
	b, err := e.make(name, build)
	if err != nil {
		return nil, err
	}
	if err := e.readTrained(b.Params); err != nil {
		return nil, err
	}
	options := ort.Options{Device: e.options.Device, Threads: e.options.Threads, Folder: e.backbone.Weights.Folder(), LowMemory: true}
	if e.small() {
		options.Threads, options.LowMemory = 1, false
	}
	e.backbone.Weights.Forget() // what was looked at so far: the sessions have their own view
	o, err := ort.Open(b.Model, options)
	if err != nil {
		return nil, fmt.Errorf("opening the %s graph of %s: %w", name, e.config.Backbone, err)
	}
	s := &session{built: b, Session: o, inputs: map[string]bool{}}
	for _, in := range b.Model.Inputs {
		s.inputs[in.Name] = true
	}
	delete(e.graphs, name)
	s.Model = nil // the runtime has its own
	e.sessions[name] = s
	return s, nil
}

// Damage names a tensor of the backbone or the scorer that holds NaN or infinities; nil if there is none.
func (e *engine) Damage() error {
	name, what, err := e.backbone.Weights.NonFinite()
	if err != nil {
		return err
	}
	if name != "" {
		return fmt.Errorf("%s: tensor %s holds %s: the backbone's weights are damaged, load them again", e.config.Backbone, name, what)
	}
	for _, name := range slices.Sorted(maps.Keys(e.own)) {
		for i, v := range e.own[name].Data().([]float32) {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("the scorer's tensor %s holds %v at index %d", name, v, i)
			}
		}
	}
	return nil
}

// Absent says what is missing of the backbone's weights; nil if they are there.
func (e *engine) Absent() error { return e.backbone.Weights.Why() }

// readTrained reads the backbone's parameters that are trained, as float32.
func (e *engine) readTrained(params []Param) (err error) {
	for _, p := range params {
		if e.own[p.Name] == nil && e.trained[p.Name] == nil {
			if e.trained[p.Name], err = e.backbone.Weights.Dense(p.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// run feeds a session what it declares: the batch and the trained parameters.
func (e *engine) run(ctx context.Context, s *session, feeds ...map[string]*tensor.Dense) (map[string]*tensor.Dense, error) {
	in := map[string]*tensor.Dense{}
	for _, f := range feeds {
		for k, v := range f {
			if s.inputs[k] {
				in[k] = v
			}
		}
	}
	for _, p := range s.Params {
		in[p.Name] = e.param(p.Name)
	}
	return s.Session.Run(ctx, in)
}

func (e *engine) param(name string) *tensor.Dense {
	if t := e.own[name]; t != nil {
		return t
	}
	return e.trained[name]
}

// values returns names and tensors of trained parameters.
func (e *engine) values(params []Param) (names []string, values []*tensor.Dense) {
	for _, p := range params {
		names, values = append(names, p.Name), append(values, e.param(p.Name))
	}
	return names, values
}

// visionTrained reports whether the image features depend on what is trained, so that they cannot be kept.
func (e *engine) visionTrained() bool {
	if e.full {
		return true
	}
	if e.adapter == nil || !e.tuned {
		return false
	}
	for _, t := range e.adapter.Targets {
		if !strings.HasPrefix(t.Module, e.backbone.Decoder().Module) {
			return true
		}
	}
	return false
}

// modules lists the backbone's layers as PEFT sees them.
func (e *engine) modules() []lora.Module { return lora.Modules(e.backbone.Weights) }

func (e *engine) packing() packing {
	return packing{vocab: int64(e.backbone.Decoder().Vocab), before: e.config.ScorePosition == "before", all: e.config.TextLoss == "all"}
}

// positions are the rotary positions of a sample on every axis, [axes][tokens].
func (e *engine) positions(s *Sample) [][]int64 {
	if axes := e.backbone.Positions(s.IDs, s.Pictures); axes != nil {
		return axes
	}
	axis := make([]int64, len(s.IDs))
	for i := range axis {
		axis[i] = int64(i)
	}
	return [][]int64{axis}
}

// Package generate answers messages with a checkpoint on this machine, by greedy decoding or sampling. Messages
// become a prompt of tokens and pictures; the engine decodes many requests together by continuous batching, and each
// answer is the same as if its request were the only one.
//
// A request occupies a slot of the KV cache. Idle slots keep their keys and values, so that a prompt that shares a
// prefix with an earlier one computes only the rest. A grammar, if one is given, masks the logits of every step.
package generate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"assay/chat"
	"assay/data"
	"assay/model/exec"
	"assay/model/language"
	"assay/model/text"
)

// Options control how a model runs. Zero values mean the defaults.
type Options struct {
	Adapter string // directory of an adapter for the checkpoint, in PEFT's format; "": none
	Device  string // cpu (default), cuda:N, auto
	Pair    string // how messages show pictures: sequence (default), frames (each two as the frames of one picture)
	DType   string // auto (on CUDA bfloat16 if the weights are half precision; default), float32, bfloat16
	Threads int    // of the CPU; 0: all cores
	// Cache is the size of the KV cache in bytes; default 2 GiB, on CUDA as much as the device has room for. A
	// request that does not fit is refused, and so is a model that leaves too little room for the cache.
	Cache int64
	Batch int               // answers generated at a time; default 8
	Warn  func(text string) // called if the device cannot compute in DType; may be nil

	on string // runs graphs built for Device on another device: for tests of GPU graphs on the CPU
}

// Model is a checkpoint that answers messages. It implements [chat.Model]; all methods are safe for concurrent use,
// and concurrent requests are batched.
type Model struct {
	lm          *language.Model
	config      *Config
	engine      *engine
	fingerprint func() (string, error)
	grammars    *grammars
}

// Over returns a Model on a language model that is already open and that the caller still owns. Of the options only
// Batch counts: the KV cache grows up to that many answers.
func Over(lm *language.Model, o Options) (*Model, error) {
	config, err := readConfig(lm.Dir())
	if err != nil {
		return nil, err
	}
	o.Batch = cmp.Or(o.Batch, 8)
	o.Cache = int64(o.Batch) * int64(lm.MaxPositions()+64) * lm.RowBytes() // an upper limit: it grows as needed
	m := &Model{lm: lm, config: config, engine: newEngine(lm, o)}
	m.fingerprint = sync.OnceValues(m.identify)
	m.grammars = newGrammars(lm)
	return m, nil
}

var _ chat.Model = (*Model)(nil)

// Open opens a Hugging Face checkpoint directory with tokenizer, chat template and generation_config.json.
func Open(dir string, o Options) (*Model, error) {
	o.Batch = cmp.Or(o.Batch, 8)
	if o.Cache < 0 || o.Batch < 0 {
		return nil, fmt.Errorf("cache of %d bytes, batch of %d: both must be positive", o.Cache, o.Batch)
	}
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	lm, err := language.Open(
		dir, o.Adapter, exec.Options{Device: o.Device, DType: o.DType, Threads: o.Threads, Pair: o.Pair, On: o.on},
	)
	if err != nil {
		return nil, err
	}
	if o.Cache, err = room(lm, o); err != nil {
		return nil, errors.Join(err, lm.Close())
	}
	if computes := lm.DType(); o.Warn != nil && o.DType == "bfloat16" && computes != o.DType {
		o.Warn(fmt.Sprintf("%s computes everything in %s instead of %s", lm.Device(), computes, o.DType))
	}
	m := &Model{lm: lm, config: config, engine: newEngine(lm, o)}
	m.fingerprint = sync.OnceValues(m.identify)
	m.grammars = newGrammars(lm)
	return m, nil
}

// room returns the size of the KV cache in bytes: the requested size, if the device has it.
func room(lm *language.Model, o Options) (int64, error) {
	const usual = 2 << 30
	if lm.Device() == "cpu" || o.on != "" {
		return cmp.Or(o.Cache, usual), nil
	}
	most, err := lm.CacheRoom()
	switch {
	case err != nil:
		return 0, err
	case o.Cache > most:
		return 0, fmt.Errorf("a cache of %d MB: next to the weights, %s has room for %d MB; choose a smaller cache",
			o.Cache>>20, lm.Device(), most>>20)
	case o.Cache > 0:
		return o.Cache, nil
	}
	return min(most, int64(o.Batch)*int64(lm.MaxPositions()+64)*lm.RowBytes()), nil
}

// identify digests the checkpoint and its generation_config.json, the dtype of the computation unless it is float32,
// and how pictures are shown unless it is one by one.
func (m *Model) identify() (string, error) {
	print, err := m.lm.Fingerprint()
	if err != nil {
		return "", err
	}
	config, err := os.ReadFile(filepath.Join(m.lm.Dir(), "generation_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if m.lm.DType() != "float32" {
		print += "\n" + m.lm.DType()
	}
	if m.lm.Frames() {
		print += "\nframes"
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(print+"\n"+string(config)))), nil
}

// Fingerprint is a digest of the checkpoint's files; "" if they are no longer readable.
func (m *Model) Fingerprint() string {
	print, err := m.fingerprint()
	if err != nil {
		return ""
	}
	return print
}

// Frames implements [chat.Framer].
func (m *Model) Frames() bool { return m.lm.Frames() }

// Config returns the checkpoint's generation_config.json.
func (m *Model) Config() Config { return *m.config }

// Decode returns the text of tokens, without special tokens.
func (m *Model) Decode(ids []int64) (string, error) { return m.lm.Decode(ids) }

// Close ends all answers with an error and frees the model.
func (m *Model) Close() error { return errors.Join(m.engine.close(), m.lm.Close()) }

// Chat implements [chat.Model].
func (m *Model) Chat(ctx context.Context, messages []chat.Message, o chat.Options) (*chat.Answer, error) {
	return m.Stream(ctx, messages, o, nil)
}

// Stream is Chat that passes the text to piece as it is generated; all pieces together are the answer's text. An
// error returned by piece ends the answer.
func (m *Model) Stream(
	ctx context.Context, messages []chat.Message, o chat.Options, piece func(text string) error,
) (*chat.Answer, error) {
	r, err := m.request(ctx, messages, o)
	if m.engine.ctx.Err() != nil {
		return nil, errClosed
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", chat.ErrRequest, err)
	}
	r.piece = piece
	if err := m.unchanged(); err != nil {
		return nil, err
	}
	a, err := m.engine.do(r)
	if changed := m.unchanged(); changed != nil { // meanwhile: the answer may come from a mix of both versions
		return nil, changed
	}
	return a, err
}

// unchanged returns an error if the weights changed: nothing can be answered any more.
func (m *Model) unchanged() error {
	if err := m.lm.Unchanged(); err != nil {
		return fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return nil
}

// request builds a request from messages and options.
func (m *Model) request(ctx context.Context, messages []chat.Message, o chat.Options) (*request, error) {
	config, err := m.config.with(o)
	if err != nil {
		return nil, err
	}
	for _, id := range o.StopTokenIDs {
		if id < 0 || id >= int64(m.lm.Vocab()) {
			return nil, fmt.Errorf("stop_token_ids: %d is not one of the model's %d tokens", id, m.lm.Vocab())
		}
	}
	p, err := m.prompt(messages)
	if err != nil {
		return nil, err
	}
	r := newRequest(ctx, p, config.most(len(p.IDs), m.lm.Room(p)))
	r.cut = config.wanted(len(p.IDs)) > r.most
	r.sampler, r.stop, r.logProbs, r.end = newSampler(config, o.Seed), o.Stop, o.LogProbs, map[int64]bool{}
	for _, ids := range [][]int64{config.End, o.StopTokenIDs} {
		for _, id := range ids {
			r.end[id] = true
		}
	}
	if o.Grammar != nil {
		if err := m.grammars.constrain(r, o.Grammar); err != nil {
			return nil, err
		}
	}
	return r, m.engine.fits(r)
}

// prompt turns messages into tokens and pictures.
func (m *Model) prompt(messages []chat.Message) (*language.Prompt, error) {
	turns := make([]text.Message, len(messages))
	var pictures []*data.Picture
	for i, message := range messages {
		if err := message.CheckRole(); err != nil { // chat templates render any role
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		turns[i].Role = message.Role
		for _, part := range message.Content {
			if part.Image != nil {
				pictures = append(pictures, part.Image)
			}
			turns[i].Content = append(turns[i].Content, text.Content{Image: part.Image != nil, Text: part.Text})
		}
	}
	return m.lm.Prompt(turns, pictures)
}

// Likelihood is the likelihood of a text as an answer.
type Likelihood struct {
	Text     string
	TokenIDs []int64   // of the text only, without special tokens
	LogProbs []float64 // by token; their sum is log P(text)
}

// LogProb returns log P(text).
func (l *Likelihood) LogProb() float64 {
	sum := 0.0
	for _, v := range l.LogProbs {
		sum += v
	}
	return sum
}

// Likelihoods returns the likelihood of each text as the start of an answer to the messages.
func (m *Model) Likelihoods(ctx context.Context, messages []chat.Message, texts ...string) ([]Likelihood, error) {
	bad := func(err error) ([]Likelihood, error) { return nil, fmt.Errorf("%w: %w", chat.ErrRequest, err) }
	p, err := m.prompt(messages)
	if err != nil {
		return bad(err)
	}
	r := newRequest(ctx, p, 1)
	for _, t := range texts {
		ids, err := m.lm.Encode(t)
		if err == nil && len(ids) == 0 {
			err = errors.New("an empty text is not an answer")
		}
		if err != nil {
			return bad(err)
		}
		r.most = max(r.most, len(ids))
		r.answers = append(r.answers, Likelihood{Text: t, TokenIDs: ids})
	}
	if room := m.lm.Room(p); r.most > room {
		return bad(fmt.Errorf("an answer has %d tokens, but the context has room for %d", r.most, room))
	}
	if err := m.engine.fits(r); err != nil {
		return bad(err)
	}
	if _, err := m.engine.do(r); err != nil {
		return nil, err
	}
	return r.answers, nil
}

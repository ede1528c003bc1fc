// Package generate answers messages with a checkpoint on this machine: greedily or by sampling, many requests at a
// time, each as if it were alone.
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

// Options say how a model runs. Zero values stand for the defaults.
type Options struct {
	Adapter string // directory of an adapter over the checkpoint, in PEFT's files; "": none
	Device  string // cpu (default), cuda:N, auto
	Pair    string // how messages show pictures: sequence (default), frames (each two as the frames of one)
	DType   string // auto (on CUDA bfloat16 if the weights are half precision; default), float32, bfloat16
	Threads int    // of the CPU; 0: all cores
	// Cache is the bytes of keys and values; default 2 GiB, on CUDA what the device has room for. A request that does not
	// fit is refused, and so is a model that leaves no room for so much.
	Cache int64
	Batch int               // answers that are made at a time; default 8
	Warn  func(text string) // called if the device does not compute in DType; may be nil

	on string // device that runs what is made for Device: tests, of a GPU's graphs on the CPU
}

// Model is a checkpoint that answers. It implements [chat.Model]; all methods are safe for concurrent use, and requests
// that come together are answered together.
type Model struct {
	lm          *language.Model
	config      *Config
	engine      *engine
	fingerprint func() (string, error)
	grammars    *grammars
}

// Over is a model that answers by one that is open, and stays the caller's. Options.Batch, whose keys and values it
// takes memory for, is all that counts of the options.
func Over(lm *language.Model, o Options) (*Model, error) {
	config, err := readConfig(lm.Dir())
	if err != nil {
		return nil, err
	}
	o.Batch = cmp.Or(o.Batch, 8)
	o.Cache = int64(o.Batch) * int64(lm.MaxPositions()+64) * lm.RowBytes() // at most: it is made as large as needed
	m := &Model{lm: lm, config: config, engine: newEngine(lm, o)}
	m.fingerprint = sync.OnceValues(m.identify)
	m.grammars = newGrammars(lm)
	return m, nil
}

var _ chat.Model = (*Model)(nil)

// Open opens a Hugging Face checkpoint directory with tokenizer, chat template and generation_config.json.
func Open(dir string, o Options) (*Model, error) {
	if o.Batch == 0 {
		o.Batch = 8
	}
	if o.Cache < 0 || o.Batch < 0 {
		return nil, fmt.Errorf("a cache of %d bytes and a batch of %d: both must be positive", o.Cache, o.Batch)
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
		o.Warn(fmt.Sprintf("on %s all is computed in %s, not in %s", lm.Device(), computes, o.DType))
	}
	m := &Model{lm: lm, config: config, engine: newEngine(lm, o)}
	m.fingerprint = sync.OnceValues(m.identify)
	m.grammars = newGrammars(lm)
	return m, nil
}

// room is the bytes of keys and values that a model may take: those that are wanted, if the device has them.
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
		return 0, fmt.Errorf("a cache of %d MB: beside the weights %s has room for %d MB of keys and values: allow less",
			o.Cache>>20, lm.Device(), most>>20)
	case o.Cache > 0:
		return o.Cache, nil
	}
	return min(most, int64(o.Batch)*int64(lm.MaxPositions()+64)*lm.RowBytes()), nil
}

// identify digests the checkpoint and its generation_config.json, the type that is computed with unless it is float32,
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

// Fingerprint is a digest of the checkpoint's files; "" if they cannot be read any more.
func (m *Model) Fingerprint() string {
	print, err := m.fingerprint()
	if err != nil {
		return ""
	}
	return print
}

// Config is the checkpoint's generation_config.json.
func (m *Model) Config() Config { return *m.config }

// Decode returns the text of tokens, without special ones.
func (m *Model) Decode(ids []int64) (string, error) { return m.lm.Decode(ids) }

// Close ends all answers with an error and frees the model.
func (m *Model) Close() error { return errors.Join(m.engine.close(), m.lm.Close()) }

// Chat implements [chat.Model].
func (m *Model) Chat(ctx context.Context, messages []chat.Message, o chat.Options) (*chat.Answer, error) {
	return m.Stream(ctx, messages, o, nil)
}

// Stream is Chat that tells the text in pieces as it is made; all pieces together are the answer's text. An error of
// piece ends the answer.
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
	if err := m.lm.Unchanged(); err != nil {
		return nil, err
	}
	a, err := m.engine.do(r)
	if changed := m.lm.Unchanged(); changed != nil { // meanwhile: the answer may be of neither
		return nil, changed
	}
	return a, err
}

// request reads messages and options.
func (m *Model) request(ctx context.Context, messages []chat.Message, o chat.Options) (*request, error) {
	config, err := m.config.with(o)
	if err != nil {
		return nil, err
	}
	for _, id := range o.StopTokenIDs {
		if id < 0 || id >= int64(m.lm.Vocab()) {
			return nil, fmt.Errorf("stop_token_ids: %d is none of the model's %d tokens", id, m.lm.Vocab())
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
		if err := message.CheckRole(); err != nil { // templates write whatever name they are given
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

// Likelihood is how likely a text is as an answer.
type Likelihood struct {
	Text     string
	TokenIDs []int64   // of the text alone, without special tokens
	LogProbs []float64 // by token; their sum is log P(text)
}

// LogProb is log P(text).
func (l *Likelihood) LogProb() float64 {
	sum := 0.0
	for _, v := range l.LogProbs {
		sum += v
	}
	return sum
}

// Likelihoods returns how likely each text is as the beginning of an answer to the messages.
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
			err = errors.New("an empty text is no answer")
		}
		if err != nil {
			return bad(err)
		}
		r.most = max(r.most, len(ids))
		r.answers = append(r.answers, Likelihood{Text: t, TokenIDs: ids})
	}
	if room := m.lm.Room(p); r.most > room {
		return bad(fmt.Errorf("an answer has %d tokens, there is room for %d", r.most, room))
	}
	if err := m.engine.fits(r); err != nil {
		return bad(err)
	}
	if _, err := m.engine.do(r); err != nil {
		return nil, err
	}
	return r.answers, nil
}

package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/data"
	"assay/model/text"
)

// Pair is a question about an edit.
type Pair struct {
	Source, Edit *data.Picture
	Instruction  string
	Question     string // template; "": the scorer's
	Answer       string // template; "": the scorer's
	Requirement  string // what the edit must also fulfil, for scorers whose prompts ask about it
	Pixels       bool   // keep the pixels, for PixelGradient

	// Load reads the two pictures, instead of Source and Edit. It is not called while those of Key are in the cache.
	Load func() (source, edit *data.Picture, err error)
	Key  string // identifies the two pictures; "": nothing does

	Shared *Shared // with other scorers that are asked about these pictures; nil: nothing is
}

// preparer turns pairs into samples: the tokens of a text, and pictures as the vision tower takes them.
type preparer struct {
	*network
	text     *text.Processor
	pictures *pictureCache
}

// newPreparer opens the tokenizer and the chat template, and compares them with the network's configuration.
func newPreparer(n *network, pictures *pictureCache) (*preparer, error) {
	c, vocab := n.config, int64(n.backbone.Decoder().Vocab)
	options := []text.Option{text.WithTemplate(c.ChatTemplate)}
	if c.Format == 2 {
		options = append(options, text.WithOwnToken())
	}
	t, err := text.Open(c.Backbone, c.token(), vocab, options...)
	if err != nil {
		return nil, err
	}
	p := &preparer{network: n, text: t, pictures: pictures}
	if err := p.checkTokens(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return p, nil
}

// checkTokens compares the tokenizer's placeholder of pictures with the model's, and looks for the end of a turn.
func (p *preparer) checkTokens() error {
	if err := checkPlaceholder(p.text, p.backbone); err != nil {
		return err
	}
	if p.config.EndOfTurn == "" {
		return nil
	}
	if _, err := p.text.ID(p.config.EndOfTurn); err != nil {
		return fmt.Errorf("end_of_turn: %w", err)
	}
	return nil
}

// checkPlaceholder compares the tokenizer's placeholder of pictures with that of config.json, by which transformers
// finds them.
func checkPlaceholder(t *text.Processor, b *Backbone) error {
	id, err := t.ID(b.Placeholder())
	if want := b.Decoder().ImageToken; err == nil && int64(id) != want {
		err = fmt.Errorf("the tokenizer's %s is token %d, config.json's image token %d: they do not belong together",
			b.Placeholder(), id, want)
	}
	if err != nil {
		return fmt.Errorf("%s: placeholder of pictures: %w", b.Dir, err)
	}
	return nil
}

// Prepare turns a pair into tokens and pictures. It is safe for concurrent use.
func (p *preparer) Prepare(pair Pair) (*Sample, error) {
	if p.config.Format == 2 {
		return p.prepareJudge(pair)
	}
	if strings.TrimSpace(pair.Instruction) == "" {
		return nil, fmt.Errorf("the instruction is empty")
	}
	s := &Sample{}
	if !pair.Pixels {
		s.Pictures = p.pictures.pair(pair.Key)
	}
	var err error
	if s.Pictures == nil {
		if s.Pictures, err = p.preparePictures(pair); err != nil {
			return nil, err
		}
	}
	if s.Tokens, err = p.tokens(pair, pictureTokens(s.Pictures)); err != nil {
		return nil, err
	}
	last := int64(0)
	for _, axis := range p.positions(s) {
		last = max(last, slices.Max(axis))
	}
	return s, p.backbone.Decoder().longest(last)
}

// pictureTokens are the tokens of each picture.
func pictureTokens(pictures []*Picture) []int {
	counts := make([]int, len(pictures))
	for i, q := range pictures {
		counts[i] = q.Tokens
	}
	return counts
}

// preparePictures loads the pictures of a pair if need be, arranges them, and makes what the vision tower takes.
func (p *preparer) preparePictures(pair Pair) (out []*Picture, err error) {
	if pair.Load != nil {
		if pair.Source, pair.Edit, err = pair.Load(); err != nil {
			return nil, err
		}
	}
	k := p.shared(&pair, p.config.Pair, p.config.PairSize)
	if !pair.Pixels {
		if out = pair.Shared.get(k); out != nil {
			return out, nil
		}
	}
	joined, err := Join(p.config.Pair, p.config.PairSize, pair.Source, pair.Edit)
	if err != nil {
		return nil, err
	}
	for _, frames := range joined {
		q, err := p.picture(frames, pair.Pixels)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	p.pictures.putPair(pair.Key, out)
	if !pair.Pixels {
		pair.Shared.put(k, out)
	}
	return out, nil
}

// picture prepares what the backbone is shown, unless it is in the cache and its pixels are not wanted.
func (p *preparer) picture(frames []*data.Picture, pixels bool) (*Picture, error) {
	key := digest(frames)
	if !pixels {
		if known := p.pictures.get(key); known != nil {
			return known, nil
		}
	}
	if !pixels {
		if twin := p.pictures.prepared(key); twin != nil {
			return twin, nil
		}
	}
	q, err := p.backbone.Prepare(frames...)
	if err != nil {
		return nil, err
	}
	q.key = key
	p.pictures.remember(q)
	if p.visionTrained() { // features change with every step: what can be kept are the pixels
		p.pictures.put(q)
	}
	return q, nil
}

// tokens asks about pictures of that many tokens each.
func (p *preparer) tokens(pair Pair, counts []int) (t text.Tokens, err error) {
	if strings.TrimSpace(pair.Instruction) == "" {
		return t, fmt.Errorf("the instruction is empty")
	}
	question, answer := p.config.Question, p.config.Answer
	if pair.Question != "" {
		question = pair.Question
	}
	if pair.Answer != "" {
		answer = pair.Answer
	}
	before := len(counts)
	if p.config.Layout == InstructionFirst {
		before--
	}
	prompt, err := p.text.PromptAmong(len(counts), before, strings.ReplaceAll(question, InstructionMark, pair.Instruction))
	if err != nil {
		return t, err
	}
	if t, err = p.text.Encode(prompt, answer, p.endOfTurn(), p.backbone.Placeholder(), counts); err != nil {
		return t, err
	}
	_, err = p.textTokens(t.IDs, counts, "instruction")
	return t, err
}

// textTokens is how many of the ids are no picture's. Pictures are bounded by their tiles, and published checkpoints go
// beyond their positions with them; a text that does is an error, which says what to shorten.
func (p *preparer) textTokens(ids []int64, counts []int, what string) (int, error) {
	n := len(ids)
	for _, c := range counts {
		n -= c
	}
	if most := p.backbone.Decoder().MaxPositions; n > most {
		return n, fmt.Errorf("the text has %d tokens, the model's max_position_embeddings are %d: shorten the %s",
			n, most, what)
	}
	return n, nil
}

// CheckText gives the error that Prepare would give about the text of a pair, whatever the pictures are.
func (p *preparer) CheckText(pair Pair) error {
	if p.config.Format == 2 {
		return p.checkJudgeText(pair)
	}
	_, err := p.tokens(pair, p.onePerPicture())
	return err
}

// onePerPicture stands for the tokens of a pair's pictures where these do not matter.
func (p *preparer) onePerPicture() []int {
	if p.config.Pair == Sequence {
		return []int{1, 1}
	}
	return []int{1}
}

func (p *preparer) endOfTurn() string {
	for _, t := range []string{p.config.EndOfTurn, p.backbone.EndOfTurn()} {
		if t != "" {
			return t
		}
	}
	return p.text.EndOfSequence()
}

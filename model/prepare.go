package model

import (
	"errors"
	"fmt"
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
	if !c.ownToken() {
		options = append(options, text.WithOwnToken())
	}
	t, err := text.Open(c.Backbone, c.asPasses().token(), vocab, options...)
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

// Prepare turns a pair into tokens and pictures: a sample for every pass, which share the pictures that they share.
// It is safe for concurrent use.
func (p *preparer) Prepare(pair Pair) (*Sample, error) {
	if err := p.checkTexts(pair); err != nil {
		return nil, err
	}
	known := map[string][]*Picture{}
	var first *Sample
	for i := range p.spec.Passes {
		q := &p.spec.Passes[i]
		if known[q.shown()] == nil {
			var err error
			if known[q.shown()], err = p.passPictures(&pair, q); err != nil {
				return nil, err
			}
		}
		s, err := p.ask(q, pair, known[q.shown()])
		if err != nil {
			return nil, err
		}
		if s.pass = i; first == nil {
			first = s
		} else {
			first.rest = append(first.rest, s)
		}
	}
	return first, nil
}

// checkTexts refuses texts of a pair that the scorer has no place for, and an empty instruction where all prompts ask
// about it.
func (p *preparer) checkTexts(pair Pair) error {
	switch {
	case p.spec.ownToken() && strings.TrimSpace(pair.Instruction) == "":
		return fmt.Errorf("the instruction is empty")
	case !p.spec.ownToken() && (pair.Question != "" || pair.Answer != ""):
		return fmt.Errorf("a scorer of format 2 has prompts of its own: no question or answer goes with a pair")
	}
	return nil
}

// pictureTokens are the tokens of each picture.
func pictureTokens(pictures []*Picture) []int {
	counts := make([]int, len(pictures))
	for i, q := range pictures {
		counts[i] = q.Tokens
	}
	return counts
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

// textTokens is how many of n tokens belong to no picture. Pictures are bounded by their tiles, and published
// checkpoints go beyond their positions with them; a text that does is an error, which says what to shorten.
func (p *preparer) textTokens(n int, counts []int, what string) (int, error) {
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
	if err := p.checkTexts(pair); err != nil {
		return err
	}
	for i := range p.spec.Passes {
		q := &p.spec.Passes[i]
		counts := q.onePerPicture()
		t, err := p.passTokens(q, pair, counts)
		if h := p.spec.joint(q); err == nil && h != nil {
			_, err = p.choiceSamples(q, h, pair, &Sample{Tokens: t}, counts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *preparer) endOfTurn() string {
	for _, t := range []string{p.config.EndOfTurn, p.backbone.EndOfTurn()} {
		if t != "" {
			return t
		}
	}
	return p.text.EndOfSequence()
}

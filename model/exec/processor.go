package exec

import (
	"errors"
	"fmt"

	"assay/data"
	"assay/model/backbone"
	"assay/model/text"
)

// ProcessorOptions are a configuration's settings for texts.
type ProcessorOptions struct {
	ChatTemplate string // Jinja; "": the checkpoint's
	EndOfTurn    string // token that ends an answer; "": the family's
	Numbers      string // text before each picture: see text.WithNumbers
	Pair         string // how messages show pictures: see CheckPair
	Token        string // the score token; "": there is none
	AddsToken    bool   // it is not a row of the vocabulary
}

// Processor turns texts and pictures into inputs: a tokenizer with its chat template, and the backbone's image
// processor.
type Processor struct {
	Text      *text.Processor
	Pictures  *PictureCache
	net       *Network
	endOfTurn string
	pair      string
}

// newProcessor opens the tokenizer and the chat template, and compares them with the network's configuration.
func newProcessor(n *Network, pictures *PictureCache, o ProcessorOptions) (*Processor, error) {
	if err := CheckPair(o.Pair); err != nil {
		return nil, fmt.Errorf("pair: %w", err)
	}
	if o.Pair != "" && !n.Backbone.CanPair(o.Pair) {
		return nil, fmt.Errorf("pair: the backbone %s cannot show two pictures as %q", n.Backbone.Dir, o.Pair)
	}
	options := []text.Option{text.WithTemplate(o.ChatTemplate), text.WithNumbers(o.Numbers, n.Backbone.Placeholder())}
	if !o.AddsToken {
		options = append(options, text.WithOwnToken())
	}
	t, err := text.Open(n.Backbone.Dir, o.Token, int64(n.Backbone.Decoder().Vocab), options...)
	if err != nil {
		return nil, err
	}
	p := &Processor{Text: t, Pictures: pictures, net: n, endOfTurn: o.EndOfTurn, pair: o.Pair}
	if err := p.checkTokens(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return p, nil
}

// Close frees the tokenizer.
func (p *Processor) Close() error { return p.Text.Close() }

// checkTokens compares the tokenizer's picture placeholder with the model's, and checks that the end of a turn exists.
func (p *Processor) checkTokens() error {
	if err := checkPlaceholder(p.Text, p.net.Backbone); err != nil {
		return err
	}
	if p.endOfTurn == "" {
		return nil
	}
	if _, err := p.Text.ID(p.endOfTurn); err != nil {
		return fmt.Errorf("end_of_turn: %w", err)
	}
	return nil
}

// checkPlaceholder compares the tokenizer's picture placeholder with the one in config.json, which transformers uses to
// find pictures.
func checkPlaceholder(t *text.Processor, b *backbone.Backbone) error {
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

// Picture prepares the backbone's visual input, unless it is cached and its pixels are not needed.
func (p *Processor) Picture(frames []*data.Picture, pixels bool) (*backbone.Picture, error) {
	key := PictureKey(frames)
	if !pixels {
		if known := p.Pictures.Get(key); known != nil {
			return known, nil
		}
		if twin := p.Pictures.Prepared(key); twin != nil {
			return twin, nil
		}
	}
	q, err := p.net.Backbone.Prepare(frames...)
	if err != nil {
		return nil, err
	}
	q.Key = key
	p.Pictures.Remember(q)
	if p.net.VisionTrained() { // features change with every step: only the pixels can be cached
		p.Pictures.Put(q)
	}
	return q, nil
}

// WordTokens returns how many of n tokens do not belong to a picture. Pictures are bounded by their tiles, and
// published checkpoints exceed their positions with them; a text that does is an error, which names what to shorten.
func (p *Processor) WordTokens(n int, counts []int, what string) (int, error) {
	for _, c := range counts {
		n -= c
	}
	if most := p.net.Backbone.Decoder().MaxPositions; n > most {
		return n, fmt.Errorf("the text has %d tokens, the model's max_position_embeddings are %d: shorten the %s",
			n, most, what)
	}
	return n, nil
}

// EndOfTurn returns the token that ends an answer.
func (p *Processor) EndOfTurn() string {
	for _, t := range []string{p.endOfTurn, p.net.Backbone.EndOfTurn()} {
		if t != "" {
			return t
		}
	}
	return p.Text.EndOfSequence()
}

package model

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"assay/data"
	"assay/edit"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/text"
)

// Ask says how an edit becomes a sample. The zero value is what scoring does.
type Ask struct {
	Question string  // template; "": the scorer's
	Answer   string  // template; "": the scorer's
	Pixels   bool    // keep the pixels, for PixelGradient
	Shared   *Shared // pictures prepared for other scorers that are asked about the same edit; nil: none
}

// preparer turns edits into samples: the tokens of a text, and pictures as the vision tower takes them.
type preparer struct {
	config   *ScorerConfig
	net      *exec.Network
	text     *text.Processor
	pictures *exec.PictureCache
}

// newPreparer opens the tokenizer and the chat template, and compares them with the network's configuration.
func newPreparer(c *ScorerConfig, n *exec.Network, pictures *exec.PictureCache) (*preparer, error) {
	vocab := int64(n.Backbone.Decoder().Vocab)
	options := []text.Option{text.WithTemplate(c.ChatTemplate)}
	if !c.AddsToken() {
		options = append(options, text.WithOwnToken())
	}
	t, err := text.Open(c.Backbone, c.token(), vocab, options...)
	if err != nil {
		return nil, err
	}
	p := &preparer{config: c, net: n, text: t, pictures: pictures}
	if err := p.checkTokens(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return p, nil
}

// checkTokens compares the tokenizer's placeholder of pictures with the model's, and looks for the end of a turn.
func (p *preparer) checkTokens() error {
	if err := checkPlaceholder(p.text, p.net.Backbone); err != nil {
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

// Sample turns an edit into tokens and pictures: a sample for every pass. Passes share the pictures that both show. It is
// safe for concurrent use.
func (p *preparer) Sample(e *edit.Edit, a Ask) (*batch.Sample, error) {
	if err := p.checkTexts(e, a); err != nil {
		return nil, err
	}
	return p.sample(e, a, sync.OnceValues(func() (shownPictures, error) { return p.config.decode(e) }))
}

func (p *preparer) sample(e *edit.Edit, a Ask, decode func() (shownPictures, error)) (*batch.Sample, error) {
	known := map[string][]*backbone.Picture{}
	var first *batch.Sample
	for i := range p.config.Passes {
		q := &p.config.Passes[i]
		if known[q.shown()] == nil {
			var err error
			if known[q.shown()], err = p.passPictures(e, a, q, decode); err != nil {
				return nil, err
			}
		}
		s, err := p.ask(q, e, a, known[q.shown()])
		if err != nil {
			return nil, err
		}
		if s.Pass = i; first == nil {
			first = s
		} else {
			first.Rest = append(first.Rest, s)
		}
	}
	return first, nil
}

// checkTexts refuses texts that the scorer has no place for, and an empty instruction where all prompts ask about it.
func (p *preparer) checkTexts(e *edit.Edit, a Ask) error {
	switch {
	case p.config.AddsToken() && strings.TrimSpace(e.Instruction) == "":
		return fmt.Errorf("the instruction is empty")
	case !p.config.AddsToken() && (a.Question != "" || a.Answer != ""):
		return fmt.Errorf("a scorer of format 2 has prompts of its own: no question or answer goes with an edit")
	}
	return nil
}

// picture prepares what the backbone is shown, unless it is in the cache and its pixels are not wanted.
func (p *preparer) picture(frames []*data.Picture, pixels bool) (*backbone.Picture, error) {
	key := exec.PictureKey(frames)
	if !pixels {
		if known := p.pictures.Get(key); known != nil {
			return known, nil
		}
	}
	if !pixels {
		if twin := p.pictures.Prepared(key); twin != nil {
			return twin, nil
		}
	}
	q, err := p.net.Backbone.Prepare(frames...)
	if err != nil {
		return nil, err
	}
	q.Key = key
	p.pictures.Remember(q)
	if p.net.VisionTrained() { // features change with every step: what can be kept are the pixels
		p.pictures.Put(q)
	}
	return q, nil
}

// textTokens is how many of n tokens belong to no picture. Pictures are bounded by their tiles, and published
// checkpoints go beyond their positions with them; a text that does is an error, which says what to shorten.
func (p *preparer) textTokens(n int, counts []int, what string) (int, error) {
	for _, c := range counts {
		n -= c
	}
	if most := p.net.Backbone.Decoder().MaxPositions; n > most {
		return n, fmt.Errorf("the text has %d tokens, the model's max_position_embeddings are %d: shorten the %s",
			n, most, what)
	}
	return n, nil
}

// CheckText gives the error that Sample would give about the text of an edit, whatever its pictures are.
func (p *preparer) CheckText(e *edit.Edit, a Ask) error {
	if err := p.checkTexts(e, a); err != nil {
		return err
	}
	for i := range p.config.Passes {
		q := &p.config.Passes[i]
		counts := q.onePerPicture()
		t, err := p.passTokens(q, e, a, counts)
		if h := p.config.joint(q); err == nil && h != nil {
			_, err = p.choiceSamples(q, h, e, &batch.Sample{Tokens: t}, counts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *preparer) endOfTurn() string {
	for _, t := range []string{p.config.EndOfTurn, p.net.Backbone.EndOfTurn()} {
		if t != "" {
			return t
		}
	}
	return p.text.EndOfSequence()
}

package model

import (
	"fmt"
	"slices"
	"strings"

	"assay/model/text"
)

// token is the score token of a scorer, "" if it has none.
func (c *ScorerConfig) token() string {
	if c.Format != 2 {
		return c.ScoreToken
	}
	for _, q := range c.Passes {
		if q.Token != "" {
			return q.Token
		}
	}
	return ""
}

// prepareJudge is Prepare of format 2: a sample for every pass, which share the pictures that they share.
func (p *preparer) prepareJudge(pair Pair) (*Sample, error) {
	if pair.Question != "" || pair.Answer != "" {
		return nil, fmt.Errorf("a scorer of format 2 has prompts of its own: no question or answer goes with a pair")
	}
	known := map[string][]*Picture{}
	var first *Sample
	for i := range p.config.Passes {
		q := &p.config.Passes[i]
		key := strings.Join(q.Pictures, "+")
		if known[key] == nil {
			var err error
			if known[key], err = p.passPictures(&pair, q, key); err != nil {
				return nil, err
			}
		}
		s, err := p.ask(q, pair, known[key])
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

// passPictures loads the pictures of a pair if need be, arranges them for a pass, and makes what the tower takes.
func (p *preparer) passPictures(pair *Pair, q *PassConfig, how string) (out []*Picture, err error) {
	key := ""
	if pair.Key != "" {
		key = pair.Key + " " + how
	}
	if !pair.Pixels {
		if out = p.pictures.pair(key); out != nil {
			return out, nil
		}
	}
	if pair.Load != nil {
		if pair.Source, pair.Edit, err = pair.Load(); err != nil {
			return nil, err
		}
		pair.Load = nil
	}
	k := p.shared(pair, how, p.config.PairSize, p.config.Alpha, p.config.Pixels)
	if !pair.Pixels {
		if out = pair.Shared.get(k); out != nil {
			return out, nil
		}
	}
	shown, err := p.config.show(q, pair.Source, pair.Edit)
	if err != nil {
		return nil, err
	}
	for _, frames := range shown {
		picture, err := p.picture(frames, pair.Pixels)
		if err != nil {
			return nil, err
		}
		out = append(out, picture)
	}
	p.pictures.putPair(key, out)
	if !pair.Pixels {
		pair.Shared.put(k, out)
	}
	return out, nil
}

// ask makes the sample of a pass.
func (p *preparer) ask(q *PassConfig, pair Pair, pictures []*Picture) (*Sample, error) {
	counts := make([]int, len(pictures))
	for i, picture := range pictures {
		counts[i] = picture.Tokens
	}
	t, err := p.passTokens(q, pair, counts)
	if err != nil {
		return nil, err
	}
	s := &Sample{Tokens: t, Pictures: pictures}
	if h := p.config.joint(q); h != nil {
		if s.choices, err = p.choiceSamples(q, h, pair, s, counts); err != nil {
			return nil, err
		}
	}
	last := int64(0)
	for _, axis := range p.positions(s) {
		last = max(last, slices.Max(axis))
	}
	return s, p.backbone.Decoder().longest(last + int64(q.Steps))
}

// passTokens asks a pass's question about pictures of that many tokens each. ScoreIndex is the state that is read.
func (p *preparer) passTokens(q *PassConfig, pair Pair, counts []int) (t text.Tokens, err error) {
	prompt, err := p.text.Ask(len(counts), text.Question{Text: string(q.Prompt), Marks: []text.Mark{
		{Mark: InstructionMark, Text: pair.Instruction}, {Mark: RequirementMark, Text: pair.Requirement},
	}})
	if err != nil {
		return t, err
	}
	t, err = p.text.EncodePrompt(prompt, string(q.Answer), p.backbone.Placeholder(), counts)
	if err != nil {
		return t, err
	}
	n := len(t.IDs) + q.Steps
	for _, c := range counts {
		n -= c
	}
	if most := p.backbone.Decoder().MaxPositions; n > most {
		return t, fmt.Errorf("the text has %d tokens, the model's max_position_embeddings are %d: shorten the instruction",
			n, most)
	}
	at := t.ScoreIndex
	switch {
	case q.Steps > 0 || q.Position == "last":
		at = len(t.IDs) - 1
	case at < 0:
		return t, fmt.Errorf("the tokenizer does not keep %s as one token of the prompt of pass %s", q.Token, q.Name)
	case q.Position == "before":
		at--
	}
	if t.ScoreIndex = at; at < 1 {
		return t, fmt.Errorf("pass %s reads the state of token %d: there must be one before it", q.Name, at)
	}
	return t, nil
}

// checkJudgeText is CheckText of format 2.
func (p *preparer) checkJudgeText(pair Pair) error {
	for i := range p.config.Passes {
		q := &p.config.Passes[i]
		pictures := 1
		if q.Pictures[0] != Concat && q.Pictures[0] != Frames {
			pictures = len(q.Pictures)
		}
		counts := slices.Repeat([]int{1}, pictures)
		t, err := p.passTokens(q, pair, counts)
		if h := p.config.joint(q); err == nil && h != nil {
			_, err = p.choiceSamples(q, h, pair, &Sample{Tokens: t}, counts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package model

import (
	"fmt"
	"strings"
	"sync"

	"assay/edit"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
)

// Ask says how an edit becomes a sample. The zero value is what scoring does.
type Ask struct {
	Question string  // template; "": the scorer's
	Answer   string  // template; "": the scorer's
	Why      string  // replaces [WHY] in Answer: the reason of an edit's label, whose tokens train with the answer's
	Pixels   bool    // keep the pixels, for PixelGradient
	Shared   *Shared // pictures prepared for other scorers that are asked about the same edit; nil: none
}

// preparer turns edits into samples: the tokens of a text, and pictures as the vision tower takes them.
type preparer struct {
	config *ScorerConfig
	net    *exec.Network
	*exec.Processor
}

// Sample turns an edit into tokens and pictures: a sample for every pass. Passes share the pictures that both show. It
// is safe for concurrent use.
func (p *preparer) Sample(e *edit.Edit, a Ask) (*batch.Sample, error) {
	if err := p.check(e, a); err != nil {
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

// check refuses texts and sources that the scorer has no place for, and an empty instruction where all prompts ask
// about it.
func (p *preparer) check(e *edit.Edit, a Ask) error {
	switch {
	case p.config.AddsToken() && strings.TrimSpace(e.Instruction) == "":
		return fmt.Errorf("the instruction is empty")
	case !p.config.AddsToken() && (a.Question != "" || a.Answer != ""):
		return fmt.Errorf("a scorer of format 2 has prompts of its own: no question or answer goes with an edit")
	}
	info := edit.Info{Sources: p.config.sources()}
	return info.CheckSources(e)
}

// CheckText gives the error that Sample would give about the text of an edit, whatever its pictures are.
func (p *preparer) CheckText(e *edit.Edit, a Ask) error {
	if err := p.check(e, a); err != nil {
		return err
	}
	for i := range p.config.Passes {
		q := &p.config.Passes[i]
		counts := p.config.onePerPicture(q, len(e.Sources))
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

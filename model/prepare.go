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

// Ask configures how an edit becomes a sample. The zero value is for scoring.
type Ask struct {
	Question string  // template; "": the scorer's
	Answer   string  // template; "": the scorer's
	Why      string  // replaces [WHY] in Answer: the reason of an edit's label, whose tokens train with the answer's
	Pixels   bool    // keep the pixels, for PixelGradient
	Shared   *Shared // pictures that other scorers of the same edit have prepared; nil: none
}

// preparer turns edits into samples: text tokens, and pictures preprocessed for the vision tower.
type preparer struct {
	config *ScorerConfig
	net    *exec.Network
	*exec.Processor
}

// Sample turns an edit into tokens and pictures: a sample for every pass. Passes that show the same
// pictures share them. It is safe for concurrent use.
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

// check refuses texts and sources that the scorer cannot use, and an empty instruction if all prompts need it.
func (p *preparer) check(e *edit.Edit, a Ask) error {
	switch {
	case p.config.AddsToken() && strings.TrimSpace(e.Instruction) == "":
		return fmt.Errorf("the instruction is empty")
	case !p.config.AddsToken() && (a.Question != "" || a.Answer != ""):
		return fmt.Errorf("a scorer of format 2 has its own prompts: an edit cannot set a question or an answer")
	}
	info := edit.Info{Sources: p.config.sources()}
	return info.CheckSources(e)
}

// CheckText returns the error that Sample would return for the text of an edit, whatever its pictures are.
func (p *preparer) CheckText(e *edit.Edit, a Ask) error {
	if err := p.check(e, a); err != nil {
		return err
	}
	for i := range p.config.Passes {
		q := &p.config.Passes[i]
		counts := p.config.onePerPicture(q, len(e.Sources))
		t, err := p.passTokens(q, e, a, counts)
		if h := p.config.joint(q); err == nil && h != nil {
			_, _, err = p.choiceSamples(q, h, e, &batch.Sample{Tokens: t}, counts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/text"
)

// token is the score token of a scorer, "" if it has none.
func (c *ScorerConfig) token() string {
	for _, q := range c.Passes {
		if q.Token != "" {
			return q.Token
		}
	}
	return ""
}

// shown identifies the pictures of a pass among those of other passes.
func (q *PassConfig) shown() string { return strings.Join(q.Pictures, "+") }

// joined reports whether a pass shows source and edit as one picture, or as two frames of one.
func (q *PassConfig) joined() bool { return q.Pictures[0] == Concat || q.Pictures[0] == Frames }

// onePerPicture counts one token per picture that a pass shows of an edit with that many sources, for uses where the
// real counts do not matter.
func (c *ScorerConfig) onePerPicture(q *PassConfig, sources int) []int {
	if q.joined() {
		return []int{1}
	}
	return slices.Repeat([]int{1}, len(c.places(q, max(sources, 1))))
}

// cacheKey identifies the pictures of an edit as a pass shows them; zero if they cannot be identified.
func (c *ScorerConfig) cacheKey(e *edit.Edit, q *PassConfig) store.Key {
	output := edit.KeyOf(e.Output)
	if !c.NeedsSource() && output != "" {
		return store.KeyOf("", output, q.shown())
	}
	var keys []string
	for _, p := range e.Sources {
		keys = append(keys, edit.KeyOf(p))
	}
	if len(keys) == 0 || output == "" || slices.Contains(keys, "") {
		return store.Key{}
	}
	return store.KeyOf(append(keys, output, q.shown())...)
}

// shownPictures are the decoded pictures of an edit. sources is empty for a scorer that shows none.
type shownPictures struct {
	sources []*data.Picture
	output  *data.Picture
}

// at is source i, or the output for -1.
func (s *shownPictures) at(i int) *data.Picture {
	if i < 0 {
		return s.output
	}
	return s.sources[i]
}

func (s *shownPictures) equal(t *shownPictures) bool {
	return s.output == t.output && slices.Equal(s.sources, t.sources)
}

// decode decodes the pictures that a scorer shows.
func (c *ScorerConfig) decode(e *edit.Edit) (s shownPictures, err error) {
	if c.NeedsSource() {
		s.sources = make([]*data.Picture, max(len(e.Sources), 1))
		for i := range s.sources {
			role := edit.SourceRole(i)
			if s.sources[i], err = edit.Decode(e.Picture(role)); err != nil {
				return s, fmt.Errorf("%s: %w", role, err)
			}
		}
	}
	if s.output, err = edit.Decode(e.Output); err != nil {
		return s, fmt.Errorf("edit: %w", err)
	}
	return s, nil
}

// passPictures decodes the pictures of an edit if necessary, arranges them for a pass, and preprocesses them for the
// vision tower.
func (p *preparer) passPictures(
	e *edit.Edit, a Ask, q *PassConfig, decode func() (shownPictures, error),
) (out []*backbone.Picture, err error) {
	key := p.config.cacheKey(e, q)
	if !a.Pixels {
		if out = p.Pictures.OfEdit(key); out != nil {
			return out, nil
		}
	}
	pictures, err := decode()
	if err != nil {
		return nil, err
	}
	k := p.shared(pictures, q.shown(), p.config.PairSize, p.config.Alpha == "drop", p.config.Pixels)
	if !a.Pixels {
		if out = a.Shared.get(k); out != nil {
			p.Pictures.PutEdit(key, out)
			return out, nil
		}
	}
	shown, err := p.config.show(q, pictures)
	if err != nil {
		return nil, err
	}
	for _, frames := range shown {
		picture, err := p.Picture(frames, a.Pixels)
		if err != nil {
			return nil, err
		}
		out = append(out, picture)
	}
	p.Pictures.PutEdit(key, out)
	if !a.Pixels {
		a.Shared.put(k, out)
	}
	return out, nil
}

// ask builds the sample of a pass.
func (p *preparer) ask(q *PassConfig, e *edit.Edit, a Ask, pictures []*backbone.Picture) (*batch.Sample, error) {
	counts := backbone.PictureTokens(pictures)
	t, err := p.passTokens(q, e, a, counts)
	if err != nil {
		return nil, err
	}
	s := &batch.Sample{Tokens: t, Pictures: pictures}
	if h := p.config.joint(q); h != nil {
		if s.Choices, _, err = p.choiceSamples(q, h, e, s, counts); err != nil {
			return nil, err
		}
	}
	return s, p.net.CheckPositions(s, q.Steps)
}

// passTokens tokenises the question of a pass about pictures of that many tokens each. ScoreIndex is the state that is
// read, or the score token if it has its own rows.
func (p *preparer) passTokens(q *PassConfig, e *edit.Edit, a Ask, counts []int) (t text.Tokens, err error) {
	if p.config.AddsToken() {
		t, err = p.answerTokens(q, e, a, counts)
	} else {
		t, err = p.promptTokens(q, e, counts)
	}
	if err != nil {
		return t, err
	}
	_, err = p.WordTokens(len(t.IDs)+q.Steps, counts, "instruction")
	return t, err
}

// prompt renders the question of a pass about that many pictures with the chat template; question replaces the pass's
// own unless it is "".
func (p *preparer) prompt(q *PassConfig, e *edit.Edit, pictures int, question string) (string, error) {
	if !p.config.AddsToken() {
		return p.Text.Ask(pictures, text.Question{Text: string(q.Prompt), Marks: []text.Mark{
			{Mark: InstructionMark, Text: e.Instruction}, {Mark: RequirementMark, Text: e.Requirement},
		}})
	}
	before := pictures
	if p.config.Layout == InstructionFirst {
		before--
	}
	question = cmp.Or(question, string(q.Prompt))
	return p.Text.PromptAmong(pictures, before, strings.ReplaceAll(question, InstructionMark, e.Instruction))
}

// promptTokens are the prompt and answer of a pass whose score token, if any, is in the vocabulary.
func (p *preparer) promptTokens(q *PassConfig, e *edit.Edit, counts []int) (t text.Tokens, err error) {
	prompt, err := p.prompt(q, e, len(counts), "")
	if err != nil {
		return t, err
	}
	if t, err = p.Text.EncodePrompt(prompt, string(q.Answer), p.net.Backbone.Placeholder(), counts); err != nil {
		return t, err
	}
	at := t.ScoreIndex
	switch {
	case q.Steps > 0 || q.Position == "last":
		at = len(t.IDs) - 1
	case at < 0:
		return t, fmt.Errorf("the tokenizer does not keep %s as one token in the prompt of pass %s", q.Token, q.Name)
	case q.Position == "before":
		at--
	}
	if t.ScoreIndex = at; at < 1 {
		return t, fmt.Errorf("pass %s reads the state of token %d: there must be one before it", q.Name, at)
	}
	return t, nil
}

// answerTokens are the prompt and answer of a pass whose answer contains a score token with its own rows. The text loss
// covers the whole answer, including the end of the turn.
func (p *preparer) answerTokens(q *PassConfig, e *edit.Edit, a Ask, counts []int) (t text.Tokens, err error) {
	prompt, err := p.prompt(q, e, len(counts), a.Question)
	if err != nil {
		return t, err
	}
	answer := cmp.Or(a.Answer, string(q.Answer))
	switch {
	case a.Why == "":
		answer = WithoutWhy(answer)
	case strings.Contains(answer, WhyMark):
		why := []text.Mark{{Mark: WhyMark, Text: a.Why}}
		if answer, err = p.Text.Fill(text.Question{Text: answer, Marks: why}); err != nil {
			return t, err
		}
	}
	return p.Text.Encode(prompt, answer, p.EndOfTurn(), p.net.Backbone.Placeholder(), counts)
}

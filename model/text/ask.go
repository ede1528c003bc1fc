package text

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/tokens"
)

// Question is a text with marks in it, each of which stands for a text that comes from outside.
type Question struct {
	Text  string
	Marks []Mark
}

// Mark is what stands in a question, and the text that replaces it.
type Mark struct{ Mark, Text string }

// Fill replaces all marks at the same time: what a mark is replaced by is not looked at again.
func (q Question) Fill() string {
	var pairs []string
	for _, m := range q.Marks {
		pairs = append(pairs, m.Mark, m.Text)
	}
	return strings.NewReplacer(pairs...).Replace(q.Text)
}

// plain is the question with a letter for every mark.
func (q Question) plain() string {
	marks := slices.Clone(q.Marks)
	for i := range marks {
		marks[i].Text = "x"
	}
	return Question{q.Text, marks}.Fill()
}

// Ask is Prompt of a filled question. Its text may hold special tokens; the texts of its marks may neither hold nor
// make any.
func (p *Processor) Ask(pictures int, q Question) (string, error) {
	if p.templateErr != nil {
		return "", p.templateErr
	}
	question, err := p.Fill(q)
	if err != nil {
		return "", err
	}
	if err := tokens.Check("question", question); err != nil {
		return "", err
	}
	prompt, err := p.template.render(pictures, question)
	if err != nil {
		return "", err
	}
	return prompt, p.checkSpecial(prompt, usualKey{pictures, pictures, q.plain()}, question)
}

// Fill is [Question.Fill] of texts that hold no special token.
func (p *Processor) Fill(q Question) (string, error) {
	for _, m := range q.Marks {
		if err := tokens.Check(m.Mark, m.Text); err != nil {
			return "", err
		}
		for _, special := range p.special {
			if strings.Contains(m.Text, special) {
				return "", fmt.Errorf("%s %q contains %q, a special token of this model: remove it", m.Mark, clip(m.Text), special)
			}
		}
	}
	return q.Fill(), nil
}

// EncodePrompt tokenises prompt and answer, which may be empty, as [Processor.Encode] does, with or without a score
// token somewhere in them. AnswerStart is behind the last token if there is no answer, else -1.
func (p *Processor) EncodePrompt(prompt, answer, placeholder string, counts []int) (Tokens, error) {
	if err := errors.Join(tokens.Check("prompt", prompt), tokens.Check("answer", answer)); err != nil {
		return Tokens{}, err
	}
	picture, err := p.ID(placeholder)
	if err != nil {
		return Tokens{}, fmt.Errorf("placeholder of pictures: %w", err)
	}
	ids, err := p.handle.Encode(prompt+answer, !p.Begins(prompt))
	if err != nil {
		return Tokens{}, err
	}
	t, err := p.expand(ids, -1, picture, placeholder, counts)
	if answer == "" {
		t.AnswerStart = len(t.IDs)
	}
	return t, err
}

// Row returns the row of the embedding table that one token has; an error if the text is not one token.
func (p *Processor) Row(token string) (int64, error) {
	id, err := p.ID(token)
	if err == nil && int64(id) >= p.rows {
		err = fmt.Errorf("token %d, %q, has no row: the checkpoint's embedding table has %d", id, token, p.rows)
	}
	return int64(id), err
}

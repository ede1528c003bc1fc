package text

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/tokens"
)

// Question is a text with marks in it, each of which is replaced by an external text.
type Question struct {
	Text  string
	Marks []Mark
}

// Mark is a mark in a question and the text that replaces it.
type Mark struct{ Mark, Text string }

// Fill replaces all marks in one pass: marks inside a replacement are not replaced.
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

// Ask is Prompt for a filled question. The question's text may contain special tokens; the texts of its marks may
// neither contain nor form any.
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

// Fill is [Question.Fill], but refuses mark texts that contain a special token.
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
// token somewhere in them. AnswerStart is the number of tokens if there is no answer, else -1.
func (p *Processor) EncodePrompt(prompt, answer, placeholder string, counts []int) (Tokens, error) {
	if err := errors.Join(tokens.Check("prompt", prompt), tokens.Check("answer", answer)); err != nil {
		return Tokens{}, err
	}
	picture, err := p.ID(placeholder)
	if err != nil {
		return Tokens{}, fmt.Errorf("picture placeholder: %w", err)
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

// Row returns the embedding table row of a token; an error if the text is not one token.
func (p *Processor) Row(token string) (int64, error) {
	id, err := p.ID(token)
	if err == nil && int64(id) >= p.rows {
		err = fmt.Errorf("token %d, %q, has no row: the checkpoint's embedding table has %d", id, token, p.rows)
	}
	return int64(id), err
}

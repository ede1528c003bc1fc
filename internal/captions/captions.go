package captions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/chat"
	"assay/edit"
)

// Writer asks a model about edits: about their source, the picture with the role target if the target is known, and
// the text source_caption if there is one. It is safe for concurrent use.
type Writer struct {
	Model   chat.Model
	Prompts *Prompts
	Options chat.Options
}

// The picture role and the text of an edit that questions show.
const (
	target        = "target"
	sourceCaption = "source_caption"
)

// AnswerError reports that an answer is not a caption.
type AnswerError struct{ Dialogue, Text, Why string }

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the %s's caption: the answer %s: %.200q", e.Dialogue, e.Why, e.Text)
}

// Source writes the caption of the source.
func (w *Writer) Source(ctx context.Context, e *edit.Edit) (string, error) {
	return w.talk(ctx, "source", w.Prompts.Source, e)
}

// Target writes the caption of the target; its questions may quote the source's caption.
func (w *Writer) Target(ctx context.Context, e *edit.Edit) (string, error) {
	return w.talk(ctx, "target", w.Prompts.Target, e)
}

// talk runs a dialogue and returns the last answer on one line.
func (w *Writer) talk(ctx context.Context, name string, d Dialogue, e *edit.Edit) (caption string, err error) {
	var messages []chat.Message
	for _, t := range d {
		question, err := t.question(e)
		if err != nil {
			return "", err
		}
		messages = append(messages, question)
		a, err := w.Model.Chat(ctx, messages, w.Options)
		if err != nil {
			return "", err
		}
		caption = strings.Join(strings.Fields(a.Text), " ")
		switch {
		case a.Finish == chat.FinishLength, a.Finish == chat.FinishContext:
			return "", &AnswerError{name, a.Text, "was cut off"}
		case a.Finish != chat.FinishStop:
			return "", &AnswerError{name, a.Text, "ended because of " + a.Finish}
		case caption == "":
			return "", &AnswerError{name, a.Text, "is empty"}
		}
		messages = append(messages, chat.Message{Role: "assistant", Content: []chat.Part{{Text: a.Text}}})
	}
	return caption, nil
}

// question builds the message of a turn.
func (t *Turn) question(e *edit.Edit) (m chat.Message, err error) {
	m.Role = "user"
	for _, role := range t.Pictures {
		p := e.Picture(role)
		if p == nil {
			return m, errors.New("no " + role + " to show")
		}
		picture, err := p.Decode()
		if err != nil {
			return m, fmt.Errorf("%s: %w", role, err)
		}
		m.Content = append(m.Content, chat.Part{Image: picture})
	}
	marks := strings.NewReplacer(Instruction, e.Instruction, SourceCaption, e.Texts[sourceCaption])
	m.Content = append(m.Content, chat.Part{Text: marks.Replace(t.Ask)})
	return m, nil
}

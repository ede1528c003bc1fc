package captions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/chat"
	"assay/edit"
)

// Writer asks a model about edits: their source, the picture with the role target, where the wanted result is known,
// and the text source_caption, where that is. It is safe for concurrent use.
type Writer struct {
	Model   chat.Model
	Prompts *Prompts
	Options chat.Options
}

// The roles of an edit's picture and text that questions show.
const (
	target        = "target"
	sourceCaption = "source_caption"
)

// AnswerError says that an answer is no caption.
type AnswerError struct{ Dialogue, Text, Why string }

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the %s's caption: the answer %s: %.200q", e.Dialogue, e.Why, e.Text)
}

// Source writes the caption of the source.
func (w *Writer) Source(ctx context.Context, e *edit.Edit) (string, error) {
	return w.talk(ctx, "source", w.Prompts.Source, e)
}

// Target writes the caption of the target; its questions may quote the source's.
func (w *Writer) Target(ctx context.Context, e *edit.Edit) (string, error) {
	return w.talk(ctx, "target", w.Prompts.Target, e)
}

// talk has a dialogue, and returns the last answer, on one line.
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

// question makes the message that asks.
func (t *Turn) question(e *edit.Edit) (m chat.Message, err error) {
	m.Role = "user"
	for _, role := range t.Pictures {
		p := e.Picture(role)
		if p == nil {
			return m, errors.New("there is no " + role + " to show")
		}
		picture, err := p.Decode()
		if err != nil {
			return m, fmt.Errorf("%s: %w", role, err)
		}
		m.Content = append(m.Content, chat.Part{Image: picture})
	}
	m.Content = append(m.Content, chat.Part{Text: t.fill(e)})
	return m, nil
}

// fill puts an edit's texts in place of the marks, all at the same time.
func (t *Turn) fill(e *edit.Edit) string {
	return strings.NewReplacer(Instruction, e.Instruction, SourceCaption, e.Texts[sourceCaption]).Replace(t.Ask)
}

package captions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/chat"
	"assay/data"
)

// Edit is what captions are written about.
type Edit struct {
	Instruction    string
	Source, Target *data.Picture // Target is nil where the wanted result is not known, or not shown
	Before         string        // the source's caption, if it is known
}

// Writer asks a model. It is safe for concurrent use.
type Writer struct {
	Model   chat.Model
	Prompts *Prompts
	Options chat.Options
}

// AnswerError says that an answer is no caption.
type AnswerError struct{ Dialogue, Text, Why string }

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the %s's caption: the answer %s: %.200q", e.Dialogue, e.Why, e.Text)
}

// Source writes the caption of the source.
func (w *Writer) Source(ctx context.Context, e *Edit) (string, error) {
	return w.talk(ctx, "source", w.Prompts.Source, e)
}

// Target writes the caption of the target, which knows that of the source (Before).
func (w *Writer) Target(ctx context.Context, e *Edit) (string, error) {
	return w.talk(ctx, "target", w.Prompts.Target, e)
}

// talk has a dialogue, and returns the last answer, on one line.
func (w *Writer) talk(ctx context.Context, name string, d Dialogue, e *Edit) (caption string, err error) {
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
func (t *Turn) question(e *Edit) (m chat.Message, err error) {
	m.Role = "user"
	for _, role := range t.Pictures {
		p := e.Source
		if role == "target" {
			p = e.Target
		}
		if p == nil {
			return m, errors.New("there is no " + role + " to show")
		}
		m.Content = append(m.Content, chat.Part{Image: p})
	}
	m.Content = append(m.Content, chat.Part{Text: t.fill(e)})
	return m, nil
}

// fill puts an edit's texts in place of the marks, all at the same time.
func (t *Turn) fill(e *Edit) string {
	return strings.NewReplacer(Instruction, e.Instruction, SourceCaption, e.Before).Replace(t.Ask)
}

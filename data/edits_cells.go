package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// cells reads the values of a record by our column names, and keeps the first error.
type cells struct {
	rec   *Record
	edits *Edits
	err   error
}

func (c *cells) fail(ours string, err error) {
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("column %q: %w", c.edits.name(ours), err)
	}
}

func (c *cells) get(ours string) any {
	v, _ := c.rec.Get(c.edits.name(ours))
	return v
}

func (c *cells) text(ours string) string {
	s, err := Prose(c.get(ours))
	c.fail(ours, err)
	return s
}

func (c *cells) number(ours string) *float64 {
	x, err := Finite(c.get(ours))
	c.fail(ours, err)
	return x
}

func (c *cells) picture(ours string) Image {
	m, err := ToImage(c.get(ours))
	c.fail(ours, err)
	return m
}

// done checks that the required pictures are there.
func (c *cells) done(e *Row) error {
	if c.err == nil && e.Source.IsZero() {
		c.err = &MissingColumnError{Column: "source", Name: c.edits.name("source"), Have: c.rec.names()}
	}
	if c.err == nil && e.Edit.IsZero() {
		c.err = errors.New("the picture of the edit is missing")
	}
	return c.err
}

// prompt returns the instruction: a text, or the text of the user's messages in TRL's conversational format.
func (c *cells) prompt() string {
	name := "prompt"
	if _, ok := c.rec.Get(c.edits.name(name)); !ok {
		name = "instruction"
	}
	v, err := unwrap(c.get(name))
	if list, ok := v.([]any); ok && err == nil {
		var parts []string
		for _, m := range list {
			parts = append(parts, messageText(m)...)
		}
		return strings.Join(parts, "\n")
	}
	return c.text(name)
}

// messageText returns the texts of a user message {role, content}, whose content is a text or parts {type, text}.
func messageText(m any) (texts []string) {
	raw, err := json.Marshal(m)
	var message struct {
		Role    string
		Content any
		Text    *string
	}
	if err != nil || json.Unmarshal(raw, &message) != nil {
		return nil
	}
	if message.Text != nil {
		texts = append(texts, *message.Text)
	}
	switch content := message.Content.(type) {
	case string:
		if message.Role == "user" || message.Role == "" {
			texts = append(texts, content)
		}
	case []any:
		if message.Role == "user" || message.Role == "" {
			for _, part := range content {
				texts = append(texts, messageText(part)...)
			}
		}
	}
	return texts
}

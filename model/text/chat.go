package text

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"

	"assay/internal/tokens"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string
	Content []Content
}

// Content is a part of a message: a picture or a text.
type Content struct {
	Image bool
	Text  string
}

// EndOfSequence is the tokenizer's eos_token, which closes a turn in the instruction-tuned checkpoints; "" if it has
// none.
func (p *Processor) EndOfSequence() string { return p.variables["eos_token"] }

// Chat renders messages as transformers' apply_chat_template does, followed by the generation prompt. Placeholders are
// not repeated yet. A text that contains one of the tokenizer's special tokens is refused: it would change what the
// model sees of the rest.
func (p *Processor) Chat(messages []Message) (string, error) { return p.render(messages, true) }

// render is Chat with or without the generation prompt.
func (p *Processor) render(messages []Message, prompted bool) (string, error) {
	if p.templateErr != nil {
		return "", p.templateErr
	}
	if len(messages) == 0 {
		return "", fmt.Errorf("there are no messages")
	}
	plain := make([]Message, len(messages)) // the same with "x" for every text
	for i, m := range messages {
		where := fmt.Sprintf("message %d (%s)", i+1, clip(m.Role))
		plain[i].Role = m.Role
		for _, c := range m.Content {
			if err := p.checkContent(where, c); err != nil {
				return "", err
			}
			if !c.Image && c.Text != "" {
				c.Text = "x"
			}
			plain[i].Content = append(plain[i].Content, c)
		}
		if err := tokens.Check("role", m.Role); err != nil {
			return "", err
		}
	}
	prompt, err := p.template.renderMessages(messages, prompted)
	if err != nil {
		return "", err
	}
	other, err := p.template.renderMessages(plain, prompted)
	if err != nil {
		return "", err
	}
	return prompt, p.sameSpecial(prompt, other)
}

func (p *Processor) checkContent(where string, c Content) error {
	if err := tokens.Check(where, c.Text); err != nil {
		return err
	}
	for _, special := range p.special {
		if special != "" && strings.Contains(c.Text, special) {
			return fmt.Errorf("%s: %q contains %q, a special token of this model: remove it", where, clip(c.Text), special)
		}
	}
	return nil
}

// sameSpecial compares the special tokens of a prompt with those of the same prompt with other texts. A special token
// may also come from spellings that the tokenizer normalises, or form where a text meets its surroundings.
func (p *Processor) sameSpecial(prompt, other string) error {
	got, err := p.countSpecial(prompt)
	if err != nil {
		return err
	}
	want, err := p.countSpecial(other)
	if err != nil {
		return err
	}
	for id, token := range p.specialIDs {
		if got[id] != want[id] {
			return fmt.Errorf("the messages form %q, a special token of this model: it occurs %d times in the prompt "+
				"instead of %d", token, got[id], want[id])
		}
	}
	return nil
}

// renderMessages renders the messages and, if prompted, the generation prompt.
func (t *chatTemplate) renderMessages(messages []Message, prompted bool) (prompt string, err error) {
	defer recoverTemplate(t.origin, &err)
	turns := make(list, len(messages))
	for i, m := range messages {
		content := make(list, len(m.Content))
		for j, c := range m.Content {
			content[j] = map[string]any{"type": "image"}
			if !c.Image {
				content[j] = map[string]any{"type": "text", "text": c.Text}
			}
		}
		turns[i] = map[string]any{"role": m.Role, "content": content}
	}
	data := map[string]any{"messages": turns, "add_generation_prompt": prompted}
	for name, value := range t.variables {
		data[name] = value
	}
	prompt, err = t.template.ExecuteToString(exec.NewContext(data))
	if err != nil {
		return "", fmt.Errorf("%s: chat template: %w", t.origin, cause(err))
	}
	return prompt, nil
}

// Begins reports whether a prompt already starts with the beginning-of-text token, written by the template;
// transformers then adds no special tokens.
func (p *Processor) Begins(prompt string) bool {
	return p.bos != "" && strings.HasPrefix(prompt, p.bos)
}

// Plain returns the ids of a text without special tokens around it.
func (p *Processor) Plain(s string) ([]int64, error) {
	if err := tokens.Check("text", s); err != nil {
		return nil, err
	}
	ids, err := p.handle.Encode(s, false)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(ids))
	for i, id := range ids {
		if out[i] = int64(id); out[i] >= p.rows {
			return nil, fmt.Errorf("token %d of %q has no row: the checkpoint's embedding table has %d", id, clip(s), p.rows)
		}
	}
	return out, nil
}

package text

import (
	"errors"
	"fmt"
	"strings"
)

// Conversation is a tokenised conversation with the token ranges of its answers.
type Conversation struct {
	Tokens
	Answers [][2]int // [from, to) of each answer with its end of turn, by index into IDs
}

// Conversation tokenises messages as transformers' apply_chat_template renders them, without a generation prompt at
// the end. An answer is everything after the generation prompt of the messages before it, up to and including
// endOfTurn: the text that a model generates. A template that does not continue its own generation prompt, or does not
// end answers with endOfTurn, is refused: the model would be trained on something other than what it is asked later.
func (p *Processor) Conversation(messages []Message, endOfTurn, placeholder string, counts []int) (
	*Conversation, error) {
	if len(messages) == 0 || messages[len(messages)-1].Role != "assistant" {
		return nil, errors.New("the last message must have the role assistant: nothing after the last answer is trained on")
	}
	end, err := p.ID(endOfTurn)
	if err != nil {
		return nil, fmt.Errorf("end of turn: %w", err)
	}
	whole, err := p.render(messages, false)
	if err != nil {
		return nil, err
	}
	picture, err := p.ID(placeholder)
	if err != nil {
		return nil, fmt.Errorf("picture placeholder: %w", err)
	}
	special := !p.Begins(whole)
	ids, err := p.handle.Encode(whole, special)
	if err != nil {
		return nil, err
	}
	var answers [][2]int
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		if i == 0 {
			return nil, errors.New("the first message has the role assistant: there is no question before it")
		}
		prompt, err := p.render(messages[:i], true)
		if err != nil {
			return nil, fmt.Errorf("the messages before answer %d: %w", len(answers)+1, err)
		}
		a, err := p.answer(whole, ids, prompt, end, special)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w (%s)", i+1, err, endOfTurn)
		}
		answers = append(answers, a)
	}
	return p.conversation(ids, answers, picture, placeholder, counts)
}

// answer returns the token range of the answer to a prompt; the conversation must start with this prompt.
func (p *Processor) answer(whole string, ids []uint32, prompt string, end uint32, special bool) (a [2]int, err error) {
	if !strings.HasPrefix(whole, prompt) {
		return a, errors.New("the chat template renders earlier turns differently from the prompt for this answer: " +
			"train on conversations with one answer, or with a chat_template that does not")
	}
	head, err := p.handle.Encode(prompt, special)
	if err != nil {
		return a, err
	}
	for a[0] < len(head) && a[0] < len(ids) && ids[a[0]] == head[a[0]] {
		a[0]++
	}
	for a[1] = a[0]; a[1] < len(ids); a[1]++ {
		if ids[a[1]] == end {
			a[1]++
			return a, nil
		}
	}
	return a, errors.New("the chat template ends the answer without the end of turn, so the model would never learn " +
		"to stop: set end_of_turn, or a chat_template that writes it")
}

// conversation repeats placeholders and shifts the answer ranges accordingly.
func (p *Processor) conversation(
	ids []uint32, answers [][2]int, picture uint32, placeholder string, counts []int,
) (*Conversation, error) {
	t, err := p.expand(ids, -1, picture, placeholder, counts)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(ids)+1) // of each id in the expanded sequence
	for i, next := 0, 0; i < len(ids); i++ {
		n := 1
		if ids[i] == picture {
			n, next = counts[next], next+1
		}
		at[i+1] = at[i] + n
	}
	c := &Conversation{Tokens: t}
	c.AnswerStart = at[answers[0][0]]
	for i, a := range answers {
		if i > 0 && a[0] < answers[i-1][1] {
			return nil, fmt.Errorf("answer %d begins before the end of the one before it", i+1)
		}
		c.Answers = append(c.Answers, [2]int{at[a[0]], at[a[1]]})
	}
	return c, nil
}

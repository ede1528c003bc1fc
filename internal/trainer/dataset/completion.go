package dataset

import (
	"encoding/json"
	"errors"
	"strings"

	"assay/chat"
)

// Completion is an answer that a model gave to an example's prompt, and what it is worth.
type Completion struct {
	IDs       []int64   `json:"ids"`            // tokens, the end token among them
	Truncated bool      `json:"cut,omitempty"`  // it was cut off
	Rewards   []float64 `json:"rewards"`        // by term
	Read      bool      `json:"read"`           // all terms could read it
	Reward    float64   `json:"reward"`         // their weighted sum
	Advantage float64   `json:"advantage"`      // over the other answers to the same prompt
	Old       []float64 `json:"old,omitempty"`  // log-probability of each token by the model that gave it; nil: it learns
	Base      []float64 `json:"base,omitempty"` // likewise by the model without its adapter

	Weight float64 `json:"-"` // of each token in the loss of the step
	Number int     `json:"-"` // among the answers to its prompt
}

// Prompt are the messages of a conversation up to its last answer, if that is its last message.
func (c *Conversation) Prompt() []chat.Message {
	if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == "assistant" {
		return c.Messages[:n-1]
	}
	return c.Messages
}

// Truth is the text or number of a column; of "", the answer that ends the conversation.
func (c *Conversation) Truth(column string) (string, error) {
	if column != "" {
		var text string
		if raw := c.Columns[column]; json.Unmarshal(raw, &text) != nil { // a number, or true
			text = string(raw)
		}
		return text, nil
	}
	n := len(c.Messages)
	if n == len(c.Prompt()) {
		return "", errors.New("the conversation ends with no answer, which the rewards compare with: give one, or a column " +
			"(grpo.rewards, column)")
	}
	var text strings.Builder
	for _, p := range c.Messages[n-1].Content {
		text.WriteString(p.Text)
	}
	return text.String(), nil
}

package dataset

import (
	"encoding/json"
	"errors"
	"strings"

	"assay/chat"
)

// Completion is a model's answer to an example's prompt, with its reward.
type Completion struct {
	IDs       []int64   `json:"ids"`            // tokens, including the end token
	Truncated bool      `json:"cut,omitempty"`  // it reached the length limit
	Rewards   []float64 `json:"rewards"`        // by term
	Read      bool      `json:"read"`           // all reward terms could parse it
	Reward    float64   `json:"reward"`         // their weighted sum
	Advantage float64   `json:"advantage"`      // over the other answers to the same prompt
	Old       []float64 `json:"old,omitempty"`  // token log-probabilities when generated; nil: the current model's
	Base      []float64 `json:"base,omitempty"` // token log-probabilities without the adapter

	Weight float64 `json:"-"` // of each token in the loss of the step
	Number int     `json:"-"` // among the answers to its prompt
}

// Prompt returns the messages of a conversation, without the last one if that is an answer.
func (c *Conversation) Prompt() []chat.Message {
	if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == "assistant" {
		return c.Messages[:n-1]
	}
	return c.Messages
}

// Truth returns the text or number in a column; for "", the answer that ends the conversation.
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
		return "", errors.New("the conversation does not end with an answer for the rewards to compare with: add one, or a " +
			"column (grpo.rewards, column)")
	}
	var text strings.Builder
	for _, p := range c.Messages[n-1].Content {
		text.WriteString(p.Text)
	}
	return text.String(), nil
}

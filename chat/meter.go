package chat

import (
	"fmt"
	"sync"
)

// Spent counts what a remote model was asked and what that cost.
type Spent struct {
	Requests   int64   `json:"requests"` // sent, with those that were tried again
	Answers    int64   `json:"answers"`  // that came
	Prompt     int64   `json:"prompt_tokens"`
	Cached     int64   `json:"cached_tokens"` // of the prompts
	Completion int64   `json:"completion_tokens"`
	Uncounted  int64   `json:"uncounted,omitempty"` // answers for which the server gave no usage
	Cost       float64 `json:"cost"`                // in the currency of the prices
}

// Tokens is the number of all tokens.
func (s Spent) Tokens() int64 { return s.Prompt + s.Completion }

// meter counts, and refuses requests once a cap is reached. It is safe for concurrent use.
type meter struct {
	price    Price
	tokenCap int64
	costCap  float64

	mu      sync.Mutex
	spent   Spent
	flying  int64   // requests on their way
	tokens  int64   // of the largest answer so far, with its prompt
	dearest float64 // cost of the dearest answer so far
}

// begin counts a request, or says that a cap leaves no room for it. What is on its way is taken to cost as much as the
// dearest answer so far. So a cap may be exceeded by the answers that were on their way when the first one came, and by
// answers dearer than all before.
func (m *meter) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch tokens, cost := m.spent.Tokens()+m.flying*m.tokens, m.spent.Cost+float64(m.flying)*m.dearest; {
	case m.tokenCap > 0 && tokens >= m.tokenCap:
		return fmt.Errorf("%w: %d tokens are used of at most %d", ErrCap, m.spent.Tokens(), m.tokenCap)
	case m.costCap > 0 && cost >= m.costCap:
		return fmt.Errorf("%w: %.4g is spent of at most %.4g", ErrCap, m.spent.Cost, m.costCap)
	}
	m.spent.Requests++
	m.flying++
	return nil
}

// end says that a request has ended, with an answer or without (nil).
func (m *meter) end(u *counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flying--
	if u == nil {
		return
	}
	m.spent.Answers++
	if !u.known {
		m.spent.Uncounted++
		return
	}
	dear := m.price.of(u.Usage)
	m.spent.Prompt += int64(u.Prompt)
	m.spent.Cached += int64(u.Cached)
	m.spent.Completion += int64(u.Completion)
	m.spent.Cost += dear
	m.tokens = max(m.tokens, int64(u.Prompt+u.Completion))
	m.dearest = max(m.dearest, dear)
}

// counted is the usage of an answer, if the server told it.
type counted struct {
	Usage
	known bool
}

func (p Price) of(u Usage) float64 {
	cached := p.Cached
	if cached == 0 {
		cached = p.Prompt
	}
	return (float64(u.Prompt-u.Cached)*p.Prompt + float64(u.Cached)*cached + float64(u.Completion)*p.Completion) / 1e6
}

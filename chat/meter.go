package chat

import (
	"context"
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
	landed  *sync.Cond // a request has ended
	spent   Spent
	flying  int64   // requests on their way
	tokens  int64   // of the largest answer so far, with its prompt
	dearest float64 // cost of the dearest answer so far
}

func newMeter(s *Server) *meter {
	m := &meter{price: s.Price, tokenCap: s.TokenCap, costCap: s.CostCap}
	m.landed = sync.NewCond(&m.mu)
	return m
}

func (m *meter) capped() bool { return m.tokenCap > 0 || m.costCap > 0 }

// begin counts a request, or says that a cap leaves no room for it. A request and those on their way are taken to cost
// as much as the dearest answer so far; it waits for these while they leave no room, and for the first answer, whose
// cost nothing tells. So a cap is exceeded by an answer that is dearer than all before, and by what a server charges
// without an answer.
func (m *meter) begin(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock() // no waiter is between its look at ctx and Wait
		defer m.mu.Unlock()
		m.landed.Broadcast()
	})()
	m.mu.Lock()
	defer m.mu.Unlock()
	for ctx.Err() == nil && m.flying > 0 && m.full(0) == nil &&
		(m.full(m.flying) != nil || m.capped() && m.spent.Answers == 0) {
		m.landed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.full(m.flying); err != nil {
		return err
	}
	m.spent.Requests++
	m.flying++
	return nil
}

// errUncounted is of answers without usage, where there is a cap.
var errUncounted = fmt.Errorf("%w: the server gives no usage counts, so the caps cannot be kept", ErrUnavailable)

// full is an error if there is no room for a request beside so many: it wraps [ErrCap], or is errUncounted.
func (m *meter) full(flying int64) error {
	const rounding = 1 + 1e-9
	tokens, cost := m.spent.Tokens()+(flying+1)*m.tokens, m.spent.Cost+float64(flying+1)*m.dearest
	switch {
	case m.capped() && m.spent.Uncounted > 0:
		return errUncounted
	case m.tokenCap > 0 && tokens > m.tokenCap:
		return fmt.Errorf("%w: %d tokens are used of at most %d, and an answer took up to %d", ErrCap, m.spent.Tokens(),
			m.tokenCap, m.tokens)
	case m.costCap > 0 && cost > m.costCap*rounding:
		return fmt.Errorf("%w: %.4g is spent of at most %.4g, and an answer cost up to %.4g", ErrCap, m.spent.Cost, m.costCap,
			m.dearest)
	}
	return nil
}

// end says that a request has ended, with an answer or without (nil).
func (m *meter) end(u *counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.landed.Broadcast()
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

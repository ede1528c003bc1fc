package chat

import (
	"context"
	"fmt"
	"sync"
)

// Spent counts the requests to a remote model and their cost.
type Spent struct {
	Requests   int64   `json:"requests"` // sent, including retries
	Answers    int64   `json:"answers"`  // received
	Prompt     int64   `json:"prompt_tokens"`
	Cached     int64   `json:"cached_tokens"` // of the prompts
	Completion int64   `json:"completion_tokens"`
	Uncounted  int64   `json:"uncounted,omitempty"` // answers without usage counts from the server
	Cost       float64 `json:"cost"`                // in the currency of the prices
}

// Tokens is the total number of tokens.
func (s Spent) Tokens() int64 { return s.Prompt + s.Completion }

// meter counts, and refuses requests once a cap is reached. It is safe for concurrent use.
type meter struct {
	price    Price
	tokenCap int64
	costCap  float64

	mu      sync.Mutex
	landed  *sync.Cond // a request has ended
	spent   Spent
	flying  int64   // requests in flight
	tokens  int64   // of the largest answer so far, prompt included
	dearest float64 // cost of the most expensive answer so far
}

func newMeter(s *Server) *meter {
	m := &meter{price: s.Price, tokenCap: s.TokenCap, costCap: s.CostCap}
	m.landed = sync.NewCond(&m.mu)
	return m
}

func (m *meter) capped() bool { return m.tokenCap > 0 || m.costCap > 0 }

// begin counts a request, or returns an error if a cap leaves no room for it. A request and those in flight are each
// assumed to cost as much as the most expensive answer so far. begin waits for the requests in flight while they
// leave no room, and for the first answer, whose cost is unknown. So a cap can be exceeded only by an answer that is
// more expensive than all before, and by what a server charges without an answer.
func (m *meter) begin(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock() // no waiter is between checking ctx and Wait
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

// errUncounted reports an answer without usage counts although there is a cap.
var errUncounted = fmt.Errorf("%w: the server sends no usage counts, so the caps cannot be enforced", ErrUnavailable)

// full returns an error if there is no room for one more request besides those in flight. It wraps [ErrCap], or is
// errUncounted.
func (m *meter) full(flying int64) error {
	const rounding = 1 + 1e-9
	tokens, cost := m.spent.Tokens()+(flying+1)*m.tokens, m.spent.Cost+float64(flying+1)*m.dearest
	switch {
	case m.capped() && m.spent.Uncounted > 0:
		return errUncounted
	case m.tokenCap > 0 && tokens > m.tokenCap:
		return fmt.Errorf("%w: %d of %d tokens are used, and an answer took up to %d", ErrCap, m.spent.Tokens(),
			m.tokenCap, m.tokens)
	case m.costCap > 0 && cost > m.costCap*rounding:
		return fmt.Errorf("%w: %.4g of %.4g is spent, and an answer cost up to %.4g", ErrCap, m.spent.Cost, m.costCap,
			m.dearest)
	}
	return nil
}

// end records that a request has ended; u is nil without an answer.
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

// counted is the usage of an answer, if the server sent it.
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

package score

import (
	"context"
	"fmt"
	"sync"

	"assay/chat"
	"assay/internal/generate"
	"assay/internal/grammar"
)

// sleepingModel is a chat model whose weights can be unloaded from the device and loaded again: [reward.Sleeper].
type sleepingModel struct {
	open        func() (*generate.Model, error)
	fingerprint string

	mu sync.RWMutex
	m  *generate.Model // nil: it sleeps
}

func newSleepingModel(open func() (*generate.Model, error)) (*sleepingModel, error) {
	m, err := open()
	if err != nil {
		return nil, err
	}
	return &sleepingModel{open: open, fingerprint: m.Fingerprint(), m: m}, nil
}

// asked calls the model, which stays awake meanwhile.
func asked[T any](s *sleepingModel, call func(*generate.Model) (T, error)) (out T, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.m == nil {
		return out, fmt.Errorf("%w: the model sleeps", chat.ErrUnavailable)
	}
	return call(s.m)
}

// Chat implements [chat.Model].
func (s *sleepingModel) Chat(ctx context.Context, messages []chat.Message, o chat.Options) (*chat.Answer, error) {
	return asked(s, func(m *generate.Model) (*chat.Answer, error) { return m.Chat(ctx, messages, o) })
}

// Stream implements [reward.ChatModel].
func (s *sleepingModel) Stream(
	ctx context.Context, messages []chat.Message, o chat.Options, piece func(string) error,
) (*chat.Answer, error) {
	return asked(s, func(m *generate.Model) (*chat.Answer, error) { return m.Stream(ctx, messages, o, piece) })
}

// Decode implements [reward.ChatModel].
func (s *sleepingModel) Decode(ids []int64) (string, error) {
	return asked(s, func(m *generate.Model) (string, error) { return m.Decode(ids) })
}

// Follows implements [chat.Follower].
func (s *sleepingModel) Follows(g *grammar.Grammar) error {
	_, err := asked(s, func(m *generate.Model) (struct{}, error) { return struct{}{}, m.Follows(g) })
	return err
}

// Fingerprint implements [chat.Model].
func (s *sleepingModel) Fingerprint() string { return s.fingerprint }

// Sleep implements [reward.Sleeper].
func (s *sleepingModel) Sleep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		return nil
	}
	err := s.m.Close()
	s.m = nil
	return err
}

// Wake implements [reward.Sleeper].
func (s *sleepingModel) Wake() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m != nil {
		return nil
	}
	m, err := s.open()
	if err != nil {
		return err
	}
	if print := m.Fingerprint(); print != s.fingerprint {
		m.Close()
		return fmt.Errorf("its files have changed: the fingerprint is %s, but was %s", print, s.fingerprint)
	}
	s.m = m
	return nil
}

// Close implements [chat.Model].
func (s *sleepingModel) Close() error { return s.Sleep() }

package chat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"assay/internal/store"
)

// ErrUnavailable is wrapped by errors after which no other request would be answered either: the key is refused, the
// server serves another model or has failed many times in a row, or answers cannot be stored. A run ends there.
var ErrUnavailable = errors.New("no more answers")

// ErrCap is wrapped by errors of requests for which the caps on tokens and cost leave no room. It wraps
// ErrUnavailable.
var ErrCap = fmt.Errorf("%w: the cap is reached", ErrUnavailable)

// Remote is a model on a server that speaks OpenAI's chat protocol.
type Remote struct {
	server      Server
	key         string
	completions openai.ChatCompletionService
	fingerprint string
	slots       chan struct{}
	meter       *meter
	failures    atomic.Int64 // of the server, in a row
	idle        *http.Client
}

var _ Model = (*Remote)(nil)

// OpenRemote checks the settings and reads the key; nothing is sent.
func OpenRemote(s Server) (*Remote, error) {
	var errs []error
	for key, text := range s.Check() {
		errs = append(errs, fmt.Errorf("%s: %s", key, text))
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(errs...)
	}
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	identity, err := s.identity()
	if err != nil {
		return nil, fmt.Errorf("extra: %w", err)
	}
	client := newClient(s.Concurrency)
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(s.URL, "/") + "/"), option.WithHTTPClient(client), option.WithMaxRetries(0),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	for name, value := range s.Extra {
		options = append(options, option.WithJSONSet(name, value))
	}
	return &Remote{
		server:      s,
		key:         key,
		completions: openai.NewChatCompletionService(options...), // unlike a client, reads no environment variables
		fingerprint: store.KeyOf("remote-1", identity).String(),
		slots:       make(chan struct{}, s.Concurrency),
		meter:       newMeter(&s),
		idle:        client,
	}, nil
}

// Fingerprint is a digest of the URL, the model's name and the extra fields.
func (r *Remote) Fingerprint() string { return r.fingerprint }

// Close closes idle connections.
func (r *Remote) Close() error {
	r.idle.CloseIdleConnections()
	return nil
}

// Spent returns the counts and cost so far.
func (r *Remote) Spent() Spent {
	r.meter.mu.Lock()
	defer r.meter.mu.Unlock()
	return r.meter.spent
}

// Chat sends a request and retries after transient failures: 408, 409, 425, 429 and 5xx, a broken connection, a
// timeout, and an answer that is truncated, not JSON or not in the protocol. It waits as long as Retry-After says, or
// twice as long each time.
//
// When ctx ends, nothing more is sent, but a request already sent is waited for and its answer returned, because it
// is paid for.
func (r *Remote) Chat(ctx context.Context, messages []Message, o Options) (*Answer, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	params, options, err := r.request(messages, o)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before := r.failures.Load()
		answer, failed := r.try(ctx, params, options, o)
		if failed == nil {
			r.answered(before)
			return answer, nil
		}
		if !failed.again {
			return nil, r.describe(failed.err)
		}
		wait := r.wait(try, failed.after)
		if wait > r.server.maxWait() {
			return nil, r.describe(fmt.Errorf("%w: %w (the server says to try again in %v, which is longer than max_wait)",
				ErrUnavailable, failed.err, failed.after))
		}
		if try == r.server.Retries {
			return nil, r.describe(r.giveUp(failed.err, try+1))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// answered forgets the failures counted before the answered request was sent. Later failures still count: a late
// answer does not prove that the server is still up.
func (r *Remote) answered(before int64) {
	for n := r.failures.Load(); !r.failures.CompareAndSwap(n, max(n-before, 0)); {
		n = r.failures.Load()
	}
}

// giveUp returns the error of a request that failed that many times. A server that fails for many requests in a row
// counts as gone.
func (r *Remote) giveUp(err error, tries int) error {
	if tries > 1 {
		err = fmt.Errorf("%w (tried %d times)", err, tries)
	}
	if n, most := r.failures.Add(1), int64(10+r.server.Concurrency); n >= most {
		return fmt.Errorf("%w: %d requests in a row failed, the last one with: %w", ErrUnavailable, n, err)
	}
	return &ServerError{err}
}

// ServerError reports that the server failed at a request, which may succeed later.
type ServerError struct{ Err error }

// Temporary reports that a retry may succeed.
func (e *ServerError) Temporary() bool { return true }

func (e *ServerError) Error() string { return e.Err.Error() }
func (e *ServerError) Unwrap() error { return e.Err }

// wait returns how long to wait before the next try: as long as the server says, or half a second, a second, ... half
// a minute, each randomly shortened by up to half, so that clients do not all return at once.
func (r *Remote) wait(try int, after time.Duration) time.Duration {
	if after > 0 {
		return after
	}
	longest := min(500*time.Millisecond<<min(try, 6), r.server.maxWait())
	return longest/2 + rand.N(longest/2+1)
}

// describe adds the model and URL to an error, and removes the key from what a server says.
func (r *Remote) describe(err error) error {
	text := err.Error()
	if r.key != "" {
		text = strings.ReplaceAll(text, r.key, "(the key)")
	}
	return &remoteError{fmt.Sprintf("%s at %s: %s", r.server.Model, r.server.URL, text), err}
}

type remoteError struct {
	text string
	err  error
}

func (e *remoteError) Error() string { return e.text }

// Is and As look at the cause without exposing its text, which may contain the key.
func (e *remoteError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *remoteError) As(target any) bool   { return errors.As(e.err, target) }

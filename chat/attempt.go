package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
)

// failure is the reason why a try returned no answer.
type failure struct {
	err   error
	again bool          // a retry may succeed
	after time.Duration // from Retry-After; 0: not given
}

// maxAnswerBytes limits the body of an answer.
const maxAnswerBytes = 32 << 20

// newClient returns an HTTP client that follows no redirects and limits the length of bodies.
func newClient(connections int) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = connections
	return &http.Client{
		Transport:     bounded{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded is a transport that limits response bodies to maxAnswerBytes.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(q *http.Request) (*http.Response, error) {
	res, err := b.Transport.RoundTrip(q)
	if err == nil {
		res.Body = &boundedBody{ReadCloser: res.Body, left: maxAnswerBytes}
	}
	return res, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswerBytes)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// try sends the request once. Once sent, it is not cancelled when ctx ends.
func (r *Remote) try(
	ctx context.Context, params openai.ChatCompletionNewParams, options []option.RequestOption, o Options,
) (*Answer, *failure) {
	if err := r.meter.begin(ctx); err != nil {
		return nil, &failure{err: err}
	}
	var usage *counted
	defer func() { r.meter.end(usage) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.server.timeout())
	defer cancel()
	var res *http.Response
	completion, err := r.completions.New(ctx, params, slices.Concat(options, []option.RequestOption{
		option.WithResponseInto(&res),
	})...)
	if res != nil && res.StatusCode >= 300 {
		return nil, r.refusal(res, err)
	}
	if ctx.Err() != nil {
		return nil, &failure{err: fmt.Errorf("no answer within %v seconds", r.server.Timeout), again: true}
	}
	if err == nil && completion == nil { // the body is null
		err = errNonsense
	}
	if err != nil {
		return nil, &failure{err: err, again: true} // a broken connection, a truncated body, invalid JSON
	}
	usage = usageOf(completion)
	answer, err := r.answer(completion, o)
	if err == nil && !usage.known && r.meter.capped() {
		err = errUncounted
	}
	if err != nil {
		return nil, &failure{err: err, again: errors.Is(err, errNonsense)}
	}
	return answer, nil
}

// refusal classifies a status that is not a success. err is the library's error for the body.
func (r *Remote) refusal(res *http.Response, err error) *failure {
	text, code := "", ""
	var told *openai.Error
	if errors.As(err, &told) {
		text, code = told.Message, told.Code
	}
	if text == "" {
		text = http.StatusText(res.StatusCode)
	}
	f := &failure{err: fmt.Errorf("%d: %.500s", res.StatusCode, text)}
	switch s := res.StatusCode; {
	case s < 400:
		f.err = fmt.Errorf("%w: %d: it redirects to %s: set url to that if it is right", ErrUnavailable, s,
			res.Header.Get("Location"))
	case s == 429 && (code == "insufficient_quota" || code == "billing_hard_limit_reached"),
		s == 401, s == 402, s == 403, s == 404, s == 405:
		f.err = fmt.Errorf("%w: %w", ErrUnavailable, f.err)
	case s == 408, s == 409, s == 425, s == 429, s >= 500:
		f.again, f.after = true, retryAfter(res.Header)
	default:
		f.err = fmt.Errorf("%w: %w", ErrRequest, f.err)
	}
	return f
}

// retryAfter reads Retry-After, seconds or a date, and OpenAI's retry-after-ms; 0: neither is given. A date is
// compared with the server's clock if the header Date gives it: this machine's clock may be wrong.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		if now, err := http.ParseTime(h.Get("Date")); err == nil {
			return max(at.Sub(now), 0)
		}
		return max(time.Until(at), 0)
	}
	return 0
}

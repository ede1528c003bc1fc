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

// failure is why a try gave no answer.
type failure struct {
	err   error
	again bool          // it may pass
	after time.Duration // what Retry-After says; 0: nothing
}

// maxAnswerBytes bounds the body of an answer.
const maxAnswerBytes = 32 << 20

// newClient is an HTTP client that follows no redirects and reads no endless bodies.
func newClient(connections int) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = connections
	return &http.Client{
		Transport:     bounded{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded is a transport whose bodies have an end.
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

// try sends the request once. It is not stopped by the end of ctx.
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
		return nil, &failure{err: err, again: true} // a broken connection, half a body, no JSON
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

// refusal judges a status that is no success. err is what the library makes of the body.
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
		f.err = fmt.Errorf("%w: %d: it redirects to %s: write that as url if it is right", ErrUnavailable, s,
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

// retryAfter reads Retry-After, seconds or a date, and OpenAI's retry-after-ms; 0: there is none. A date is compared
// with the server's own clock where it says what that is: this machine's may be wrong.
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

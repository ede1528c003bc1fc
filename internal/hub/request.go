package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/version"
)

// Error is a failed request: missing, refused or unanswered.
type Error struct {
	Name   Name
	Status int // HTTP status; 0: no response

	text   string
	cause  error
	absent bool // it does not exist: the name is wrong
	final  bool // do not fall back to the cache
	passes bool // a retry may succeed
}

func (e *Error) Error() string { return e.Name.String() + ": " + e.text }

func (e *Error) Unwrap() error { return e.cause }

// Is makes the error of a missing repository or file match fs.ErrNotExist.
func (e *Error) Is(target error) bool { return target == fs.ErrNotExist && e.absent }

// Temporary reports whether a retry may succeed.
func (e *Error) Temporary() bool { return e.passes }

const (
	attempts   = 5
	longest    = 2 * time.Minute // longest Retry-After to obey
	redirects  = 10
	errorBytes = 2000 // of a response to show in an error
)

// retry calls send until it succeeds or fails permanently. Responses 408, 429 and 5xx and broken connections are
// retried; a *Error of send and an unreadable local file are not. The caller closes the body of the response, whose
// status is 2xx, or 416 if a range was requested.
func (h *Hub) retry(ctx context.Context, n Name, send func() (*http.Response, error)) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		wait := time.Duration(1<<(attempt-1))*time.Second + rand.N(500*time.Millisecond)
		answer, err := send()
		var final *Error
		var local *fs.PathError
		switch {
		case ctx.Err() != nil:
			if err == nil {
				answer.Body.Close()
			}
			return nil, ctx.Err()
		case errors.As(err, &final), errors.As(err, &local):
			return nil, err
		case err != nil:
			err = h.unanswered(n, err)
		case answer.StatusCode/100 == 2,
			answer.StatusCode == http.StatusRequestedRangeNotSatisfiable && answer.Request.Header.Get("Range") != "":
			return answer, nil
		default:
			if asked := retryAfter(answer.Header); asked > 0 {
				wait = asked
			}
			refused := h.refused(n, answer)
			answer.Body.Close()
			if !refused.passes {
				return nil, refused
			}
			err = refused
		}
		if attempt == attempts || wait > longest {
			return nil, err
		}
		if err := h.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// unanswered returns the error for a connection that broke or failed.
func (h *Hub) unanswered(n Name, err error) *Error {
	return &Error{Name: n, cause: err, passes: true, text: fmt.Sprintf("%s does not respond: %v", h.shown, bare(err))}
}

// ask gets an address with retries and follows redirects; a host that cannot be reached at all is not retried. first
// is the header of the response before any redirect.
func (h *Hub) ask(ctx context.Context, n Name, address, span string) (answer *http.Response, first http.Header,
	err error) {
	answer, err = h.retry(ctx, n, func() (answer *http.Response, err error) {
		answer, first, err = h.follow(ctx, n, address, span)
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			err = h.unanswered(n, err)
		}
		return answer, err
	})
	return answer, first, err
}

// sleep waits, for a shorter time in tests.
func (h *Hub) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(time.Duration(d.Seconds() * float64(h.second)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// errStalled ends a request that has stalled.
var errStalled = errors.New("no data was received for too long")

// lively is the body of a response that is given up if no data arrives for a while.
type lively struct {
	io.ReadCloser
	stall  time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (l *lively) Read(p []byte) (int, error) {
	l.timer.Reset(l.stall)
	n, err := l.ReadCloser.Read(p)
	l.timer.Stop()
	if err != nil && errors.Is(context.Cause(l.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (l *lively) Close() error {
	l.timer.Stop()
	err := l.ReadCloser.Close()
	l.cancel(nil)
	return err
}

// bare returns an error without the address, which may contain a signature.
func bare(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// follow sends a request once, and follows its redirects.
func (h *Hub) follow(parent context.Context, n Name, address, span string) (
	answer *http.Response, first http.Header, err error,
) {
	ctx, cancel := context.WithCancelCause(parent)
	defer func() {
		if err != nil {
			cancel(nil)
		} else {
			timer := time.AfterFunc(h.stall, func() { cancel(errStalled) })
			answer.Body = &lively{answer.Body, h.stall, timer, ctx, cancel}
		}
	}()
	for range redirects {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, nil, err
		}
		request.Header.Set("User-Agent", "assay/"+version.Version)
		request.Header.Set("Accept-Encoding", "identity")
		if span != "" {
			request.Header.Set("Range", span)
		}
		h.authorize(request)
		if answer, err = h.client.Do(request); err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = answer.Header
		}
		to := answer.Header.Get("Location")
		if answer.StatusCode/100 != 3 || to == "" {
			return answer, first, nil
		}
		answer.Body.Close()
		next, err := request.URL.Parse(to)
		if err != nil || next.Scheme != "https" && next.Scheme != "http" {
			return nil, nil, &Error{Name: n, text: fmt.Sprintf("%s redirects to %q", h.shown, to)}
		}
		address = next.String()
	}
	return nil, nil, &Error{Name: n, text: fmt.Sprintf("%s redirects more than %d times", h.shown, redirects)}
}

// post sends a request with a body, as JSON unless it is bytes, and reads the response into v (nil: it is ignored).
// Only the endpoint gets the token.
func (h *Hub) post(ctx context.Context, n Name, address, kind string, body, v any) error {
	raw, ok := body.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := h.retry(ctx, n, func() (*http.Response, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		q.Header.Set("Content-Type", kind)
		if kind == lfsType {
			q.Header.Set("Accept", lfsType)
		}
		h.authorize(q)
		return h.client.Do(q)
	})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<26))
	if err == nil && v != nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return &Error{Name: n, passes: true, cause: err, text: fmt.Sprintf("cannot read the response of %s: %v", h.shown,
			err)}
	}
	return nil
}

// authorize adds the token to requests to the endpoint, but to no other host.
func (h *Hub) authorize(q *http.Request) {
	if h.Token != "" && h.own(q.URL) {
		q.Header.Set("Authorization", "Bearer "+h.Token)
	}
}

// own reports whether an address is at the endpoint.
func (h *Hub) own(u *url.URL) bool {
	own, err := url.Parse(h.Endpoint)
	return err == nil && u.Scheme == own.Scheme && u.Host == own.Host
}

// reset matches the time of a RateLimit header: "api";r=0;t=55.
var reset = regexp.MustCompile(`;\s*r=0\b.*;\s*t=(\d+)`)

// retryAfter returns how long the Hub asks to wait; 0 if it does not say.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if m := reset.FindStringSubmatch(header.Get("RateLimit")); value == "" && m != nil {
		value = m[1]
	}
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// refused returns the error for a response: the message of the Hub, and the remedy.
func (h *Hub) refused(n Name, answer *http.Response) *Error {
	e := &Error{Name: n, Status: answer.StatusCode}
	said := answer.Header.Get("X-Error-Message")
	if said == "" {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, errorBytes))
		said = strings.TrimSpace(string(body))
	}
	switch code := answer.Header.Get("X-Error-Code"); {
	case code == "RevisionNotFound":
		e.absent, e.final = true, true
		e.text = fmt.Sprintf("the repository has no revision %s", n.revision())
	case code == "EntryNotFound":
		e.absent, e.final = true, true
		e.text = fmt.Sprintf("the repository has no such file or folder at revision %s", n.revision())
	case code == "GatedRepo" && h.Token == "":
		e.text = fmt.Sprintf("it is gated: accept its terms on %s, then set HF_TOKEN to a token of that account (or "+
			"`hf auth login`)", h.page(n))
	case code == "GatedRepo":
		e.text = fmt.Sprintf("it is gated, and the account of the token has no access: request it on %s", h.page(n))
	case code == "" && !h.own(answer.Request.URL): // it says nothing about the repository or the token
		e.passes = passing(e.Status) || e.Status == http.StatusTooManyRequests
		e.text = fmt.Sprintf("%s, to which %s refers, responded %s: %s", answer.Request.URL.Host, h.shown, answer.Status,
			said)
	case e.Status/100 == 3: // of a POST, which is not sent elsewhere
		e.text = fmt.Sprintf("%s redirects to %s: if the repository was renamed, use its new name", h.shown,
			answer.Header.Get("Location"))
	case code == "RepoNotFound", e.Status == http.StatusNotFound, e.Status == http.StatusUnauthorized && h.Token == "":
		e.absent = true
		e.text = fmt.Sprintf("%s has no such %s repository, or it is private: set HF_TOKEN to a token with access",
			h.shown,
			n.Kind)
		if n.Kind == Model {
			e.text += fmt.Sprintf(" (for a data set use %sdatasets/%s)", Scheme, n.Repo)
		}
	case h.Token != "" && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		e.text = fmt.Sprintf("%s refuses the token of HF_TOKEN or `hf auth login` (%d): %s", h.shown, e.Status, said)
	case e.Status == http.StatusTooManyRequests:
		e.passes = true
		e.text = fmt.Sprintf("%s received too many requests (429)", h.shown)
		if wait := retryAfter(answer.Header); wait > 0 {
			e.text += fmt.Sprintf(": try again in %v", wait.Round(time.Second))
		}
		if h.Token == "" {
			e.text += "; with HF_TOKEN the limit is higher"
		}
	default:
		e.passes = passing(e.Status)
		e.text = fmt.Sprintf("%s responded %s: %s", h.shown, answer.Status, said)
	}
	return e
}

// passing reports whether a retry may have another status.
func passing(status int) bool { return status == http.StatusRequestTimeout || status >= 500 }

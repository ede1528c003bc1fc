// Package client asks a server, score serve, what its judges say of edits. It imports the standard library alone: a
// program that uses it needs no ONNX Runtime.
//
//	c := client.Client{URL: "http://127.0.0.1:8100"}
//	answer, err := c.Score(ctx, client.Request{Source: source, Instruction: "make it brighter", Edits: edits})
//	for _, r := range answer.Results {
//		fmt.Println(r.Score, r.Error)
//	}
//
// A request gets an id, which it keeps when it is sent again: the server answers it without judging twice.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Client is a server's address, and how it is asked. It may be used by several goroutines.
type Client struct {
	URL   string        // http://127.0.0.1:8100
	Token string        // bearer token; "": that of the variable ASSAY_TOKEN, if there is one
	Wait  time.Duration // how long to ask a server that is away or busy; 0: until the context ends
	HTTP  *http.Client  // nil: http.DefaultClient

	// Retries is how often to ask again after 408, a 5xx that does not mean that the server is away or busy, or an answer
	// that cannot be read. 0: 8, as Python's client; negative: never.
	Retries int
}

// Request asks about edits of one source and instruction, or about pairs with their own. Pictures are the bytes of
// files.
type Request struct {
	ID          string   `json:"id,omitempty"`          // "": a new one
	Scorer      string   `json:"scorer,omitempty"`      // "": the server's first one
	Fingerprint string   `json:"fingerprint,omitempty"` // that the scorer must have; "": any
	Source      []byte   `json:"source,omitempty"`
	Sources     [][]byte `json:"sources,omitempty"` // several, in the order in which the instruction counts them
	Instruction string   `json:"instruction,omitempty"`
	Edits       [][]byte `json:"edits,omitempty"`
	Pairs       []Pair   `json:"pairs,omitempty"`

	Rewards []Reward `json:"rewards,omitempty"`  // several scorers, in place of Scorer
	Combine string   `json:"combine,omitempty"`  // rule of the weighted sum: raw, score01, zscore or rank; "": no sum
	OnError string   `json:"on_error,omitempty"` // of an edit that could not be judged: null, mean or fail; "": null
}

// Pair is an edit with its own source.
type Pair struct {
	Source      []byte   `json:"source,omitempty"`
	Sources     [][]byte `json:"sources,omitempty"`
	Instruction string   `json:"instruction"`
	Edit        []byte   `json:"edit"`
	Group       string   `json:"group,omitempty"` // for zscore, rank and mean; "": all of its sources and instruction
}

// Reward is a scorer of a sum.
type Reward struct {
	Name        string   `json:"name"`
	Weight      *float64 `json:"weight,omitempty"`      // nil: 1
	Dimension   string   `json:"dimension,omitempty"`   // in place of the score
	Scale       string   `json:"scale,omitempty"`       // its own rule; "": that of Combine
	Fingerprint string   `json:"fingerprint,omitempty"` // that the scorer must have
}

// Answer has a result for each edit, in order.
type Answer struct {
	ID      string   `json:"id"`
	Version string   `json:"version"` // of the server
	Judges  []Judge  `json:"judges"`  // that were asked
	Results []Result `json:"results"`
}

// Judge is the identity of a judge.
type Judge struct {
	Name        string      `json:"name"`
	Fingerprint string      `json:"fingerprint"` // of weights, prompts and configuration
	Range       *[2]float64 `json:"score_range"` // nil: its scores have no bounds
}

// Result is what is said of one edit. It has a score or an error; for several rewards it has one of each.
type Result struct {
	Score
	Reward  *float64 `json:"reward"`  // the weighted sum; nil: a judge failed, or no sum was asked for
	Imputed bool     `json:"imputed"` // a part of Reward is the mean of the group
	Rewards []Score  `json:"rewards"`
}

// Score is what one judge says of an edit.
type Score struct {
	Name    string   `json:"name"`    // of the judge, of several
	Value   float64  `json:"score"`   // on the scorer's range; NaN: there is none
	Score01 *float64 `json:"score01"` // nil: the scores have no bounds
	Sigma   float64  `json:"sigma"`   // 0: not known
	Error   *Error   `json:"error"`   // nil: there is a score
}

// Error is a refusal, of a request or of one edit.
type Error struct {
	Status  int    `json:"-"` // of HTTP; 0: of one edit
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Score sends a request, again and again while the server is away or busy (429, 502, 503, 504), and some times after
// other failures that may pass (see [Client].Retries). The error is an [Error] if the server refused it. If every edit
// failed, there is an answer that says so.
func (c *Client) Score(ctx context.Context, q Request) (*Answer, error) {
	if q.OnError == "nan" {
		return nil, errors.New("on_error nan: JSON in Go has no NaN; null gives a nil Reward")
	}
	if q.ID == "" {
		q.ID = rand.Text()
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if c.Wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.Wait, fmt.Errorf("no answer within %v", c.Wait))
		defer stop()
	}
	failures := cmp.Or(c.Retries, 8)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		answer, f, err := c.ask(ctx, body, max(len(q.Edits), len(q.Pairs)))
		if f != nil && !f.away {
			failures--
		}
		if f == nil || failures < 0 {
			return answer, err
		}
		select {
		case <-time.After(max(pause, f.pause)):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// A failure may pass: the request is sent again.
type failure struct {
	away  bool          // the server is not there, or busy
	pause time.Duration // to wait at least
}

// ask sends a request of so many edits once. Without a failure the error is final.
func (c *Client) ask(ctx context.Context, body []byte, edits int) (answer *Answer, f *failure, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+"/v1/score",
		bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, nil, fmt.Errorf("URL %q: want one such as http://127.0.0.1:8100", c.URL)
	}
	r.Header.Set("Content-Type", "application/json")
	if token := c.token(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	doer := c.HTTP
	if doer == nil {
		doer = http.DefaultClient
	}
	w, err := doer.Do(r)
	if stranger := (*tls.CertificateVerificationError)(nil); errors.As(err, &stranger) {
		return nil, nil, err
	}
	if err != nil {
		return nil, &failure{away: true}, err
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		return nil, &failure{away: true}, err
	}
	return c.read(w, raw, edits)
}

// read reads an answer's body, as ask returns it.
func (c *Client) read(w *http.Response, raw []byte, edits int) (*Answer, *failure, error) {
	var said struct {
		Answer
		Error *Error `json:"error"`
	}
	err := json.Unmarshal(raw, &said)
	if err == nil && said.Results != nil {
		err = markMissing(raw, said.Results, edits)
	}
	switch {
	case err == nil && said.Results != nil && !busy(w.StatusCode): // 502, too: a judge's answers could not be read
		return &said.Answer, nil, nil
	case w.StatusCode == http.StatusRequestTimeout || w.StatusCode == http.StatusTooManyRequests || w.StatusCode >= 500:
		seconds, _ := strconv.ParseFloat(w.Header.Get("Retry-After"), 64)
		return nil, &failure{
			away:  busy(w.StatusCode) || w.StatusCode == http.StatusBadGateway || w.StatusCode == http.StatusGatewayTimeout,
			pause: time.Duration(max(0, min(seconds, math.MaxInt32)) * float64(time.Second)),
		}, refusal(said.Error, w)
	case said.Error != nil || w.StatusCode != http.StatusOK:
		return nil, nil, refusal(said.Error, w)
	case err == nil:
		err = errors.New("there are no results")
	}
	return nil, &failure{}, fmt.Errorf("%s: an answer that cannot be read: %w", c.URL, err)
}

// markMissing makes scores that an answer does not have NaN. Its results must be of as many edits, each with a score,
// an error, or several rewards.
func markMissing(raw []byte, results []Result, edits int) error {
	type given struct {
		Score *float64 `json:"score"`
	}
	var has struct {
		Results []struct {
			given
			Rewards []given `json:"rewards"`
		} `json:"results"`
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		return err
	}
	if len(results) != edits {
		return fmt.Errorf("%d results for %d edits", len(results), edits)
	}
	mark := func(i int, s *Score, g given) (err error) {
		if g.Score == nil {
			if s.Value = math.NaN(); s.Error == nil {
				err = fmt.Errorf("result %d has neither a score nor an error", i)
			}
		}
		return err
	}
	for i := range results {
		r, all := &results[i], has.Results[i]
		if err := mark(i, &r.Score, all.given); err != nil && len(r.Rewards) == 0 {
			return err
		}
		for k := range r.Rewards {
			if err := mark(i, &r.Rewards[k], all.Rewards[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Client) token() string {
	if c.Token != "" {
		return c.Token
	}
	return os.Getenv("ASSAY_TOKEN")
}

// busy reports whether a server's answer will be another one later.
func busy(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

func refusal(said *Error, w *http.Response) *Error {
	if said == nil {
		said = &Error{Message: "HTTP " + w.Status}
	}
	said.Status = w.StatusCode
	return said
}

// Package client requests scores of edits from a server, score serve. It imports only the standard library: a program
// that uses it does not need ONNX Runtime.
//
//	c := client.Client{URL: "http://127.0.0.1:8100"}
//	answer, err := c.Score(ctx, client.Request{Source: source, Instruction: "make it brighter", Edits: edits})
//	for _, r := range answer.Results {
//		fmt.Println(r.Score, r.Error)
//	}
//
// Every request has an id, which stays the same in retries: the server answers a retry without judging twice.
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

// Client has the address of a server and the options of requests. It may be used by several goroutines.
type Client struct {
	URL   string        // http://127.0.0.1:8100
	Token string        // bearer token; "": the value of the variable ASSAY_TOKEN, if set
	Wait  time.Duration // how long to retry while the server is away or busy; 0: until the context ends
	HTTP  *http.Client  // nil: http.DefaultClient

	// Retries is the number of retries after 408, a 5xx that does not mean that the server is away or busy, or an
	// unreadable answer. 0: 8, as in the Python client; negative: none.
	Retries int
}

// Request asks about edits of one source and instruction, or about pairs with their own. Pictures are the bytes of
// files.
type Request struct {
	ID          string   `json:"id,omitempty"`          // "": a new one
	Scorer      string   `json:"scorer,omitempty"`      // "": the server's first scorer
	Fingerprint string   `json:"fingerprint,omitempty"` // required of the scorer; "": any
	Source      []byte   `json:"source,omitempty"`
	Sources     [][]byte `json:"sources,omitempty"` // several, in the order in which the instruction numbers them
	Instruction string   `json:"instruction,omitempty"`
	Edits       [][]byte `json:"edits,omitempty"`
	Pairs       []Pair   `json:"pairs,omitempty"`

	Rewards []Reward `json:"rewards,omitempty"`  // several scorers, instead of Scorer
	Combine string   `json:"combine,omitempty"`  // raw, score01, zscore or rank: a weighted sum; lower_bound; "": none
	Penalty *float64 `json:"penalty,omitempty"`  // of Combine lower_bound; nil: 1
	OnError string   `json:"on_error,omitempty"` // for edits that could not be judged: null, mean or fail; "": null
}

// Pair is an edit with its own source.
type Pair struct {
	Source      []byte   `json:"source,omitempty"`
	Sources     [][]byte `json:"sources,omitempty"`
	Instruction string   `json:"instruction"`
	Edit        []byte   `json:"edit"`
	Group       string   `json:"group,omitempty"` // for zscore, rank and mean; "": by sources and instruction
}

// Reward is one scorer of a weighted sum.
type Reward struct {
	Name        string   `json:"name"`
	Weight      *float64 `json:"weight,omitempty"`      // nil: 1
	Dimension   string   `json:"dimension,omitempty"`   // instead of the score
	Scale       string   `json:"scale,omitempty"`       // its own rule; "": the rule in Combine
	Fingerprint string   `json:"fingerprint,omitempty"` // required of the scorer
}

// Answer has a result for each edit, in order.
type Answer struct {
	ID      string   `json:"id"`
	Version string   `json:"version"` // of the server
	Judges  []Judge  `json:"judges"`  // the judges that were asked
	Results []Result `json:"results"`
}

// Judge is the identity of a judge.
type Judge struct {
	Name        string      `json:"name"`
	Fingerprint string      `json:"fingerprint"` // of weights, prompts and configuration
	Range       *[2]float64 `json:"score_range"` // nil: its scores are unbounded
}

// Result is the result of one edit: a score or an error, or, with several rewards, one in Rewards for each.
type Result struct {
	Score
	Reward  *float64 `json:"reward"`  // the weighted sum; nil: a judge failed, or no sum was asked for
	Imputed bool     `json:"imputed"` // a part of Reward is the mean of the group
	Rewards []Score  `json:"rewards"`
}

// Score is the score of one judge for an edit.
type Score struct {
	Name    string   `json:"name"`    // the judge's name, with several judges
	Value   float64  `json:"score"`   // on the scorer's range; NaN: no score
	Score01 *float64 `json:"score01"` // nil: the scores are unbounded
	Sigma   float64  `json:"sigma"`   // 0: unknown
	Error   *Error   `json:"error"`   // nil: there is a score
}

// Error is the refusal of a request or of one edit.
type Error struct {
	Status  int    `json:"-"` // HTTP status; 0: an error of one edit
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Score sends a request. It retries while the server is away or busy (429, 502, 503, 504), and a few times after
// other temporary failures (see [Client].Retries). The error is an [Error] if the server refused the request. If
// every edit failed, there still is an answer, with their errors.
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
	failures, said := cmp.Or(c.Retries, 8), error(nil) // said: the reason of the last failure
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		answer, f, err := c.ask(ctx, body, max(len(q.Edits), len(q.Pairs)))
		if f != nil && !f.away {
			failures--
		}
		if f != nil && ctx.Err() != nil { // cut off, which is no reason
			err = cmp.Or(said, err)
		}
		said = err
		if f == nil || !f.away && failures < 0 {
			return answer, err
		}
		select {
		case <-time.After(max(pause, f.pause)):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// A failure is temporary: the request is retried.
type failure struct {
	away  bool          // the server is unreachable or busy
	pause time.Duration // minimum wait before the retry
}

// ask sends a request with this number of edits once. Without a failure the error is final.
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

// read parses an answer's body; its results are those of ask.
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
	case err == nil && said.Results != nil && !busy(w.StatusCode): // including 502: a judge's answers could not be read
		return &said.Answer, nil, nil
	case w.StatusCode == http.StatusRequestTimeout || w.StatusCode == http.StatusTooManyRequests || w.StatusCode >= 500:
		seconds, _ := strconv.ParseFloat(w.Header.Get("Retry-After"), 64)
		return nil, &failure{
			away:  busy(w.StatusCode) || w.StatusCode == http.StatusBadGateway || w.StatusCode == http.StatusGatewayTimeout,
			pause: time.Duration(max(0, min(seconds, math.MaxInt32)) * float64(time.Second)),
		}, refusal(cmp.Or(said.Error, firstError(said.Results)), w)
	case said.Error != nil || w.StatusCode != http.StatusOK:
		return nil, nil, refusal(said.Error, w)
	case err == nil:
		err = errors.New("no results")
	}
	return nil, &failure{}, fmt.Errorf("%s: unreadable answer: %w", c.URL, err)
}

// markMissing sets scores that are missing in an answer to NaN. There must be as many results as edits, each with a
// score, an error, or several rewards.
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

// busy reports whether a server refused a request only for now.
func busy(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// firstError returns the first error of results of which none has a score; nil if there is none.
func firstError(results []Result) *Error {
	for _, r := range results {
		for _, s := range append([]Score{r.Score}, r.Rewards...) {
			if s.Error != nil {
				return s.Error
			}
		}
	}
	return nil
}

func refusal(said *Error, w *http.Response) *Error {
	if said == nil {
		said = &Error{Message: "HTTP " + w.Status}
	}
	said.Status = w.StatusCode
	return said
}

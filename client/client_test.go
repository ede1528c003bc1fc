package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/client"
	"assay/data"
	"assay/edit"
	"assay/internal/reward"
)

// red is a judge whose score is ten times the mean red of the edit; a black one cannot be judged.
type red struct{}

func (red) Info() edit.Info              { return edit.Info{Range: edit.Range{0, 10}, Sources: 1} }
func (red) Fingerprint() (string, error) { return "red-1", nil }
func (red) Close() error                 { return nil }

// level is the red value of an edit.
type level byte

func (level) Size(edit.Inputs) int { return 1 }

func (red) Prepare(e *edit.Edit) (edit.Inputs, error) {
	p, err := e.Output.Decode()
	if err != nil {
		return nil, err
	}
	if p.Pix[0] == 0 {
		return nil, errors.New("a black picture")
	}
	return level(p.Pix[0]), nil
}

func (red) Score(_ context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	out := make([]edit.Score, len(inputs))
	for i, in := range inputs {
		out[i].Value = float64(in.(level)) / 255
		edit.Range{0, 10}.Scale(&out[i])
	}
	return out, make([]error, len(inputs)), nil
}

func picture(t *testing.T, level byte) []byte {
	t.Helper()
	p := data.NewPicture(4, 4)
	for i := range p.Pix {
		p.Pix[i] = level
	}
	var b bytes.Buffer
	if err := p.EncodePNG(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestScore: scores, errors, sums and refusals of a server.
func TestScore(t *testing.T) {
	s, err := reward.NewServer(reward.Options{}, []string{"red"}, []edit.Judge{red{}})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	defer s.Close()
	defer h.Close()
	c := client.Client{URL: h.URL + "/", Wait: time.Minute}
	source, bright, black := picture(t, 9), picture(t, 102), picture(t, 0)

	t.Run("scores", func(t *testing.T) {
		a, err := c.Score(t.Context(), client.Request{Source: source, Instruction: "x",
			Edits: [][]byte{bright, black}, ID: "one"})
		if err != nil {
			t.Fatal(err)
		}
		if r := a.Results; len(r) != 2 || r[0].Value != 4 || *r[0].Score01 != 0.4 || r[0].Error != nil ||
			!strings.Contains(r[1].Error.Message, "black") || !math.IsNaN(r[1].Value) {
			t.Errorf("got %+v, want a score of 4 and an error", r)
		}
		if a.ID != "one" || a.Judges[0].Fingerprint != "red-1" || *a.Judges[0].Range != [2]float64{0, 10} || a.Version == "" {
			t.Errorf("got %+v, want the id one, and the judge red-1 of 0 to 10", a)
		}
	})
	t.Run("sums", func(t *testing.T) {
		half := 0.5
		q := client.Request{Rewards: []client.Reward{{Name: "red", Weight: &half}}, Combine: "raw", Pairs: []client.Pair{
			{Source: source, Instruction: "x", Edit: bright},
			{Source: source, Instruction: "x", Edit: black},
		}}
		a, err := c.Score(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if r := a.Results; *r[0].Reward != 2 || r[0].Rewards[0].Value != 4 || r[1].Reward != nil ||
			r[1].Rewards[0].Error == nil || !math.IsNaN(r[1].Rewards[0].Value) || !math.IsNaN(r[0].Value) {
			t.Errorf("got %+v, want a reward of 2, and none", r)
		}
		q.OnError = "mean"
		a, err = c.Score(t.Context(), q)
		if err != nil || *a.Results[1].Reward != 2 || !a.Results[1].Imputed {
			t.Errorf("got %+v, %v; want the mean of the group, marked", a, err)
		}
	})
	one, half := [][]byte{bright}, 0.5
	for _, tt := range []struct {
		name string
		q    client.Request
		want string
	}{
		{"penalty of a sum", client.Request{Source: source, Instruction: "x", Edits: one, Combine: "raw",
			Penalty: &half}, "bad_request"},
		{"unknown scorer", client.Request{Source: source, Instruction: "x", Edits: one, Scorer: "blue"}, "unknown_scorer"},
		{"another judge", client.Request{Source: source, Instruction: "x", Edits: one, Fingerprint: "red-2"}, "fingerprint"},
		{"failure", client.Request{Source: source, Instruction: "x", Edits: [][]byte{black}, OnError: "fail"}, "bad_pair"},
		{"no edit", client.Request{Source: source, Instruction: "x"}, "bad_request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := c.Score(t.Context(), tt.q)
			var e *client.Error
			if !errors.As(err, &e) || e.Kind != tt.want || e.Status < 400 {
				t.Errorf("got %+v, %#v; want an error of kind %s", a, err, tt.want)
			}
		})
	}
	t.Run("nan", func(t *testing.T) {
		if _, err := c.Score(t.Context(), client.Request{OnError: "nan"}); err == nil {
			t.Error("got no error, want that there is no NaN")
		}
	})
}

// TestRetries: a request to a server that is busy or drops the connection is retried with the same id, and not before
// the time that the server asks for.
func TestRetries(t *testing.T) {
	var ids []string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q client.Request
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &q); err != nil {
			t.Error(err)
		}
		ids = append(ids, q.ID)
		switch len(ids) {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(w, `{"results": [{"score": 3}]}`)
		}
	}))
	defer h.Close()
	begin := time.Now()
	c := client.Client{URL: h.URL}
	a, err := c.Score(t.Context(), client.Request{Edits: [][]byte{{1}}})
	if err != nil || len(a.Results) != 1 || a.Results[0].Value != 3 {
		t.Errorf("got %+v, %v; want a score of 3", a, err)
	}
	if len(slices.Compact(ids)) != 1 || ids[0] == "" || time.Since(begin) < time.Second {
		t.Errorf("got ids %q after %v, want one id, and a second of Retry-After", ids, time.Since(begin))
	}
	h.Close()
	c.Wait = 10 * time.Millisecond
	if _, err := c.Score(t.Context(), client.Request{}); err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("got %v, want that there was no answer", err)
	}
}

// TestFailures: temporary failures, such as a server error, are retried at most Retries times; a refusal is not.
func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  int
		body    string
		retries int
		want    int // requests
	}{
		{"a fault", 500, `{"error": {"kind": "internal", "message": "no"}}`, 2, 3},
		{"too slow", 408, `{"error": {"kind": "timeout", "message": "no"}}`, 1, 2},
		{"an answer that cannot be read", 200, `{"results": "no"}`, 1, 2},
		{"never", 500, "no", -1, 1},
		{"a refusal", 422, `{"error": {"kind": "bad_request", "message": "no"}}`, 2, 1},
		{"every edit failed", 500, `{"results": [{"error": {"kind": "internal", "message": "no"}}]}`, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer h.Close()
			c := client.Client{URL: h.URL, Retries: tt.retries}
			a, err := c.Score(t.Context(), client.Request{Edits: [][]byte{{1}}})
			if answered := tt.name == "every edit failed"; asked != tt.want || (err == nil) != answered {
				t.Errorf("got %d requests, %+v, %v; want %d", asked, a, err, tt.want)
			}
			var refusal *client.Error
			if tt.status != 200 && err != nil && (!errors.As(err, &refusal) || refusal.Status != tt.status) {
				t.Errorf("got %v, want an Error of status %d", err, tt.status)
			}
		})
	}
}

// TestAnswers: an answer's results for the edits of the request are used; a missing result is not a score of 0.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string // of the error; "": there is an answer
	}{
		{"answers that could not be read", 502, `{"results": [{"error": {"kind": "unreadable"}}]}`, ""},
		{"a model that does not answer", 503, `{"results": [{"rewards": [{"name": "a", "error": {"message": "no model"}}]}]}`,
			"no answer within 100ms: no model"},
		{"no result", 200, `{"results": []}`, "0 results for 1 edits"},
		{"an empty result", 200, `{"results": [{}]}`, "neither a score nor an error"},
		{"an empty reward", 200, `{"results": [{"rewards": [{"name": "a"}]}]}`, "neither a score nor an error"},
		{"something else", 200, `{"status": "ok"}`, "no results"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer h.Close()
			c := client.Client{URL: h.URL, Wait: 100 * time.Millisecond, Retries: -1}
			a, err := c.Score(t.Context(), client.Request{Edits: [][]byte{{1}}})
			if tt.want == "" && (err != nil || a.Results[0].Error == nil || !math.IsNaN(a.Results[0].Value)) {
				t.Errorf("got %+v, %v; want the edit's error, and no score", a, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %+v, %v; want an error with %q", a, err, tt.want)
			}
		})
	}
}

// TestAddresses: a server that can never be reached is asked once.
func TestAddresses(t *testing.T) {
	h := httptest.NewTLSServer(http.NotFoundHandler())
	defer h.Close()
	for url, want := range map[string]string{"localhost:8100": "want one such as", h.URL: "certificate"} {
		t.Run(want, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			c := client.Client{URL: url}
			if _, err := c.Score(ctx, client.Request{}); err == nil || !strings.Contains(err.Error(), want) || ctx.Err() != nil {
				t.Errorf("got %v, want an error with %q at once", err, want)
			}
		})
	}
}

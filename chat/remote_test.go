package chat

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/internal/grammar"
	"assay/internal/long"
)

// fakeServer answers requests as a function of their number, from 0, and records their bodies.
type fakeServer struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []map[string]any
	header http.Header // of the last request
	n      atomic.Int64
}

func newFakeServer(t *testing.T, answer func(w http.ResponseWriter, n int64)) *fakeServer {
	f := &fakeServer{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		raw, err := io.ReadAll(q.Body)
		body := map[string]any{}
		if err == nil {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil || q.URL.Path != "/v1/chat/completions" {
			t.Errorf("got %s %s, %v, want /v1/chat/completions", q.Method, q.URL, err)
		}
		f.mu.Lock()
		f.bodies, f.header = append(f.bodies, body), q.Header
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		answer(w, f.n.Add(1)-1)
	}))
	t.Cleanup(f.Close)
	return f
}

// says returns an answer as servers send it.
func says(text string) string {
	raw, _ := json.Marshal(text)
	return fmt.Sprintf(`{"id": "1", "object": "chat.completion", "created": 1, "model": "judge-7b",
		"choices": [{"index": 0, "message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}],
		"usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
		"prompt_tokens_details": {"cached_tokens": 40}}}`, raw)
}

func (f *fakeServer) open(t *testing.T, change func(*Server)) *Remote {
	t.Helper()
	s := DefaultServer()
	s.URL, s.Model, s.Timeout = f.URL+"/v1", "judge-7b", 20
	if change != nil {
		change(&s)
	}
	r, err := OpenRemote(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func ask(text string) []Message { return []Message{{Role: "user", Content: []Part{{Text: text}}}} }

func pointer[T any](v T) *T { return &v }

// gradient is a picture in which every pixel differs.
func gradient(w, h int) *data.Picture {
	p := &data.Picture{Width: w, Height: h, Pix: make([]byte, 3*w*h)}
	for i := range p.Pix {
		p.Pix[i] = byte(i*7 + i/256)
	}
	return p
}

// TestRequest: the request holds exactly what was asked, including greedy decoding and every pixel of the pictures,
// and no key other than the named one.
func TestRequest(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "another key")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("JUDGE_KEY", "secret-1")
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) { io.WriteString(w, says("fine")) })
	r := f.open(t, func(s *Server) {
		s.KeyVariable = "JUDGE_KEY"
		s.Extra = Object{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
	})
	picture := gradient(31, 17)
	messages := []Message{
		{"system", []Part{{Text: "Judge."}}},
		{"user", []Part{{Image: picture}, {Text: "How good?"}}},
	}
	a, err := r.Chat(t.Context(), messages, Options{
		MaxNewTokens: 64, Temperature: pointer(0.0), TopK: pointer(20), TopP: pointer(0.9),
		RepetitionPenalty: pointer(1.05), Seed: 7, Stop: []string{"\n\n"}, StopTokenIDs: []int64{3},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (&Answer{Text: "fine", Finish: "stop", Usage: Usage{100, 20, 40}}); !cmp.Equal(a, want) {
		t.Errorf("answer %v, want %v", a, want)
	}
	body := f.bodies[0]
	content := body["messages"].([]any)[1].(map[string]any)["content"].([]any)
	url := content[0].(map[string]any)["image_url"].(map[string]any)["url"].(string)
	content[0] = "picture"
	want := map[string]any{
		"model": "judge-7b", "max_tokens": 64.0, "temperature": 0.0, "top_p": 0.9, "top_k": 20.0,
		"repetition_penalty": 1.05, "stop": []any{"\n\n"}, "stop_token_ids": []any{3.0},
		"chat_template_kwargs": map[string]any{"enable_thinking": false},
		"messages": []any{
			map[string]any{"role": "system", "content": "Judge."},
			map[string]any{"role": "user", "content": []any{
				"picture", map[string]any{"type": "text", "text": "How good?"},
			}},
		},
	}
	if d := cmp.Diff(want, body); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(url, "data:image/png;base64,"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := data.Decode(raw, data.Limits{})
	if err != nil || !cmp.Equal(got.Pix, picture.Pix) || got.Width != picture.Width {
		t.Errorf("picture: got %d x %d pixels, %v, want those that were sent", got.Width, got.Height, err)
	}
	if got := f.header.Get("Authorization"); got != "Bearer secret-1" {
		t.Errorf("Authorization: got %q, want %q", got, "Bearer secret-1")
	}
	if _, err := f.open(t, nil).Chat(t.Context(), ask("a"), Options{Seed: 5}); err != nil {
		t.Fatal(err)
	}
	if got := f.header.Get("Authorization"); got != "" {
		t.Errorf("Authorization without a key: got %q, want none", got)
	}
	if got := f.bodies[1]["seed"]; got != 5.0 {
		t.Errorf("seed %v of a sampled answer, want 5", got)
	}
}

// TestWeather injects faults: every server failure ends in an answer after a retry, or in an error that names the
// failure and whose fault it is.
func TestWeather(t *testing.T) {
	long.Test(t)
	status := func(code int, body string, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	ok := says("fine")
	half := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", fmt.Sprint(len(ok)))
		io.WriteString(w, ok[:len(ok)/2])
	}
	slow := func(w http.ResponseWriter) {
		for range 100 { // a body that never ends
			io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}
	cases := []struct {
		name    string
		answer  func(http.ResponseWriter)
		times   int64  // then it answers
		fails   string // "": it answers in the end
		request bool   // the request's fault
		ends    bool   // no other request would succeed
	}{
		{"429", status(429, `{"error": {"message": "slow down"}}`, "Retry-After", "0.01"), 2, "", false, false},
		{"429 in milliseconds", status(429, "", "Retry-After-Ms", "5"), 2, "", false, false},
		{"500 without JSON", status(500, "<html>oops"), 1, "", false, false},
		{"500 for ever", status(500, "<html>oops"), 99, "500: Internal Server Error (tried 3 times)", false, false},
		{"503", status(503, `{"error": {"message": "loading"}}`), 1, "", false, false},
		{"half a body", half, 1, "", false, false},
		{"half a body for ever", half, 99, "tried 3 times", false, false},
		{"nonsense", status(200, "{]"), 1, "", false, false},
		{"nonsense for ever", status(200, "hello"), 99, "tried 3 times", false, false},
		{"another object", status(200, `{"detail": "hello"}`), 99, "want one choice", false, false},
		{"null", status(200, `null`), 99, "does not follow the protocol (tried 3 times)", false, false},
		{"no content", status(200, strings.Replace(ok, `"content": "fine"`, `"content": null`, 1)), 99, "without content",
			false, false},
		{"never stops", slow, 99, "no answer within 0.3 seconds (tried 3 times)", false, false},
		{"another model", status(200, strings.Replace(ok, "judge-7b", "other", 1)), 99, `comes from "other"`, false, true},
		{"wrong key", status(401, `{"error": {"message": "bad key secret-1"}}`), 99, "401: bad key (the key)", false, true},
		{"no such model", status(404, `{"error": {"message": "no judge-7b"}}`), 99, "404: no judge-7b", false, true},
		{"no money", status(429, `{"error": {"message": "pay", "code": "insufficient_quota"}}`), 99, "429: pay",
			false, true},
		{"elsewhere", status(307, "", "Location", "http://a.org/"), 99, "redirects to http://a.org/", false, true},
		{"bad picture", status(400, `{"error": {"message": "cannot identify image"}}`), 99, "400: cannot identify image",
			true, false},
		{"too large", status(413, ""), 99, "413: Request Entity Too Large", true, false},
		{"tomorrow", status(429, "", "Retry-After", "86400"), 99, "try again in 24h0m0s", false, true},
	}
	t.Setenv("JUDGE_KEY", "secret-1")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, func(w http.ResponseWriter, n int64) {
				if n < c.times {
					c.answer(w)
					return
				}
				io.WriteString(w, ok)
			})
			r := f.open(t, func(s *Server) { s.Timeout, s.Retries, s.KeyVariable = 0.3, 2, "JUDGE_KEY" })
			a, err := r.Chat(t.Context(), ask("a"), Options{})
			if c.times < 99 {
				if err != nil || a.Text != "fine" {
					t.Fatalf("got %v, %v, want %q", a, err, "fine")
				}
				return
			}
			var server *ServerError
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error %v, want one with %q", err, c.fails)
			}
			if errors.Is(err, ErrRequest) != c.request || errors.Is(err, ErrUnavailable) != c.ends ||
				errors.As(err, &server) != (!c.request && !c.ends) {
				t.Errorf("%v: got the request's fault %t, the end %t, want %t, %t", err, errors.Is(err, ErrRequest),
					errors.Is(err, ErrUnavailable), c.request, c.ends)
			}
			if strings.Contains(err.Error(), "secret-1") {
				t.Errorf("got the key in error %q, want it left out", err)
			}
		})
	}
}

// TestAnswersAs: an alias may answer by the names that are listed.
func TestAnswersAs(t *testing.T) {
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) { io.WriteString(w, says("fine")) })
	r := f.open(t, func(s *Server) { s.Model, s.AnswersAs = "judge", []string{"judge-7b"} })
	if _, err := r.Chat(t.Context(), ask("a"), Options{}); err != nil {
		t.Error(err)
	}
}

// TestLogProbs: log-probabilities are returned if present; missing ones are an error.
func TestLogProbs(t *testing.T) {
	f := newFakeServer(t, func(w http.ResponseWriter, n int64) {
		text := says("fine")
		if n == 0 {
			text = strings.Replace(text, `"finish_reason"`, `"logprobs": {"content": [
				{"token": "fi", "logprob": -0.5, "bytes": null, "top_logprobs": []},
				{"token": "ne", "logprob": -0.25, "bytes": null, "top_logprobs": []}]}, "finish_reason"`, 1)
		}
		io.WriteString(w, text)
	})
	r := f.open(t, nil)
	a, err := r.Chat(t.Context(), ask("a"), Options{LogProbs: true})
	if err != nil || !cmp.Equal(a.LogProbs, []float64{-0.5, -0.25}) {
		t.Errorf("got %v, %v, want log-probabilities -0.5, -0.25", a, err)
	}
	if _, err = r.Chat(t.Context(), ask("a"), Options{LogProbs: true}); !errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), "logprobs") {
		t.Errorf("no log-probabilities: got error %v, want %v with %q", err, ErrUnavailable, "logprobs")
	}
}

// TestCapsTogether: a cap holds across concurrent callers while the first answer's cost is unknown.
func TestCapsTogether(t *testing.T) {
	for name, change := range map[string]func(*Server){
		"tokens": func(s *Server) { s.TokenCap = 600 },
		"cost":   func(s *Server) { s.Price, s.CostCap = Price{Prompt: 10, Cached: 5, Completion: 10}, 0.0055 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
				time.Sleep(5 * time.Millisecond)
				io.WriteString(w, says("fine"))
			})
			r := f.open(t, func(s *Server) { s.Concurrency = 16; change(s) })
			var wg sync.WaitGroup
			var refused atomic.Int64
			for range 32 {
				wg.Go(func() {
					if _, err := r.Chat(t.Context(), ask("a"), Options{}); errors.Is(err, ErrCap) {
						refused.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if f.n.Load() != 5 || refused.Load() != 27 {
				t.Errorf("got %d requests and %d refused, want 5 and 27", f.n.Load(), refused.Load())
			}
		})
	}
}

// TestCapsUncounted: if answers come without usage, a cap lets only one of many callers ask.
func TestCapsUncounted(t *testing.T) {
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, strings.Replace(says("fine"), "usage", "use", 1))
	})
	r := f.open(t, func(s *Server) { s.TokenCap, s.Concurrency = 600, 16 })
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, err := r.Chat(t.Context(), ask("a"), Options{})
			if want := "usage"; !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %v with %q", err, ErrUnavailable, want)
			}
		})
	}
	wg.Wait()
	if f.n.Load() != 1 {
		t.Errorf("got %d requests, want 1", f.n.Load())
	}
}

// TestCapsCancelled: a caller that waits for another one's answer leaves when its own context ends.
func TestCapsCancelled(t *testing.T) {
	answer, asked := make(chan bool), make(chan bool)
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
		asked <- true
		<-answer
		io.WriteString(w, says("fine"))
	})
	r := f.open(t, func(s *Server) { s.TokenCap, s.Concurrency = 600, 16 })
	first := make(chan error)
	go func() {
		_, err := r.Chat(context.Background(), ask("a"), Options{})
		first <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() {
		_, err := r.Chat(ctx, ask("b"), Options{})
		second <- err
	}()
	time.Sleep(10 * time.Millisecond) // by now it waits; if not yet, it leaves anyway
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v of the caller that left, want %v", err, context.Canceled)
	}
	close(answer)
	if err := <-first; err != nil || f.n.Load() != 1 {
		t.Errorf("got error %v and %d requests, want none and 1", err, f.n.Load())
	}
}

// TestCaps: a cap on tokens or cost ends the run before it is exceeded, and the counters show what was spent.
func TestCaps(t *testing.T) {
	for _, change := range []func(*Server){
		func(s *Server) { s.TokenCap = 600 },
		func(s *Server) { s.Price, s.CostCap = Price{Prompt: 10, Cached: 5, Completion: 10}, 0.005 },
	} {
		f := newFakeServer(t, func(w http.ResponseWriter, _ int64) { io.WriteString(w, says("fine")) })
		r := f.open(t, change)
		var err error
		n := 0
		for ; err == nil && n < 100; n++ {
			_, err = r.Chat(t.Context(), ask("a"), Options{})
		}
		if !errors.Is(err, ErrCap) || f.n.Load() != 5 {
			t.Errorf("ends with %v after %d requests, want 5", err, f.n.Load())
		}
		want := Spent{Requests: 5, Answers: 5, Prompt: 500, Cached: 200, Completion: 100}
		if r.server.CostCap > 0 {
			want.Cost = 0.005
		}
		if got := r.Spent(); !cmp.Equal(got, want) {
			t.Errorf("spent %v, want %v", got, want)
		}
	}
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
		io.WriteString(w, strings.Replace(says("fine"), "usage", "use", 1))
	})
	if _, err := f.open(t, nil).Chat(t.Context(), ask("a"), Options{}); err != nil {
		t.Errorf("no usage, no cap: got error %v, want none", err)
	}
	_, err := f.open(t, func(s *Server) { s.TokenCap = 600 }).Chat(t.Context(), ask("a"), Options{})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "usage") {
		t.Errorf("no usage, a cap: got error %v, want %v with %q", err, ErrUnavailable, "usage")
	}
}

// TestConcurrency: no more than the configured number of requests at a time.
func TestConcurrency(t *testing.T) {
	var now, most atomic.Int64
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(10 * time.Millisecond)
		now.Add(-1)
		io.WriteString(w, says("fine"))
	})
	r := f.open(t, func(s *Server) { s.Concurrency = 3 })
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			if _, err := r.Chat(t.Context(), ask("a"), Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 3 {
		t.Errorf("%d requests at a time, want 3", most.Load())
	}
}

// TestGone: a server that fails for many requests in a row ends the run, instead of failing every row.
func TestGone(t *testing.T) {
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) { w.WriteHeader(500) })
	r := f.open(t, func(s *Server) { s.Retries, s.Concurrency = 0, 1 })
	for n := 1; ; n++ {
		_, err := r.Chat(t.Context(), ask("a"), Options{})
		if errors.Is(err, ErrUnavailable) {
			if n != 11 {
				t.Errorf("got %d requests until it was given up, want 11", n)
			}
			return
		}
		if n > 50 {
			t.Fatalf("got %d requests, want it given up after 11", n)
		}
	}
}

// TestGoneMeanwhile: a late answer does not clear the failures that came after its request.
func TestGoneMeanwhile(t *testing.T) {
	asked, release := make(chan bool), make(chan bool)
	f := newFakeServer(t, func(w http.ResponseWriter, n int64) {
		if n > 0 {
			w.WriteHeader(500)
			return
		}
		close(asked)
		<-release
		io.WriteString(w, says("fine"))
	})
	r := f.open(t, func(s *Server) { s.Retries, s.Concurrency = 0, 2 })
	late := make(chan error)
	go func() {
		_, err := r.Chat(t.Context(), ask("a"), Options{})
		late <- err
	}()
	<-asked
	for n := 1; n <= 12; n++ {
		if n == 12 { // one too many
			close(release)
			if err := <-late; err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Chat(t.Context(), ask("b"), Options{}); errors.Is(err, ErrUnavailable) != (n == 12) {
			t.Fatalf("request %d: got error %v, want %v in the last alone", n, err, ErrUnavailable)
		}
	}
}

// TestCancel: when the context ends, a request already sent is waited for and its answer returned; nothing more is
// sent.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		io.WriteString(w, says("fine"))
	})
	r := f.open(t, nil)
	if a, err := r.Chat(ctx, ask("a"), Options{}); err != nil || a.Text != "fine" {
		t.Errorf("the request that was sent: got %v, %v, want %q", a, err, "fine")
	}
	if _, err := r.Chat(ctx, ask("a"), Options{}); !errors.Is(err, context.Canceled) || f.n.Load() != 1 {
		t.Errorf("the next: got error %v after %d requests, want %v after 1", err, f.n.Load(), context.Canceled)
	}
}

// TestBadRequests: requests that no server could answer are not sent.
func TestBadRequests(t *testing.T) {
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) { io.WriteString(w, says("fine")) })
	r := f.open(t, nil)
	for _, m := range [][]Message{
		nil, {{Role: "user"}}, {{Role: "tool", Content: []Part{{Text: "a"}}}},
		{{Role: "system", Content: []Part{{Image: gradient(2, 2)}}}},
		{{Role: "user", Content: []Part{{Image: &data.Picture{Width: 2, Height: 2}}}}},
	} {
		if _, err := r.Chat(t.Context(), m, Options{}); !errors.Is(err, ErrRequest) {
			t.Errorf("%v: got error %v, want %v", m, err, ErrRequest)
		}
	}
	if f.n.Load() != 0 {
		t.Errorf("got %d requests sent, want none", f.n.Load())
	}
}

// TestCheck: all wrong settings are named.
func TestCheck(t *testing.T) {
	_, err := OpenRemote(Server{URL: "https://user:pw@host/v1?key=1", Extra: Object{"model": "x"}, CostCap: 1})
	for _, key := range []string{
		"url", "model", "concurrency", "timeout", "max_wait", "limit_field", "extra", "cost_cap",
	} {
		t.Run(key, func(t *testing.T) {
			if err == nil || !strings.Contains(err.Error(), key+": ") {
				t.Errorf("%s: got error %v, want one that names it", key, err)
			}
		})
	}
	s := DefaultServer()
	s.URL, s.Model, s.KeyVariable = "http://localhost/v1", "m", "NO_SUCH_VARIABLE"
	if _, err := OpenRemote(s); err == nil || !strings.Contains(err.Error(), "NO_SUCH_VARIABLE") {
		t.Errorf("a key that is not set: got error %v, want one with %q", err, "NO_SUCH_VARIABLE")
	}
}

// TestEndlessBody: an endless body is cut off.
func TestEndlessBody(t *testing.T) {
	long.Test(t)
	junk := bytes.Repeat([]byte(" "), 1<<20)
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) {
		for range 64 {
			if _, err := w.Write(junk); err != nil {
				return
			}
		}
	})
	_, err := f.open(t, func(s *Server) { s.Retries = 0 }).Chat(t.Context(), ask("a"), Options{})
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an endless body: got error %v, want one with %q", err, "longer than")
	}
}

// TestReadServer: a file of settings is read strictly.
func TestReadServer(t *testing.T) {
	s, err := ReadServer("s.yaml", []byte(`url: http://localhost:8000/v1
model: judge
timeout: 2.5
extra: {chat_template_kwargs: {enable_thinking: false}}
price: {prompt: 0.1, completion: 0.4}
cost_cap: 2
`), func(s *Server) { s.Concurrency = 3 })
	want := Server{
		URL: "http://localhost:8000/v1", Model: "judge", Concurrency: 3, Timeout: 2.5, Retries: 5, MaxWait: 120,
		LimitField: "max_tokens", Extra: Object{"chat_template_kwargs": map[string]any{"enable_thinking": false}},
		Price: Price{Prompt: 0.1, Completion: 0.4}, CostCap: 2,
	}
	if err != nil || !cmp.Equal(s, want) {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
	_, err = ReadServer("s.yaml", []byte("url: localhost\nkey: secret\n"), nil)
	for _, want := range []string{"s.yaml:1:1: url", "s.yaml:2:1: key: unknown key", "model"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
}

// TestResponseFormat: a grammar reaches a server as response_format if its settings say so, and is refused otherwise.
func TestResponseFormat(t *testing.T) {
	f := newFakeServer(t, func(w http.ResponseWriter, _ int64) { io.WriteString(w, says("{}")) })
	g, err := grammar.FromSchema(json.RawMessage(`{"type": "object", "properties": {}}`), true)
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "user", Content: []Part{{Text: "a"}}}}
	if _, err := f.open(t, nil).
		Chat(t.Context(), messages, Options{Grammar: g}); !errors.Is(err, ErrRequest) ||
		f.n.Load() != 0 {
		t.Errorf("got error %v after %d requests, want %v after none", err, f.n.Load(), ErrRequest)
	}
	r := f.open(t, func(s *Server) { s.ResponseFormat = true })
	if _, err := r.Chat(t.Context(), messages, Options{Grammar: g}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true,
		"schema": map[string]any{"type": "object", "properties": map[string]any{}}}}
	if diff := cmp.Diff(want, f.bodies[0]["response_format"]); diff != "" {
		t.Error(diff)
	}
}

// TestRetryAfterDate: a date is compared with the server's clock, whatever this machine's clock shows.
func TestRetryAfterDate(t *testing.T) {
	now := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC) // long ago
	h := http.Header{"Date": {now.Format(http.TimeFormat)}}
	h.Set("Retry-After", now.Add(7*time.Second).Format(http.TimeFormat))
	if got := retryAfter(h); got != 7*time.Second {
		t.Errorf("%v, want 7s", got)
	}
	h.Del("Date")
	if got := retryAfter(h); got != 0 {
		t.Errorf("without the server's clock: got %v, want 0", got)
	}
}

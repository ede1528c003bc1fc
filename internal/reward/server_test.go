package reward

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/edit"
)

func TestScore(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}, "b": &fake{failing: 1}}, "a", "b")
	source, dark, bright := png(t, 9, 8, 6), png(t, 51, 5, 5), png(t, 255, 5, 5)
	code, _, raw := post(
		t,
		h.URL+"/v1/score",
		object{
			"source":      source,
			"instruction": "brighter",
			"edits":       []any{dark, bright, "no base64", bright[:40], "http://example.com/a.png", nil},
		},
	)
	got := decodeScores(t, raw)
	if code != 200 || got.Scorer != "a" || len(got.Results) != 6 {
		t.Fatalf("%d %s", code, raw)
	}
	for i, want := range []float64{0.2, 1} {
		if r := got.Results[i]; r.Error != nil || *r.Score01 != want || *r.Score != 10*want {
			t.Errorf("edit %d: %s", i, raw)
		}
	}
	for i, r := range got.Results[2:] {
		if r.Score != nil || r.Score01 != nil || r.Error == nil || r.Error.Kind != "bad_picture" {
			t.Errorf("edit %d: want an error and no number: %s", i+2, raw)
		}
	}

	// an edit that fails on the device does not fail the others
	code, _, raw = post(
		t,
		h.URL+"/v1/score",
		object{"scorer": "b", "source": source, "instruction": "brighter", "edits": []any{dark, bright, dark}},
	)
	if got = decodeScores(t, raw); code != 200 || got.Results[0].Score == nil || got.Results[1].Error == nil ||
		got.Results[2].Score == nil {
		t.Errorf("%d %s", code, raw)
	}

	// the same as a form
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	m.WriteField("instruction", "brighter")
	for _, f := range [][2]string{{"edits", string(bright)}, {"source", string(source)}, {"edits", string(dark)}} {
		w, _ := m.CreateFormFile(f[0], "x.png")
		w.Write([]byte(f[1]))
	}
	m.Close()
	r, err := http.Post(h.URL+"/v1/score", m.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	raw, _ = io.ReadAll(r.Body)
	if got = decodeScores(t, raw); r.StatusCode != 200 || *got.Results[0].Score != 10 || *got.Results[1].Score != 2 {
		t.Errorf("form: %d %s", r.StatusCode, raw)
	}
	code, _, raw = post(
		t,
		h.URL+"/v1/score",
		object{
			"source":      "data:image/png;base64," + base64.StdEncoding.EncodeToString(source),
			"instruction": "x",
			"edits":       []any{dark},
		},
	)
	if code != 200 {
		t.Errorf("data URL: %d %s", code, raw)
	}
}

func TestRefusals(t *testing.T) {
	_, h := start(t, Options{MaxBody: 10000, MaxPixels: 100, MaxItems: 3}, map[string]edit.Judge{"a": &fake{}}, "a")
	good, large := png(t, 1, 5, 5), png(t, 1, 11, 10)
	pair := func(more object) object {
		o := object{"source": good, "instruction": "x", "edits": []any{good}}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
	for _, c := range []struct {
		name string
		body any
		code int
		kind string
	}{
		{"no JSON", []byte("{"), 400, "bad_request"},
		{"nothing", []byte(""), 400, "bad_request"},
		{"two values", []byte("{} {}"), 400, "bad_request"},
		{"deep", []byte(strings.Repeat("[", 9000)), 422, "bad_request"},
		{"wrong type", []byte(`{"instruction": 3}`), 422, "bad_request"},
		{"unknown field", pair(object{"source_url": "http://example.com"}), 422, "bad_request"},
		{"long body", pair(object{"instruction": strings.Repeat("x", 10000)}), 413, "too_large"},
		{"long instruction", pair(object{"instruction": strings.Repeat("x", 9000)}), 422, "bad_request"},
		{"no instruction", pair(object{"instruction": " "}), 422, "bad_request"},
		{"no source", pair(object{"source": nil}), 422, "bad_request"},
		{"a path", pair(object{"source": "/etc/passwd"}), 422, "bad_picture"},
		{"no edits", pair(object{"edits": []any{}}), 422, "bad_request"},
		{"many edits", pair(object{"edits": []any{good, good, good, good}}), 413, "too_many"},
		{"unknown scorer", pair(object{"scorer": "z"}), 422, "unknown_scorer"},
		{"large source", pair(object{"source": large}), 413, "too_large"},
		{"only a large edit", pair(object{"edits": []any{large}}), 413, "too_large"},
		{"only a damaged edit", pair(object{"edits": []any{good[:30]}}), 422, "bad_picture"},
		{"a damaged source", pair(object{"source": good[:50]}), 422, "bad_picture"},
	} {
		code, _, raw := post(t, h.URL+"/v1/score", c.body)
		got := decodeScores(t, raw)
		e := got.Error
		if e == nil && len(got.Results) > 0 {
			e = got.Results[0].Error
		}
		if code != c.code || e == nil || e.Kind != c.kind || e.Message == "" || bytes.Contains(raw, []byte("score01")) {
			t.Errorf("%s: %d %s; want %d %s", c.name, code, raw, c.code, c.kind)
		}
	}
}

func TestToken(t *testing.T) {
	_, h := start(t, Options{Token: "secret-token"}, map[string]edit.Judge{"a": &fake{}}, "a")
	for _, c := range []struct {
		path, token string
		code        int
	}{{"/health", "", 401}, {"/metrics", "", 401}, {"/health", "Bearer secret-toke", 401},
		{"/health", "Basic secret-token", 401}, {"/health", "Bearer secret-token", 200}, {"/", "", 200}} {
		r, _ := http.NewRequest("GET", h.URL+c.path, nil)
		r.Header.Set("Authorization", c.token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.code {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, answer.StatusCode, c.code)
		}
	}
	_, open := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	for header, value := range map[string]string{"Host": "evil.example", "Sec-Fetch-Site": "cross-site"} {
		r, _ := http.NewRequest("POST", open.URL+"/v1/score", strings.NewReader("{}"))
		r.Header.Set(header, value)
		if header == "Host" {
			r.Host = value
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 403 {
			t.Errorf("%s %s: %d, want 403: a page of another site must not reach a server without a token",
				header, value, answer.StatusCode)
		}
	}
}

func TestUniRL(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}, "b": &fake{failing: 1}}, "a", "b")
	source, bright := png(t, 9, 8, 6), png(t, 255, 5, 5)
	two := []any{object{"text": "brighter", "image_b64": source}, object{"text": "brighter", "image_b64": bright}}
	code, _, raw := post(t, h.URL+"/score", object{"requests": []any{
		object{"history": two, "required_rewards": []string{"a", "b", "c"}, "metadata": object{"k": 1}},
		object{"history": two[:1], "required_rewards": []string{"a"}, "metadata": nil},
		object{
			"history":          []any{two[0], object{"text": "x", "image_b64": bright, "video_path": "/v.mp4"}},
			"required_rewards": []string{"a"},
		},
		object{"history": two, "required_rewards": []string{}},
		object{"history": two, "required_rewards": []string{"a"}, "later": true},
	}})
	var got struct {
		Results []map[string]map[string]float64
		Errors  []map[string]string
	}
	if err := json.Unmarshal(raw, &got); err != nil || code != 200 || len(got.Results) != 5 || len(got.Errors) != 5 {
		t.Fatalf("%d %s", code, raw)
	}
	if got.Results[0]["a"]["score"] != 10 || len(got.Results[0]) != 1 || got.Errors[0]["b"] == "" ||
		got.Errors[0]["c"] == "" ||
		len(got.Errors[0]) != 2 {
		t.Errorf("first request: %s", raw)
	}
	for _, i := range []int{1, 2} {
		if len(got.Results[i]) != 0 || got.Errors[i]["a"] == "" {
			t.Errorf("request %d: %s", i, raw)
		}
	}
	if len(got.Results[3])+len(got.Errors[3]) != 0 || got.Results[4]["a"]["score"] != 10 {
		t.Errorf("last requests: %s", raw)
	}
	for path, want := range map[string]string{"/rewards": `{"rewards":["a","b"]}`,
		"/health": `{"rewards":{"a":[true],"b":[true]},"scorer":`} {
		r, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if body, _ := io.ReadAll(r.Body); !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: got %s, want %s", path, body, want)
		}
	}
	if code, _, raw = post(t, h.URL+"/score", object{"requests": []any{}}); code != 200 ||
		!bytes.Contains(raw, []byte(`"results":[]`)) {
		t.Errorf("no requests: %d %s", code, raw)
	}
	ours := object{"source": source, "instruction": "brighter", "edits": []any{bright}}
	for _, body := range []object{{}, {"requests": nil}, ours} {
		if code, _, raw = post(t, h.URL+"/score", body); code != 422 || !bytes.Contains(raw, []byte("requests is missing")) {
			t.Errorf("%v: %d %s", body, code, raw)
		}
	}
}

// TestUniRLBatch: the same output asked about many times in one request is scored in batches like others.
func TestUniRLBatch(t *testing.T) {
	f := &fake{}
	_, h := start(t, Options{Batch: 2}, map[string]edit.Judge{"a": f}, "a")
	turn := object{"text": "brighter", "image_b64": png(t, 51, 8, 6)}
	requests := slices.Repeat([]any{object{"history": []any{turn, turn}, "required_rewards": []string{"a"}}}, 5)
	code, _, raw := post(t, h.URL+"/score", object{"requests": requests})
	if code != http.StatusOK || bytes.Count(raw, []byte(`{"a":{"score":2}}`)) != 5 {
		t.Errorf("got %d %s, want 5 scores of 2", code, raw)
	}
	if want := []int{2, 2, 1}; !slices.Equal(f.runs, want) {
		t.Errorf("got runs of %v edits, want %v", f.runs, want)
	}
}

// eventually waits for a condition that another goroutine meets.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 5000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

func (q *queue) running() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.workers[0].idle()
}

// Requests that arrive while a run is on the device share the next run. Requests beyond the queue, or that cannot be
// answered in time, are refused at once with Retry-After.
func TestQueue(t *testing.T) {
	f := &fake{gate: make(chan struct{})}
	s, h := start(t, Options{Batch: 4, Queue: 6}, map[string]edit.Judge{"a": f}, "a")
	estimator := s.engine.scorers.by["a"].estimators[scoreKind]
	estimator.Observe(1, time.Second)
	source := png(t, 9, 8, 6)
	var all sync.WaitGroup
	codes := make([]int, 9)
	ask := func(i, edits int) {
		var list []any
		for range edits {
			list = append(list, png(t, byte(10*i), 4, 4))
		}
		code, header, raw := post(t, h.URL+"/v1/score", object{"source": source, "instruction": "x", "edits": list})
		codes[i] = code
		if code == 429 && (header.Get("Retry-After") == "" || !bytes.Contains(raw, []byte("retry_after_ms"))) {
			t.Errorf("429 without Retry-After: %v %s", header, raw)
		}
		if got := decodeScores(t, raw); code == 200 &&
			(len(got.Results) != edits || *got.Results[0].Score01 != float64(10*i)/255) {
			t.Errorf("request %d got %s", i, raw)
		}
	}
	ready := func(n int) func() bool {
		return func() bool {
			s.engine.queue.mu.Lock()
			defer s.engine.queue.mu.Unlock()
			items := 0
			for _, j := range s.engine.queue.ready {
				items += len(j.results)
			}
			return items == n
		}
	}
	all.Go(func() { ask(0, 1) })
	eventually(t, "the first run", s.engine.queue.running)
	for i, n := range []int{2, 1, 2} { // the first two share a run of three; the last does not fit
		all.Go(func() { ask(1+i, n) })
		total := []int{2, 3, 5}[i]
		eventually(t, "a request to wait", ready(total))
	}
	ask(4, 2) // seven would be queued
	if codes[4] != 429 {
		t.Errorf("a request beyond the queue's length got %d, want 429", codes[4])
	}
	close(f.gate)
	all.Wait()
	if fmt.Sprint(f.runs) != "[1 3 2]" {
		t.Errorf("runs of %v edits, want [1 3 2]", f.runs)
	}

	// a request that would wait too long is refused
	s.engine.queue.mu.Lock()
	s.engine.queue.maxWait = 2500 * time.Millisecond
	s.engine.queue.mu.Unlock()
	for range 100 {
		estimator.Observe(1, time.Second)
	}
	f.gate = make(chan struct{})
	all.Go(func() { ask(5, 1) })
	eventually(t, "a run", s.engine.queue.running)
	ask(6, 2)
	all.Go(func() { ask(7, 1) })
	eventually(t, "a request to wait", ready(1))
	close(f.gate)
	all.Wait()
	if codes[5] != 200 || codes[6] != 429 || codes[7] != 200 {
		t.Errorf("statuses %v", codes)
	}
}

func TestOpenAPINamesAllRoutes(t *testing.T) {
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(openapi), &doc); err != nil {
		t.Fatal(err)
	}
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	for path, methods := range doc.Paths {
		for method := range methods {
			r, _ := http.NewRequest(strings.ToUpper(method), h.URL+path, strings.NewReader("{}"))
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode == 404 || answer.StatusCode == 405 {
				t.Errorf("%s %s: %d", method, path, answer.StatusCode)
			}
		}
	}
	described := map[string]bool{}
	for path, methods := range doc.Paths {
		for method := range methods {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	served := []string{"GET /metrics", "GET /openapi.json", "GET /"}
	for _, r := range (&Server{}).routes() {
		served = append(served, r.method+" "+r.path)
	}
	for _, name := range served {
		if !described[name] {
			t.Errorf("%s is served, but not described in openapi.json", name)
		}
	}
	if len(described) != len(served) {
		t.Errorf("openapi.json describes %d routes, want %d: %v", len(described), len(served), described)
	}
}

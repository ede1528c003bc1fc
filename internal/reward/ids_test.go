package reward

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/edit"
	"assay/internal/graceful"
)

// scored returns the number of edits that a fake has judged.
func (f *fake) scored() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runs {
		n += r
	}
	return n
}

// TestIDs: a request with an id is judged once, however often it is sent.
func TestIDs(t *testing.T) {
	f := &fake{}
	_, h := start(t, Options{}, map[string]edit.Judge{"a": f}, "a")
	source, dark, bright := png(t, 9, 8, 6), png(t, 51, 5, 5), png(t, 255, 5, 5)
	request := object{"source": source, "instruction": "x", "edits": []any{dark, bright}}
	form := []any{"source", source, "instruction", []byte("x"), "edits", dark, "edits", bright, "id", []byte("one")}
	var first string
	for _, c := range []struct {
		name string
		do   func() (int, string, string) // status, X-Request-Id, body
		code int
		id   string
		want int // edits judged so far
	}{
		{"the first", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "one"}))
			first = body
			return code, header.Get("X-Request-Id"), body
		}, 200, "one", 2},
		{"again", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "one"}))
			return code, header.Get("X-Request-Id"), body
		}, 200, "one", 2},
		{"as a form", func() (int, string, string) {
			code, body := postForm(t, h.URL+"/v1/score", form...)
			return code, "one", body
		}, 200, "one", 2},
		{"by Idempotency-Key", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request, "Idempotency-Key", "one")
			return code, header.Get("X-Request-Id"), body
		}, 200, "one", 2},
		{"by X-Request-Id", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request, "X-Request-Id", "one")
			return code, header.Get("X-Request-Id"), body
		}, 200, "one", 2},
		{"with a proxy's X-Request-Id", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "one"}), "X-Request-Id", "proxy")
			return code, header.Get("X-Request-Id"), body
		}, 200, "one", 2},
		{"another body", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "one", "instruction": "y"}))
			return code, header.Get("X-Request-Id"), body
		}, 409, "one", 2},
		{"two ids", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "one"}), "Idempotency-Key", "two")
			return code, header.Get("X-Request-Id"), body
		}, 400, "", 2},
		{"no id that a header can have", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "a\nb"}))
			return code, header.Get("X-Request-Id"), body
		}, 422, "", 2},
		{"another id", func() (int, string, string) {
			code, header, _, body := ask(t, h.URL, request.with(object{"id": "two"}))
			return code, header.Get("X-Request-Id"), strings.ReplaceAll(body, "two", "one")
		}, 200, "two", 4},
		{"without an id", func() (int, string, string) {
			code, header, _, _ := ask(t, h.URL, request)
			return code, header.Get("X-Request-Id"), first
		}, 200, "", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, id, body := c.do()
			if code != c.code || id != c.id || code == 200 && body != first {
				t.Errorf("got %d, id %q, %s, want %d, %q, %s", code, id, body, c.code, c.id, first)
			}
			if n := f.scored(); n != c.want {
				t.Errorf("got %d edits judged, want %d", n, c.want)
			}
		})
	}

	gradient := object{"source": source, "instruction": "x", "edit": dark, "id": "one"} // another path
	_, _, raw := post(t, h.URL+"/v1/gradient", gradient)
	_, header, again := post(t, h.URL+"/v1/gradient", gradient)
	if !bytes.Equal(raw, again) || header.Get("X-Score") != "2" || f.scored() != 7 {
		t.Errorf("gradient: got %d edits judged and %v, want 7", f.scored(), header)
	}
	if _, metrics := get(t, h.URL+"/metrics"); !strings.Contains(metrics, "assay_retries_total 6") {
		t.Errorf("got other retries in %s", metrics)
	}
}

// TestLeavingWithAnID: the work of a request continues when its sender leaves, and a retry waits for it. Without an
// id its result could not be requested again.
func TestLeavingWithAnID(t *testing.T) {
	f := &fake{gate: make(chan struct{})}
	s, h := start(t, Options{}, map[string]edit.Judge{"a": f}, "a")
	picture := png(t, 51, 5, 5)
	raw, _ := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}, "id": "one"})
	ctx, leave := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/score", bytes.NewReader(raw))
	gone := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(r)
		gone <- err
	}()
	for s.engine.queue.idle() {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	answers := make(chan string)
	go func() {
		_, _, body := post(t, h.URL+"/v1/score", raw)
		answers <- string(body)
	}()
	for s.engine.metrics.counter(t, "assay_retries_total") == 0 {
		time.Sleep(time.Millisecond)
	}
	s.front.bodies.memory.mu.Lock()
	if bytes := s.front.bodies.memory.held(""); bytes > int64(len(raw)) {
		t.Errorf("got %d bytes held by the work and its retry, want only those of the work, at most %d", bytes, len(raw))
	}
	s.front.bodies.memory.mu.Unlock()
	close(f.gate)
	if body := <-answers; !strings.Contains(body, `"score":2,`) || f.scored() != 1 {
		t.Errorf("got %s after %d edits judged, want 1", body, f.scored())
	}
}

// counter returns the value of a counter without labels.
func (m *metrics) counter(t *testing.T, name string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// idle reports whether no worker has a run.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.workers {
		if !q.workers[k].idle() {
			return false
		}
	}
	return true
}

// TestTemporaryFailuresAreNotKept: a temporary failure is retried, and a permanent one is not.
func TestTemporaryFailuresAreNotKept(t *testing.T) {
	f := &fake{failing: 1}
	_, h := start(t, Options{}, map[string]edit.Judge{"a": f}, "a")
	dark, bright := png(t, 51, 5, 5), png(t, 255, 5, 5)
	request := object{"source": dark, "instruction": "x", "edits": []any{bright}, "id": "one"}
	for _, want := range []int{500, 200} {
		code, _, _, body := ask(t, h.URL, request)
		if code != want {
			t.Errorf("got %d %s, want %d", code, body, want)
		}
		f.mu.Lock()
		f.failing = 0
		f.mu.Unlock()
	}
	n := f.scored()
	for range 2 {
		code, _, _, body := ask(t, h.URL, request.with(object{"id": "two", "edits": []any{dark[:40]}}))
		if code != 422 || f.scored() != n {
			t.Errorf("got %d %s, %d edits judged", code, body, f.scored()-n)
		}
	}
}

// noting is a slow fake that records every edit that it judges in a file.
type noting struct {
	fake
	log *os.File
}

func (n *noting) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores, errs, err := n.fake.Score(ctx, inputs)
	for _, s := range scores {
		fmt.Fprintln(n.log, s.Score01)
	}
	time.Sleep(5 * time.Millisecond)
	return scores, errs, err
}

const killed = "ASSAY_TEST_KILLED"

// serveUntilKilled serves a noting judge in this process, and prints the address.
func serveUntilKilled(t *testing.T, path string) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(Options{Batch: 2}, []string{"a"}, []edit.Judge{&noting{log: log}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := graceful.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String())
	s.Serve(t.Context(), l, time.Minute)
}

// TestKill: a server that is killed while it handles requests with ids, and restarted, loses none of them, and no
// process judges an edit twice, although half of the clients disconnect and retry.
func TestKill(t *testing.T) {
	if path := os.Getenv(killed); path != "" {
		serveUntilKilled(t, path)
		return
	}
	dir := t.TempDir()
	var url atomic.Value
	begin := func(i int) *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^TestKill$")
		c.Env = append(os.Environ(), killed+"="+filepath.Join(dir, fmt.Sprint("log", i)))
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		url.Store(strings.TrimSpace(line))
		return c
	}
	server := begin(0)
	const requests = 40
	var answered atomic.Int64
	var callers sync.WaitGroup
	for i := range requests {
		callers.Go(func() {
			var reds []byte
			var edits []any
			for k := range 4 {
				reds = append(reds, byte(4*i+k))
				edits = append(edits, png(t, reds[k], 5, 5))
			}
			raw, _ := json.Marshal(object{"id": fmt.Sprint("request ", i), "source": edits[0], "instruction": "x",
				"edits": edits})
			for try := 0; ; try++ {
				patience := time.Minute
				if i%2 == 0 && try%2 == 0 {
					patience = 10 * time.Millisecond
				}
				if got := trial(url.Load().(string), raw, patience); got != nil {
					for k, r := range got.Results {
						if !near(value(r.Score), 10*float64(reds[k])/255) {
							t.Errorf("request %d, edit %d: got %v, want %v", i, k, value(r.Score), 10*float64(reds[k])/255)
						}
					}
					answered.Add(1)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	const kills = 3
	for i := range kills {
		for before := answered.Load(); answered.Load() < before+3; {
			time.Sleep(time.Millisecond)
		}
		server.Process.Kill()
		server.Wait()
		server = begin(i + 1)
	}
	callers.Wait()
	server.Process.Kill()
	server.Wait()
	for i := range kills + 1 {
		raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("log", i)))
		if err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for line := range strings.Lines(string(raw)) {
			if times[line]++; times[line] == 2 {
				t.Errorf("process %d judged the edit of score01 %s twice", i, line)
			}
		}
	}
}

// trial sends a request once; nil if there is no answer.
func trial(url string, raw []byte, patience time.Duration) *judged {
	client := http.Client{Timeout: patience}
	a, err := client.Post(url+"/v1/score", "application/json", bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	var got judged
	if err != nil || a.StatusCode != 200 || json.Unmarshal(body, &got) != nil {
		return nil
	}
	return &got
}

package textjudge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"assay/chat"
	"assay/internal/long"
	"assay/internal/shards"
	"assay/internal/store"
	"assay/internal/table"
)

// makeTable writes a table of n rows with different instructions and the same pictures.
func makeTable(t *testing.T, dir string, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id": "%d", "source": "a.png", "edit": "b.png", "edit2": "c.png", "instruction": "row %d"}`, i, i)
		b.WriteString("\n")
	}
	write(t, dir, "in.jsonl", b.String())
	for i, name := range []string{"a.png", "b.png", "c.png"} {
		if err := plain(byte(i)).WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "in.jsonl")
}

// records reads a table that was written.
func records(t *testing.T, path string) (list []map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// TestTable: rows keep their order and columns; rows that cannot be judged have an error and the texts, and are
// counted.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	in := makeTable(t, dir, 6)
	broken := strings.Replace(string(must(os.ReadFile(in))), `"b.png", "edit2": "c.png", "instruction": "row 4"`,
		`"none.png", "instruction": "row 4"`, 1)
	if err := os.WriteFile(in, []byte(broken), 0o666); err != nil {
		t.Fatal(err)
	}
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		text := m[0].Content[len(m[0].Content)-1].Text
		a := chat.Answer{Text: `{"score": [4, 9]}`, Usage: chat.Usage{Prompt: 10, Completion: 5}}
		switch {
		case strings.Contains(text, "row 1"):
			a.Text = "no idea"
		case strings.Contains(text, "row 2"):
			return a, fmt.Errorf("%w: too long", chat.ErrRequest)
		case strings.Contains(text, "row 3"):
			a.Finish = chat.FinishLength
		}
		return a, nil
	})
	for _, format := range []string{"out.jsonl", "out.parquet"} {
		out := filepath.Join(dir, format)
		r, err := open(t, "viescore", m, Settings{}).Table(t.Context(), table.Options{In: in, Out: out, Workers: 3})
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows != 6 || r.Judged != 2 || r.Failed != 4 || r.Unreadable != 2 || r.UnreadableShare != 0.5 ||
			r.Answers != 10 || r.Again != 4 || r.Prompt != 100 || r.Rule != "viescore" {
			t.Errorf("%+v", r)
		}
	}
	wrong := []string{"", "no JSON object", "too long", "cut off", "none.png", ""}
	for i, rec := range records(t, filepath.Join(dir, "out.jsonl")) {
		why, _ := rec["error"].(string)
		if rec["id"] != fmt.Sprint(i) || (why == "") != (wrong[i] == "") || !strings.Contains(why, wrong[i]) {
			t.Errorf("row %d: %v", i, rec)
		}
		if wrong[i] == "" && rec["score"] != 4.0 || wrong[i] != "" && rec["score"] != nil {
			t.Errorf("row %d: score %v", i, rec["score"])
		}
		if i == 1 && !strings.Contains(fmt.Sprint(rec["answers"]), "no idea") {
			t.Errorf("the text that could not be read is lost: %v", rec)
		}
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// TestPairTable: disagreements of the two orders are counted by the side that was preferred. A table in another folder
// names the same pictures.
func TestPairTable(t *testing.T) {
	dir := t.TempDir()
	in := makeTable(t, dir, 4)
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		text := m[0].Content[len(m[0].Content)-1].Text
		says := map[bool]string{true: "Image 1 is better", false: "Image 2 is better"}
		original := m[0].Content[1].Image.Pix[0] == 1 // edit is shown as the first
		switch {
		case strings.Contains(text, "row 0"):
			return chat.Answer{Text: says[original]}, nil
		case strings.Contains(text, "row 1"):
			return chat.Answer{Text: says[!original]}, nil
		}
		return chat.Answer{Text: says[strings.Contains(text, "row 2")]}, nil
	})
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r, err := open(t, "unifiedreward-edit/pair", m, Settings{}).Table(t.Context(), table.Options{In: in, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Pairs{2, 2, 0.5, 1, 1}); *r.Pairs != want {
		t.Errorf("%+v, want %+v", *r.Pairs, want)
	}
	want := []string{"edit true", "edit2 true", "neither false", "neither false"}
	for i, rec := range records(t, out) {
		if rec["score01"] != nil || rec["preference"] == nil {
			t.Errorf("a preference is no score: %v", rec)
		}
		for _, column := range []string{"source", "edit", "edit2"} {
			if _, err := os.Stat(filepath.Join(filepath.Dir(out), rec[column].(string))); err != nil {
				t.Errorf("row %d: %v", i, err)
			}
		}
		if got := fmt.Sprint(rec["preferred"], " ", rec["agree"]); got != want[i] {
			t.Errorf("row %d: %s, want %s", i, got, want[i])
		}
	}
}

// counting is a server that speaks the protocol and counts how often each request came.
type counting struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
	n     atomic.Int64
}

// newCounting serves; before is called with the number of each request and may answer itself (true).
func newCounting(t *testing.T, before func(w http.ResponseWriter, n int64) bool) *counting {
	c := &counting{asked: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		raw, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if before != nil && before(w, c.n.Add(1)-1) {
			return
		}
		key := store.KeyOf(string(raw)).String()
		c.mu.Lock()
		c.asked[key]++
		c.mu.Unlock()
		io.WriteString(w, `{"model": "m", "choices": [{"message": {"role": "assistant", "content": "{\"score\": [4, 9]}"},
			"finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}`)
	}))
	t.Cleanup(c.Close)
	return c
}

// asks opens VIEScore on the server, with answers cached in a folder.
func (c *counting) asks(t *testing.T, folder string, change func(*chat.Server)) (*Judge, *chat.Kept) {
	t.Helper()
	s := chat.DefaultServer()
	s.URL, s.Model, s.Concurrency, s.Timeout, s.Retries = c.URL, "m", 16, 20, 1
	if change != nil {
		change(&s)
	}
	remote, err := chat.OpenRemote(s)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := store.Open(folder, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := chat.Keep(remote, answers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remote.Close(); answers.Close() })
	return open(t, "viescore", kept, Settings{}), kept
}

// twice counts the questions that were answered more than once.
func (c *counting) twice() (n int) {
	for _, times := range c.asked {
		if times > 1 {
			n++
		}
	}
	return n
}

// TestInterrupted: a run is stopped midway, twice, and resumes; no question is asked twice, and the table equals the
// table of an uninterrupted run. ASSAY_JUDGE_ROWS sets the number of rows: 2,000 by default; 10,000 take half a
// minute.
func TestInterrupted(t *testing.T) {
	long.Test(t)
	rows := 2000
	if n, err := strconv.Atoi(os.Getenv("ASSAY_JUDGE_ROWS")); err == nil {
		rows = n
	}
	dir := t.TempDir()
	in, out := makeTable(t, dir, rows), filepath.Join(dir, "out.jsonl")
	var cancel atomic.Pointer[context.CancelFunc]
	c := newCounting(t, func(_ http.ResponseWriter, n int64) bool {
		if n == int64(rows/8) || n == int64(rows/2) {
			(*cancel.Load())()
		}
		return false
	})
	for try := range 3 {
		ctx, stop := context.WithCancel(t.Context())
		cancel.Store(&stop)
		j, _ := c.asks(t, filepath.Join(dir, "answers"), nil)
		r, err := j.Table(ctx, table.Options{In: in, Out: out, Workers: 16})
		var stopped *table.InterruptedError
		if try < 2 {
			if !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) || stopped.Done == 0 || stopped.Done == rows {
				t.Fatalf("try %d: %v, %v", try, r, err)
			}
			continue
		}
		if err != nil || r.Judged != rows {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if got := len(c.asked); got != rows+1 || c.twice() != 0 { // the edit is the same in all rows
		t.Errorf("%d questions, %d of them twice", got, c.twice())
	}
	if got := len(records(t, out)); got != rows {
		t.Errorf("%d rows", got)
	}
	if _, err := os.Stat(out + ".progress"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the progress file stays")
	}
}

// TestAgain: a judged table is judged again without asking anything.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	c := newCounting(t, nil)
	o := table.Options{In: makeTable(t, dir, 20), Out: filepath.Join(dir, "out.jsonl"), Workers: 4}
	for try := range 2 {
		j, kept := c.asks(t, filepath.Join(dir, "answers"), nil)
		if r, err := j.Table(t.Context(), o); err != nil || r.Judged != 20 || r.Answers != 40 {
			t.Fatalf("%+v, %v", r, err)
		}
		if want := int64(21 * (1 - try)); kept.Asked().Answers != want {
			t.Errorf("try %d: %d asked, want %d", try, kept.Asked().Answers, want)
		}
	}
}

// TestCapStops: a cap ends the run with its state saved; without the cap it resumes there.
func TestCapStops(t *testing.T) {
	dir := t.TempDir()
	c := newCounting(t, nil)
	o := table.Options{In: makeTable(t, dir, 50), Out: filepath.Join(dir, "out.jsonl"), Workers: 1}
	j, _ := c.asks(t, filepath.Join(dir, "answers"), func(s *chat.Server) { s.TokenCap = 150 })
	_, err := j.Table(t.Context(), o)
	var stopped *table.InterruptedError
	if !errors.As(err, &stopped) || !errors.Is(err, chat.ErrCap) || stopped.Done != 9 {
		t.Fatal(err)
	}
	j, _ = c.asks(t, filepath.Join(dir, "answers"), nil)
	if r, err := j.Table(t.Context(), o); err != nil || r.Judged != 50 || c.twice() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestServerFails: a request at which the server failed is an error of its row, and is repeated the next time.
func TestServerFails(t *testing.T) {
	dir := t.TempDir()
	fails := atomic.Bool{}
	fails.Store(true)
	c := newCounting(t, func(w http.ResponseWriter, n int64) bool {
		if fails.Load() && n%7 == 3 {
			w.WriteHeader(500)
			return true
		}
		return false
	})
	o := table.Options{In: makeTable(t, dir, 30), Out: filepath.Join(dir, "out.jsonl"), Workers: 1}
	j, _ := c.asks(t, filepath.Join(dir, "answers"), func(s *chat.Server) { s.Retries = 0 })
	r, err := j.Table(t.Context(), o)
	if err != nil || r.Failed == 0 || r.Unreadable != 0 || r.Judged+r.Failed != 30 {
		t.Fatalf("%+v, %v", r, err)
	}
	fails.Store(false)
	if r, err = j.Table(t.Context(), o); err != nil || r.Judged != 30 || c.twice() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestServerFailsShard: a shard with rows at which the server failed is not done, the others are, and the next call
// asks about only those rows again. A shard with rows that the server refused for good is done.
func TestServerFailsShard(t *testing.T) {
	dir := t.TempDir()
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	c := newCounting(t, func(w http.ResponseWriter, n int64) bool {
		if n == 3 || status.Load() == http.StatusUnprocessableEntity {
			w.WriteHeader(int(status.Load()))
			return true
		}
		return false
	})
	o := table.Options{In: makeTable(t, dir, 12), Out: filepath.Join(dir, "out.jsonl"), Workers: 1,
		Shard: shards.Ref{Index: 0, Count: 3}}
	j, _ := c.asks(t, filepath.Join(dir, "answers"), func(s *chat.Server) { s.Retries = 0 })
	r, err := j.TableShard(t.Context(), o)
	var left *shards.TemporaryError
	if !errors.As(err, &left) || left.Failed != 1 || len(r.Shards) != 2 || !strings.Contains(err.Error(), "500: ") {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = j.TableShard(t.Context(), o); err != nil || r.Before != 2 || r.Failed != 0 || c.twice() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	status.Store(http.StatusUnprocessableEntity)
	o.Out = filepath.Join(dir, "refused.jsonl")
	j, _ = c.asks(t, filepath.Join(dir, "others"), func(s *chat.Server) { s.Retries = 0 })
	if r, err = j.TableShard(t.Context(), o); err != nil || r.Failed != 12 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestGoneServer: a server that is gone ends the run, with the finished rows saved.
func TestGoneServer(t *testing.T) {
	dir := t.TempDir()
	c := newCounting(t, func(w http.ResponseWriter, n int64) bool {
		if n >= 10 {
			w.WriteHeader(502)
		}
		return n >= 10
	})
	o := table.Options{In: makeTable(t, dir, 200), Out: filepath.Join(dir, "out.jsonl"), Workers: 2}
	j, _ := c.asks(t, filepath.Join(dir, "answers"), func(s *chat.Server) { s.Retries, s.Concurrency = 0, 2 })
	_, err := j.Table(t.Context(), o)
	var stopped *table.InterruptedError
	if !errors.As(err, &stopped) || errors.Is(err, chat.ErrCap) || stopped.Done < 5 || stopped.Done > 30 {
		t.Fatal(err)
	}
}

// TestFullDisk limits the size of files midway through a run, so that writes fail as on a full disk. The run ends.
// With space again it resumes, and asks nothing twice except what could not be written anywhere.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	c := newCounting(t, nil)
	makeTable(t, dir, 60)
	child := exec.Command(os.Args[0], "-test.run=^TestFullDiskChild$")
	child.Env = append(os.Environ(), "ASSAY_JUDGE_URL="+c.URL, "ASSAY_JUDGE_DIR="+dir)
	said, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "file too large") {
		t.Fatalf("%v: %s", err, said)
	}
	asked := len(c.asked)
	j, _ := c.asks(t, filepath.Join(dir, "answers"), nil)
	o := table.Options{In: filepath.Join(dir, "in.jsonl"), Out: filepath.Join(dir, "out.jsonl"), Workers: 1}
	if r, err := j.Table(t.Context(), o); err != nil || r.Judged != 60 || asked == 0 || asked > 30 || c.twice() > 1 {
		t.Errorf("%+v, %v; %d asked before, %d twice", r, err, asked, c.twice())
	}
}

// TestFullDiskChild is the process of TestFullDisk with the limited file size.
func TestFullDiskChild(t *testing.T) {
	dir := os.Getenv("ASSAY_JUDGE_DIR")
	if dir == "" {
		t.Skip("the process of TestFullDisk")
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		t.Fatal(err)
	}
	c := &counting{Server: &httptest.Server{URL: os.Getenv("ASSAY_JUDGE_URL")}}
	j, _ := c.asks(t, filepath.Join(dir, "answers"), nil)
	o := table.Options{In: filepath.Join(dir, "in.jsonl"), Out: filepath.Join(dir, "out.jsonl"), Workers: 1}
	_, err := j.Table(t.Context(), o)
	t.Fatal(err)
}

// TestChangedRow: a row that changed since an interrupt is judged again.
func TestChangedRow(t *testing.T) {
	dir := t.TempDir()
	in, out := makeTable(t, dir, 4), filepath.Join(dir, "out.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		if n++; n == 4 {
			cancel()
		}
		return chat.Answer{Text: `{"score": [4, 9]}`}, nil
	})
	j := open(t, "viescore", m, Settings{})
	if _, err := j.Table(ctx, table.Options{In: in, Out: out}); !errors.Is(err, context.Canceled) || n != 4 {
		t.Fatal(n, err)
	}
	changed := strings.Replace(string(must(os.ReadFile(in))), "row 0", "new 0", 1)
	if err := os.WriteFile(in, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	if r, err := j.Table(t.Context(), table.Options{In: in, Out: out}); err != nil || r.Judged != 4 || n != 4+6 {
		t.Errorf("%+v, %v after %d questions", r, err, n)
	}
}

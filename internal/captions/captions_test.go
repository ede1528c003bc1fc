package captions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/chat"
	"assay/data"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/store"
)

// scribe answers with what it was asked and records it.
type scribe struct {
	mu    sync.Mutex
	asked []string
	fail  func(question string) (*chat.Answer, error)
}

func (s *scribe) Chat(_ context.Context, messages []chat.Message, _ chat.Options) (*chat.Answer, error) {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Role[:1] + ":")
		for _, p := range m.Content {
			if p.Image != nil {
				fmt.Fprintf(&b, " <%d>", p.Image.Width)
			} else {
				b.WriteString(" " + p.Text)
			}
		}
		b.WriteString("\n")
	}
	s.mu.Lock()
	s.asked = append(s.asked, b.String())
	s.mu.Unlock()
	if s.fail != nil {
		if a, err := s.fail(b.String()); a != nil || err != nil {
			return a, err
		}
	}
	text := fmt.Sprintf(" answer %d\n of %d ", len(messages), len(b.String()))
	return &chat.Answer{Text: text, Finish: chat.FinishStop}, nil
}
func (*scribe) Fingerprint() string { return "scribe" }
func (*scribe) Close() error        { return nil }

// edits writes pictures of 8, 16... pixels and a table, and returns the run over it.
func edits(t *testing.T, m chat.Model, rows ...string) *Run {
	t.Helper()
	dir := t.TempDir()
	for i := 1; i <= 4; i++ {
		p := &data.Picture{Width: 8 * i, Height: 8, Pix: make([]byte, 3*8*8*i)}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.png", i)))
		if err == nil {
			err = errors.Join(p.EncodePNG(f), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(strings.Join(rows, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := readPrompts("prompts.yaml", ownPrompts)
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Config: &Config{In: filepath.Join(dir, "in.jsonl"), Out: filepath.Join(dir, "out.jsonl"), Given: "keep"},
		Writer: Writer{Model: m, Prompts: p}, Name: "scribe", Workers: 3}
}

// read returns the captions of a table: source, target, who, error.
func read(t *testing.T, path string) (out [][4]string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var v struct {
			Source string `json:"source_caption"`
			Target string `json:"target_caption"`
			By     string `json:"captioned_by"`
			Error  string `json:"caption_error"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, [4]string{v.Source, v.Target, v.By, v.Error})
	}
	return out
}

func TestCaptions(t *testing.T) {
	m := &scribe{fail: func(q string) (*chat.Answer, error) {
		if strings.Contains(q, "go on for ever") {
			return &chat.Answer{Text: "and on", Finish: chat.FinishLength}, nil
		}
		if strings.Contains(q, "say nothing") {
			return &chat.Answer{Text: " \n", Finish: chat.FinishStop}, nil
		}
		return nil, nil
	}}
	r := edits(t, m,
		`{"source": "1.png", "target": "2.png", "edit": "3.png", "instruction": "add a hat"}`,
		`{"source": "1.png", "instruction": "add a hat"}`,
		`{"source": "1.png", "target": "2.png", "instruction": "add", "source_caption": "a cat", "target_caption": "a hat"}`,
		`{"source": "1.png", "target": "2.png", "instruction": "add", "source_caption": "a [INSTRUCTION]"}`,
		`{"source": "none.png", "instruction": "add"}`,
		`{"source": "1.png", "instruction": "go on for ever"}`,
		`{"source": "1.png", "target": "2.png", "instruction": "say nothing"}`)
	result, err := r.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &Result{Out: r.Out, Rows: 7, Written: 3, Given: 1, Targets: 4, Failed: 3} // 4: with a target
	if d := cmp.Diff(want, result); d != "" {
		t.Error(d)
	}
	got := read(t, r.Out)
	for i, v := range got[4:] {
		if want := []string{"none.png", "was cut off", "is empty"}[i]; v[0]+v[1]+v[2] != "" || !strings.Contains(v[3], want) {
			t.Errorf("row %d: %q, want an error: %s", i+5, v, want)
		}
	}
	if v := got[2]; v != [4]string{"a cat", "a hat", "", ""} {
		t.Errorf("given captions became %q", v)
	}
	if v := got[3]; v[0] != "a [INSTRUCTION]" || !strings.HasPrefix(v[1], "answer 3 of") || v[2] != "scribe" {
		t.Errorf("a given source caption became %q", v)
	}
	if v := got[1]; v != got[0] || v[1] == "" {
		t.Errorf("without a target: %q, want the captions of the same edit with one: %q", v, got[0])
	}
	// a question holds the texts as they are, whatever marks they hold, and shows the pictures it names
	asked := strings.Join(m.asked, "\n")
	for _, part := range []string{"u: <8> What", `described it as "a [INSTRUCTION]"`, `by this edit: "add"`,
		"a:  answer 1\n of"} {
		if !strings.Contains(asked, part) {
			t.Errorf("nothing was asked with %q", part)
		}
	}
	if strings.Contains(asked, "<16>") {
		t.Error("the target is shown: ADIEE's dialogues show the source alone")
	}
}

// TestWithoutTarget: if the dialogues show the target, a row without a target gets only the source's caption and is
// counted as such.
func TestWithoutTarget(t *testing.T) {
	rows := []string{
		`{"source": "1.png", "target": "2.png", "instruction": "add a hat"}`,
		`{"source": "1.png", "instruction": "add a hat"}`,
		`{"source": "1.png", "instruction": "add a hat", "source_caption": "a cat"}`,
		`{"source": "1.png", "instruction": "add a hat", "source_caption": "a cat", "target_caption": "a hat"}`}
	m := &scribe{}
	r := edits(t, m, rows...)
	r.Writer.Prompts = &Prompts{Source: Dialogue{{[]string{"source"}, "what?"}},
		Target: Dialogue{{[]string{"source", "target"}, "and now?"}}}
	result, err := r.Write(t.Context())
	want := &Result{Out: r.Out, Rows: 4, Written: 1, Given: 1, SourceOnly: 2, Targets: 1}
	if d := cmp.Diff(want, result); d != "" || err != nil {
		t.Error(d, err)
	}
	if got := read(t, r.Out); got[1][0] == "" || got[1][1] != "" || got[2] != [4]string{"a cat", "", "", ""} {
		t.Errorf("%q", got)
	}
	r = edits(t, &scribe{}, rows...) // the shipped prompts need no target
	result, err = r.Write(t.Context())
	want = &Result{Out: r.Out, Rows: 4, Written: 3, Given: 1, Targets: 1}
	if d := cmp.Diff(want, result); d != "" || err != nil {
		t.Error(d, err)
	}
	if got := read(t, r.Out); got[2][0] != "a cat" || got[2][1] == "" {
		t.Errorf("%q", got)
	}
}

// TestGivenCaptionsOfFailedRows: a row that fails keeps the captions that it came with, and has none of the model.
func TestGivenCaptionsOfFailedRows(t *testing.T) {
	m := &scribe{fail: func(q string) (*chat.Answer, error) {
		if strings.Contains(q, "described it as") {
			return &chat.Answer{Text: "and on", Finish: chat.FinishLength}, nil
		}
		return nil, nil
	}}
	r := edits(t, m,
		`{"source": "none.png", "target": "2.png", "instruction": "add", "source_caption": "a cat"}`,
		`{"source": "none.png", "target": "2.png", "instruction": "add", "target_caption": "a hat"}`,
		`{"source": "1.png", "target": "2.png", "instruction": "add", "source_caption": "a cat"}`,
		`{"source": "1.png", "target": "2.png", "instruction": "add"}`,
		`{"source": "1.png", "target": "2.png", "source_caption": "a cat"}`,
		`{"sources": ["1.png", "2.png"], "instruction": "add", "source_caption": "a cat"}`)
	result, err := r.Write(t.Context())
	want := &Result{Out: r.Out, Rows: 6, Targets: 4, Failed: 6}
	if d := cmp.Diff(want, result); d != "" || err != nil {
		t.Error(d, err)
	}
	kept := [][2]string{{"a cat", ""}, {"", "a hat"}, {"a cat", ""}, {}, {"a cat", ""}, {"a cat", ""}}
	for i, v := range read(t, r.Out) {
		if [2]string(v[:2]) != kept[i] || v[2] != "" || v[3] == "" {
			t.Errorf("row %d: got %q, want the captions %q and an error", i+1, v, kept[i])
		}
	}
	r.Given = "replace"
	if _, err := r.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, v := range read(t, r.Out) {
		if v[0]+v[1]+v[2] != "" || v[3] == "" {
			t.Errorf("row %d: got %q, want no captions and an error: they are replaced", i+1, v)
		}
	}
}

// TestRefused: a model that stops answering ends the run, without a table.
func TestRefused(t *testing.T) {
	n := 0
	m := &scribe{fail: func(string) (*chat.Answer, error) {
		if n++; n > 4 { // two dialogues of two questions
			return nil, fmt.Errorf("%w: the folder is full", chat.ErrUnavailable)
		}
		return nil, nil
	}}
	r := edits(t, m, slices.Repeat([]string{`{"source": "1.png", "instruction": "a"}`}, 50)...)
	r.Workers = 1
	_, err := r.Write(t.Context())
	const said = "the answers so far are saved: no more answers: the folder is full: 1 of 50 rows are done"
	if !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), said) ||
		len(m.asked) != 5 {
		t.Errorf("Write = %v after %d questions, want 1 of 50 rows after 5", err, len(m.asked))
	}
	if _, err := os.Stat(r.Out); err == nil {
		t.Error("there is a table")
	}
}

// weather is a fault-injecting server: it answers every question in the end and counts its answers.
type weather struct {
	mu    sync.Mutex
	tries map[string]int // by question
	paid  map[string]int
	calm  bool
	told  func(paid int)
}

func (w *weather) ServeHTTP(out http.ResponseWriter, q *http.Request) {
	raw, _ := io.ReadAll(q.Body)
	w.mu.Lock()
	try, kind := w.tries[string(raw)], len(w.tries)%6
	w.tries[string(raw)]++
	w.mu.Unlock()
	sum := 0
	for _, b := range raw {
		sum = (sum*31 + int(b)) % 9973
	}
	text := fmt.Sprintf(`{"choices": [{"message": {"role": "assistant", "content": "caption %d"},
		"finish_reason": "stop"}],
		"model": "m", "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}}`, sum)
	out.Header().Set("Content-Type", "application/json")
	if !w.calm && try == 0 {
		switch kind {
		case 0:
			out.Header().Set("Retry-After", "0")
			http.Error(out, "too many", http.StatusTooManyRequests)
			return
		case 1:
			http.Error(out, "broken", http.StatusInternalServerError)
			return
		case 2:
			out.Header().Set("Content-Length", fmt.Sprint(len(text)))
			io.WriteString(out, text[:len(text)/2])
			return
		case 3:
			io.WriteString(out, "{]")
			return
		case 4:
			time.Sleep(300 * time.Millisecond) // slow, but it answers
		}
	}
	w.mu.Lock()
	w.paid[string(raw)]++
	n := len(w.paid)
	w.mu.Unlock()
	io.WriteString(out, text)
	if w.told != nil {
		w.told(n)
	}
}

// TestBadWeather: despite 429, 500, truncated bodies, invalid JSON, a slow server and Ctrl-C midway, all captions are
// the same as without faults. Questions answered before the run was stopped are not asked again.
func TestBadWeather(t *testing.T) {
	long.Test(t)
	var rows []string
	for i := range 40 {
		row := `{"source": "%d.png", "target": "%d.png", "instruction": "edit %d"}`
		rows = append(rows, fmt.Sprintf(row, 1+i%4, 1+(i+1)%4, i))
	}
	run := func(t *testing.T, ctx context.Context, w *weather, folder string) (*Run, error) {
		s := httptest.NewServer(w)
		defer s.Close()
		settings := chat.DefaultServer()
		settings.URL, settings.Model = "http://"+s.Listener.Addr().String()+"/v1", "m"
		settings.Timeout, settings.MaxWait = 20, 30
		remote, err := chat.OpenRemote(settings)
		if err != nil {
			t.Fatal(err)
		}
		defer remote.Close()
		answers, err := store.Open(folder, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer answers.Close()
		kept, err := chat.Keep(named{remote}, answers)
		if err != nil {
			t.Fatal(err)
		}
		r := edits(t, kept, rows...)
		r.Workers = 8
		_, err = r.Write(ctx)
		return r, err
	}
	fresh := func(calm bool) *weather { return &weather{tries: map[string]int{}, paid: map[string]int{}, calm: calm} }
	calm := fresh(true)
	want, err := run(t, t.Context(), calm, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, folder := fresh(false), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	w.told = func(paid int) {
		if paid == 60 {
			cancel()
		}
	}
	if _, err := run(t, ctx, w, folder); !errors.Is(err, exit.ErrInterrupted) {
		t.Fatalf("interrupted: %v", err)
	}
	before := maps.Clone(w.paid)
	w.told = nil
	got, err := run(t, t.Context(), w, folder)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(read(t, want.Out), read(t, got.Out)); d != "" {
		t.Error(d)
	}
	again := 0
	for question, n := range w.paid {
		if n > 1 && before[question] > 0 {
			again++ // it was in flight when the run was stopped
		}
	}
	if again > 8 || len(w.paid) != len(calm.paid) {
		t.Errorf("%d questions were answered twice, %d in all; a calm day has %d", again, len(w.paid), len(calm.paid))
	}
}

// named is a server whose fingerprint does not depend on its port.
type named struct{ chat.Model }

func (named) Fingerprint() string { return "m" }

func TestPromptsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"source: [{ask: a}]": "target: want a dialogue",
		"source: [{ask: '[SOURCE_CAPTION]'}]\ntarget: [{ask: a}]":            "not available",
		"source: [{ask: a, pictures: [edit]}]\ntarget: [{ask: a}]":           "want source or target",
		"source: [{ask: ' '}]\ntarget: [{ask: a}]\nanother: 1":               "unknown key",
		"source: [{ask: a, pictures: [source]}]\ntarget: [{asked: a}]":       "target[0].ask",
		"source: [{ask: a, pictures: [source]}]\ntarget: [{ask: a, x: [1]}]": "target[0].x",
	} {
		if _, err := readPrompts("p.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// TestExamples: conversations ask what a run would ask, and answer with the captions of the table.
func TestExamples(t *testing.T) {
	row := `{"source": "1.png", "target": "2.png", "instruction": "add a hat", "source_caption": "a cat", ` +
		`"target_caption": "a cat, a hat"}`
	r := edits(t, nil, row, row, `{"source": "1.png", "instruction": "add a hat"}`)
	_, err := r.Examples(t.Context(), filepath.Join(filepath.Dir(r.In), "c.jsonl"))
	if err == nil || !strings.Contains(err.Error(), "one question") {
		t.Errorf("dialogues of two questions: %v", err)
	}
	r.Writer.Prompts = &Prompts{Source: Dialogue{{[]string{"source"}, "what? [INSTRUCTION]"}},
		Target: Dialogue{{[]string{"source", "target"}, "what? [SOURCE_CAPTION]"}}}
	path := filepath.Join(filepath.Dir(r.In), "sub", "c.jsonl")
	if err := os.Mkdir(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	result, err := r.Examples(t.Context(), path)
	if err != nil || result.Written != 2 || result.Given != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	raw, err := os.ReadFile(path)
	want := `{"messages":[{"role":"user","content":[{"image":"../1.png","type":"image"},` +
		`{"text":"what? add a hat","type":"text"}]},{"role":"assistant","content":"a cat"}]}` + "\n" +
		`{"messages":[{"role":"user","content":[{"image":"../1.png","type":"image"},{"image":"../2.png","type":"image"},` +
		`{"text":"what? a cat","type":"text"}]},{"role":"assistant","content":"a cat, a hat"}]}` + "\n"
	if d := cmp.Diff(want, string(raw)); d != "" || err != nil {
		t.Error(d, err)
	}
}

// TestShipped reads the configurations below examples/.
func TestShipped(t *testing.T) {
	found, err := filepath.Glob("../../examples/*/captions.yaml")
	if err != nil || len(found) == 0 {
		t.Fatalf("%d configurations: %v", len(found), err)
	}
	for _, path := range found {
		if _, _, err := Load(path); err != nil {
			t.Error(err)
		}
	}
}

// TestColumnsInOrder: a run writes the same bytes each time, new columns in one order.
func TestColumnsInOrder(t *testing.T) {
	r := edits(t, &scribe{}, `{"source": "1.png", "target": "2.png", "instruction": "add a hat"}`)
	for range 20 {
		if _, err := r.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(r.Out)
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, c := range written {
			at := strings.Index(string(raw), `"`+c.Name+`"`)
			if at <= last {
				t.Fatalf("column %s is not in its place: %s", c.Name, raw)
			}
			last = at
		}
	}
}

// TestColumnsThatAreNotThere: a caption column that no row has is refused, instead of writing all captions again.
func TestColumnsThatAreNotThere(t *testing.T) {
	r := edits(t, &scribe{}, `{"source": "1.png", "target": "2.png", "instruction": "add a hat", "before": "a man"}`)
	r.Columns = map[string]string{"source_caption": "befor"}
	_, err := r.Write(t.Context())
	if exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), `no column "befor"`) {
		t.Error(err)
	}
	r.Columns = map[string]string{"source_caption": "before"}
	if _, err := r.Write(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSeveralSources: captions need exactly one source; a row with several has an error.
func TestSeveralSources(t *testing.T) {
	r := edits(t, &scribe{fail: func(string) (*chat.Answer, error) { return nil, nil }},
		`{"sources": ["1.png", "2.png"], "instruction": "add a hat"}`)
	result, err := r.Write(t.Context())
	if err != nil || result.Failed != 1 {
		t.Fatalf("got %+v (%v), want one row that failed", result, err)
	}
	const want = "the edit has 2 sources, captions need exactly one"
	if got := read(t, r.Out)[0][3]; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

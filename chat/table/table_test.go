package table

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/chat"
	"assay/data"
	"assay/internal/exit"
	"assay/internal/generate"
	"assay/internal/oracle"
	"assay/internal/table"
	_ "assay/model/families"
)

// asked answers with what it was asked, and can cut the run off at a question.
type asked struct {
	calls  atomic.Int64
	cut    int64
	cancel context.CancelFunc
}

func (m *asked) Chat(ctx context.Context, messages []chat.Message, o chat.Options) (*chat.Answer, error) {
	if n := m.calls.Add(1); n == m.cut {
		m.cancel()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var b strings.Builder
	for _, message := range messages {
		fmt.Fprintf(&b, "%s:", message.Role)
		for _, p := range message.Content {
			if p.Image != nil {
				fmt.Fprintf(&b, " %dx%d", p.Image.Width, p.Image.Height)
			} else {
				fmt.Fprintf(&b, " %s", p.Text)
			}
		}
	}
	if strings.Contains(b.String(), "gone") {
		return nil, fmt.Errorf("%w: the model is gone", chat.ErrUnavailable)
	}
	if strings.Contains(b.String(), "refuse") {
		return nil, fmt.Errorf("%w: refused", chat.ErrRequest)
	}
	fmt.Fprintf(&b, " max %d seed %d stop %q ids %v", o.MaxNewTokens, o.Seed, o.Stop, o.StopTokenIDs)
	if o.Temperature != nil {
		fmt.Fprintf(&b, " temperature %g", *o.Temperature)
	}
	a := chat.Answer{Text: b.String(), TokenIDs: []int64{1, 2}, LogProbs: []float64{-1, -2}, Finish: chat.FinishStop}
	return &a, nil
}

func (m *asked) Fingerprint() string { return "asked" }
func (m *asked) Close() error        { return nil }

// write writes a table next to a picture and returns the two paths of a run.
func write(t *testing.T, lines ...string) table.Options {
	t.Helper()
	dir := t.TempDir()
	if err := data.NewPicture(4, 3).WritePNG(filepath.Join(dir, "a.png")); err != nil {
		t.Fatal(err)
	}
	o := table.Options{In: filepath.Join(dir, "in.jsonl"), Out: filepath.Join(dir, "out.jsonl"), Workers: 3}
	if err := os.WriteFile(o.In, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func read(t *testing.T, path string) (out []Answer) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var a Answer
		if err := json.Unmarshal(s.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func TestRows(t *testing.T) {
	o := write(t,
		`{"id": 7, "messages": [{"role": "user", "content": "hello"}], "max_new_tokens": 3, "seed": 5}`,
		``,
		`{"id": "b", "messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}, `+
			`{"type": "text", "text": "what?"}]}], "temperature": 0, "stop": "x", "stop_token_ids": [4]}`,
		`{"messages": [{"role": "user", "content": "refuse"}]}`,
		`{"id": 1, "messages": [{"role": "user", "content": "a"}], "num_beams": 4}`,
		`{"id": 2, "messages": [{"role": "user", "content": [{"type": "video", "video": "a.mp4"}]}]}`,
		`{"id": 3, "messages": []}`,
		`{"id": 4, "messages": [{"role": "user", "content": [{"type": "image", "image": "none.png"}]}]}`,
		`{"id": 5, "messages": [{"role": "user", "content": "a"}], "max_new_tokens": 0}`,
		`nonsense`)
	r, err := Ask(context.Background(), &asked{}, o)
	if err != nil || r.Rows != 9 || r.Answered != 2 || r.Failed != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
	got := read(t, o.Out)
	if s := got[0].Text; s != `user: hello max 3 seed 5 stop [] ids []` || string(got[0].ID) != "7" {
		t.Errorf("%q, id %s", s, got[0].ID)
	}
	if s := got[1].Text; s != `user: 4x3 what? max 0 seed 0 stop ["x"] ids [4] temperature 0` {
		t.Errorf("%q", s)
	}
	if diff := cmp.Diff([]float64{-1, -2}, got[1].LogProbs); diff != "" || got[1].Finish != "stop" {
		t.Error(diff, got[1].Finish)
	}
	for i, want := range []string{"refused", "num_beams", "video", "messages: empty", "none.png", "max_new_tokens",
		"row"} {
		if a := got[2+i]; !strings.Contains(a.Error, want) || a.Answer != nil {
			t.Errorf("row %d: %q, want %q", 2+i, a.Error, want)
		}
	}
	if _, err := os.Stat(o.Out + ".progress"); err == nil {
		t.Error("the progress is left behind")
	}
}

// TestGoesOn: rows answered before an interrupt are not asked again, unless the row or its picture has changed.
func TestGoesOn(t *testing.T) {
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf(`{"id": %d, "messages": [{"role": "user", "content": "%d"}]}`, i, i))
	}
	lines[0] = `{"id": 0, "messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}]}`
	o := write(t, lines...)
	ctx, cancel := context.WithCancel(context.Background())
	first := &asked{cut: 20, cancel: cancel}
	if _, err := Ask(ctx, first, o); !errors.Is(err, exit.ErrInterrupted) {
		t.Fatalf("interrupted: %v", err)
	}
	kept, err := os.ReadFile(o.Out + ".progress")
	if err != nil {
		t.Fatal(err)
	}
	n := strings.Count(string(kept), "\n") - 1
	if n < 10 || n > 22 {
		t.Errorf("%d rows are kept", n)
	}
	if err := data.NewPicture(9, 9).WritePNG(filepath.Join(filepath.Dir(o.In), "a.png")); err != nil {
		t.Fatal(err)
	}
	second := &asked{}
	r, err := Ask(context.Background(), second, o)
	if err != nil || r.Answered != 40 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := 40 - n
	if strings.Contains(string(kept), `"row":0,`) { // it has changed; otherwise it was in flight at the interrupt
		want++
	}
	if calls := int(second.calls.Load()); calls != want {
		t.Errorf("%d rows were asked again of 40, %d were kept: want %d", calls, n, want)
	}
	got := read(t, o.Out)
	for i, a := range got {
		if string(a.ID) != fmt.Sprint(i) || i > 0 && !strings.Contains(a.Text, fmt.Sprint(i)) {
			t.Errorf("row %d: %s %q", i, a.ID, a.Text)
		}
	}
	if !strings.Contains(got[0].Text, "9x9") {
		t.Errorf("the changed picture: %q", got[0].Text)
	}
}

// TestLocal: a table reproduces the fixtures' answers.
func TestLocal(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		type fixture struct {
			Backbone     string
			MaxNewTokens int `json:"max_new_tokens"`
			Cases        []struct {
				Name             string
				Messages         []map[string]any
				Pictures         []string
				NewIDs           []int64 `json:"new_ids"`
				Text             string
				GenerationConfig string `json:"generation_config"`
			}
		}
		f := oracle.Read[fixture](t, filepath.Join(folder, "generation", "qwen2_5_vl.json"))
		m, err := generate.Open(filepath.Join(folder, "generation", f.Backbone), generate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var lines []string
		var want []Answer
		for _, c := range f.Cases {
			if c.GenerationConfig != "" {
				continue
			}
			next := 0
			for _, message := range c.Messages {
				for _, p := range message["content"].([]any) {
					if part := p.(map[string]any); part["type"] == "image" {
						part["image"], next = filepath.Join(folder, "generation", c.Pictures[next]), next+1
					}
				}
			}
			raw, _ := json.Marshal(map[string]any{"id": c.Name, "messages": c.Messages, "max_new_tokens": f.MaxNewTokens,
				"temperature": 0})
			lines = append(lines, string(raw))
			want = append(want, Answer{Answer: &chat.Answer{Text: c.Text, TokenIDs: c.NewIDs}})
		}
		o := write(t, lines...)
		if _, err := Ask(context.Background(), m, o); err != nil {
			t.Fatal(err)
		}
		for i, a := range read(t, o.Out) {
			if a.Error != "" || a.Text != want[i].Text || cmp.Diff(a.TokenIDs, want[i].TokenIDs) != "" {
				t.Errorf("row %d: %+v, want %+v", i, a, want[i])
			}
		}
	})
}

// TestStrictRows: input that encoding/json would silently accept is refused, as by the server.
func TestStrictRows(t *testing.T) {
	for line, want := range map[string]string{
		`{"messages": [{"role": "user", "content": null}]}`:                             "null is not allowed",
		`{"messages": [{"role": "user", "content": "a"}], "seed": 1, "seed": 2}`:        "duplicate",
		`{"messages": [{"role": "user", "role": "system", "content": "a"}]}`:            "duplicate",
		`{"messages": [{"role": "user", "content": "a\ud800"}]}`:                        "surrogate",
		"{\"messages\": [{\"role\": \"user\", \"content\": \"a\xff\"}]}":                "UTF-8",
		`{"messages": [{"role": "user", "content": "a"}], "stop": ["x", null]}`:         "null is not allowed",
		`{"messages": [{"role": "user", "content": "a"}], "stop_token_ids": [null]}`:    "null is not allowed",
		`{"messages": [{"role": "user", "content": [{"type": "text", "text": null}]}]}`: "null is not allowed",
		`{"messages": [{"role": "user", "content": [null]}]}`:                           "null",
	} {
		if _, err := parse([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
}

// TestLine: a written row is read back unchanged.
func TestLine(t *testing.T) {
	dog, cat := &data.Picture{}, &data.Picture{}
	asked := []chat.Message{
		{Role: "system", Content: []chat.Part{{Text: "<say> \"yes\" & no\n"}}},
		{Role: "user", Content: []chat.Part{{Image: dog}, {Text: "and"}, {Image: cat}}},
		{Role: "user", Content: []chat.Part{{Image: cat}}},
		{Role: "assistant", Content: []chat.Part{{Text: "yes"}}},
	}
	line, err := Line("7", asked, map[*data.Picture]string{dog: "../dog.png", cat: "cat.png"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := parse(line)
	if err != nil {
		t.Fatal(err)
	}
	pictures := []data.Image{{Path: "../dog.png"}, {Path: "cat.png"}, {Path: "cat.png"}}
	if !reflect.DeepEqual(r.Messages, asked) || !reflect.DeepEqual(r.Pictures, pictures) || string(r.ID) != `"7"` {
		t.Errorf("%s: read as %+v", line, r)
	}
}

// TestOneFile: answers never replace the questions, whatever the file is called.
func TestOneFile(t *testing.T) {
	o := write(t, `{"id": 1, "messages": [{"role": "user", "content": "hello"}]}`)
	dir := filepath.Dir(o.In)
	soft, hard := filepath.Join(dir, "soft.jsonl"), filepath.Join(dir, "hard.jsonl")
	if err := errors.Join(os.Symlink("in.jsonl", soft), os.Link(o.In, hard)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(o.In)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{o.In, dir + "/./in.jsonl", soft, hard} {
		o.Out = out
		_, err := Ask(context.Background(), &asked{}, o)
		if exit.Code(err) != 2 || !strings.Contains(err.Error(), "table of questions") {
			t.Errorf("%s: error %v", out, err)
		}
	}
	if after, err := os.ReadFile(o.In); err != nil || string(after) != string(before) {
		t.Errorf("the table is now %q, %v", after, err)
	}
}

// TestGone: a model that answers nothing any more ends the run. The rows are left for the next call, instead of
// becoming errors.
func TestGone(t *testing.T) {
	o := write(t, `{"id": "1", "messages": [{"role": "user", "content": "hello"}]}`,
		`{"id": "2", "messages": [{"role": "user", "content": "gone"}]}`)
	o.Workers = 1
	_, err := Ask(t.Context(), &asked{}, o)
	early := new(table.InterruptedError)
	if !errors.As(err, &early) || early.Done != 1 || !strings.Contains(err.Error(), "the model is gone") {
		t.Errorf("got %v, want a run that ends after one row because the model is gone", err)
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for the output, want none", err)
	}
}

package score

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"assay/internal/oracle"
)

// judgeServer answers every question with the same text, and counts.
func judgeServer(t *testing.T, text string) (url string, n *atomic.Int64) {
	n = &atomic.Int64{}
	said, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n.Add(1)
		io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"model": "m", "choices": [{"message": {"role": "assistant", "content": `+string(said)+`},
			"finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, n
}

// TestJudgeCommand: a table and a single edit are judged, and stored answers are used the next time. Unreadable
// answers end with exit code 1 and are reported as a share; a cap ends with exit code 3.
func TestJudgeCommand(t *testing.T) {
	dir := t.TempDir()
	images := filepath.Join(oracle.Folders(t)[0], "images")
	source, edit := filepath.Join(images, "coffee.png"), filepath.Join(images, "coffee_blur.png")
	var table strings.Builder
	for _, instruction := range []string{"blur it", "make it red"} {
		row, _ := json.Marshal(map[string]string{"source": source, "edit": edit, "instruction": instruction})
		table.Write(append(row, '\n'))
	}
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	if err := os.WriteFile(in, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	url, n := judgeServer(t, `{"score": [20, 10], "reasoning": "so"}`)
	answers := filepath.Join(dir, "answers")
	args := []string{"judge", "--config", "editscore", "--url", url, "--model", "m", "--store", answers}
	rows := append(args, "--in", in, "--out", out, "--json")
	for try, want := range []int64{3, 3} { // only the edit is the same in both rows
		code, stdout, stderr := run(t, rows...)
		var r struct {
			Judged, Failed int
			Rule           string
			Asked          struct {
				Found int64
				Spent struct{ Requests int64 }
			}
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Judged != 2 || r.Rule != "edited" {
			t.Fatalf("exit code %d: %s%s (%v)", code, stdout, stderr, err)
		}
		if n.Load() != want || r.Asked.Found != int64(1+3*try) || r.Asked.Spent.Requests != int64(3-3*try) {
			t.Errorf("try %d: %d requests: %s", try, n.Load(), stdout)
		}
	}
	for _, next := range [][]string{
		{"best", "--in", out, "--json"}, {"condition", "--in", out, "--out", filepath.Join(dir, "labels"), "--json"},
		{"drift", "--before", out, "--after", out, "--json"},
	} { // the other commands read the scores that judge wrote
		code, stdout, stderr := run(t, next...)
		if code != 0 || next[0] == "best" && strings.Count(stdout, `"score":4`) != 2 {
			t.Errorf("%v: exit code %d: %s%s", next, code, stdout, stderr)
		}
	}
	single := append(args, "--source", source, "--edit", edit, "--instruction", "blur it")
	code, stdout, _ := run(t, single...)
	if code != 0 || !strings.HasPrefix(stdout, "4.0000") || n.Load() != 3 {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, _, stderr := run(t, append(args, "--in", in, "--out", out, "--passes", "3", "--token-cap", "40")...)
	if code != 3 || !strings.Contains(stderr, "of 2 rows are saved") || !strings.Contains(stderr, "the cap is reached") {
		t.Errorf("a cap: exit code %d: %s", code, stderr)
	}
	bad, _ := judgeServer(t, "no idea")
	args[4] = bad
	code, stdout, _ = run(t, append(args, "--in", in, "--out", filepath.Join(dir, "bad.jsonl"), "--json")...)
	if code != 1 || !strings.Contains(stdout, `"unreadable_share":1`) {
		t.Errorf("unreadable answers: exit code %d: %s", code, stdout)
	}
	code, stdout, _ = run(t, append(args, "--source", source, "--edit", edit, "--instruction", "a", "--json")...)
	if code != 1 || !strings.Contains(stdout, "no idea") || strings.Contains(stdout, `"score`) ||
		strings.Count(stdout, "\n") != 1 {
		t.Errorf("one unreadable answer: exit code %d: %s", code, stdout)
	}
}

// TestJudgeWithoutScore: a judge that names a class, or only returns numbers, has no score: in a table, for one edit,
// or as a scorer.
func TestJudgeWithoutScore(t *testing.T) {
	dir := t.TempDir()
	table, _ := edits(t, dir)
	picture := filepath.Join(oracle.Folders(t)[0], "images", "coffee.png")
	for judge, c := range map[string]struct{ answer, class, single string }{
		"aim/emotion": {`{"emotion": "awe"}`, "awe", "awe  (AIM-Bench emotion, rule aim-emotion)"},
		"aim/vad":     {`{"valence": 1, "arousal": 2, "dominance": 3}`, "<nil>", "no score  (AIM-Bench VAD, rule aim-vad)"},
	} {
		t.Run(judge, func(t *testing.T) {
			out := filepath.Join(dir, "out.jsonl")
			model := []string{"--url", answering(t, func(string) string { return c.answer }), "--model", "m", "--store",
				filepath.Join(dir, judge)}
			command(t, append([]string{"judge", "--config", judge, "--in", table, "--out", out}, model...)...)
			row := lines(t, out)[0]
			if _, scored := row["score"]; scored || fmt.Sprint(row["class"]) != c.class || row["answers"] == nil {
				t.Errorf("got the row %v, want the class %s and no score", row, c.class)
			}
			code, stdout, stderr := run(t, append([]string{"judge", "--config", judge, "--edit", picture, "--instruction", "a"},
				model...)...)
			if code != 0 || !strings.HasPrefix(stdout, c.single) {
				t.Errorf("of one edit: got exit code %d, want %q: %s%s", code, c.single, stdout, stderr)
			}
			code, stdout, stderr = run(t, append([]string{"batch", "--judge", judge, "--in", table, "--out", out}, model...)...)
			if code != 2 || !strings.Contains(stdout+stderr, "has no score") {
				t.Errorf("as a scorer: got exit code %d, want 2: %s%s", code, stdout, stderr)
			}
		})
	}
}

// TestJudgeUsage: wrong flags and settings are exit code 2, and say what is needed.
func TestJudgeUsage(t *testing.T) {
	dir := t.TempDir()
	server := filepath.Join(dir, "server.yaml")
	if err := os.WriteFile(server, []byte("url: http://localhost:1/v1\nmodels: a\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	with := func(more ...string) []string { return append([]string{"judge", "--config", "viescore"}, more...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"judge"}, "--config is needed"},
		{with(), "--in and --out"},
		{with("--in", "a.jsonl"), "--in and --out"},
		{with("--in", "a.jsonl", "--out", "b.csv"), "b.csv"},
		{with("--source", "a.png"), "--instruction"},
		{with("--in", "a.jsonl", "--out", "b.jsonl"), "--url"},
		{with("--in", "a.jsonl", "--out", "b.jsonl", "--server", server), "did you mean model"},
		{with("--in", "a.jsonl", "--out", "b.jsonl", "--url", "http://localhost:1", "--model", "m", "--average", "x",
			"--store", dir), "average"},
		{with("--source", "a.png", "--instruction", "a", "--url", "http://localhost:1", "--model", "m", "--store", dir),
			"--edit is needed"},
		{with("--source", "a.png", "--edit", "a.png", "--edit2", "b.png", "--instruction", "a", "--url", "http://localhost:1",
			"--model", "m", "--store", dir), "--edit2: no question of this judge shows it; the judge shows edit, source"},
		{append([]string{"judge", "--config", "nobody", "--store", dir}, "--in", "a.jsonl", "--out", "b.jsonl", "--url",
			"http://localhost:1", "--model", "m"), "viescore/1shot"},
		{with("--in", "a.jsonl", "--out", "b.jsonl", "--backbone", "c", "--device", "tpu"), "want cpu, auto, or cuda:N"},
		{with("--in", "a.jsonl", "--out", "b.jsonl", "--backbone", "c", "--dtype", "int4"), "auto, float32 or bfloat16"},
	} {
		code, _, stderr := run(t, c.args...)
		if code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, stderr)
		}
	}
}

// TestJudgeCancelled: a run that is stopped before it starts saves its state and says so.
func TestJudgeCancelled(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte(`{"source": "a.png", "edit": "b.png", "instruction": "a"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	url, _ := judgeServer(t, "no idea")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code := App.Run(ctx, []string{"judge", "--config", "viescore", "--url", url, "--model", "m", "--store", dir,
		"--in", in, "--out", filepath.Join(dir, "out.jsonl")}, io.Discard, io.Discard)
	if code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

// TestJudgeLocal: a checkpoint on this machine judges as a server does, and its answers are stored.
func TestJudgeLocal(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.jinja": "Is it blurred: {{ instruction }}?",
		"judge.yaml": `{format: 1, kind: text, name: a, rule: b, score_range: [0, 1], score: {by: mean, of: [x]},
			options: {max_new_tokens: 4, temperature: 0}, questions: [{name: q, pictures: [source, edit], prompt: a.jinja,
			answer: {value: {choice: {'yes': 1, 'no': 0.25}, as: x}}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	images := filepath.Join(oracle.Folders(t)[0], "images")
	for try := range 2 {
		code, stdout, stderr := run(t, "judge", "--config", dir, "--backbone", "../../../backbones/tiny", "--store",
			filepath.Join(dir, "answers"), "--source", filepath.Join(images, "coffee.png"), "--edit",
			filepath.Join(images, "coffee_blur.png"), "--instruction", "blur it", "--json")
		var r struct {
			Score float64
			Asked struct{ Answers, Found int }
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Score != 0.25 && r.Score != 1 ||
			r.Asked.Answers != 1-try || r.Asked.Found != try {
			t.Errorf("try %d: exit code %d: %s%s", try, code, stdout, stderr)
		}
	}
}

package score

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
)

// answering is a server whose answer is a function of the request's text.
func answering(t *testing.T, say func(body string) string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		said, err := json.Marshal(say(string(body)))
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"model": "m", "choices": [{"message": {"role": "assistant", "content": `+string(said)+`},
			"finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestJudgeAsScorer: a VLM judge can be used instead of a scorer. An unreadable answer is the row's error, and the
// share of such rows is in every result.
func TestJudgeAsScorer(t *testing.T) {
	dir := t.TempDir()
	table, _ := edits(t, dir) // six rows, two of which lack their picture
	url := answering(t, func(body string) string {
		if strings.Contains(body, "blur it.") {
			return `{"score": [20, 10], "reasoning": "so"}`
		}
		return `{"score": [20, 15], "reasoning": "the edit alone"}`
	})
	judge := []string{"--judge", "editscore", "--url", url, "--model", "m", "--store", filepath.Join(dir, "answers")}
	out := filepath.Join(dir, "out.jsonl")
	code, v := command(t, append([]string{"batch", "--in", table, "--out", out}, judge...)...)
	if code != 1 || v["scored"] != 4.0 || v["failed"] != 2.0 || v["unreadable"] != 0.0 || v["unreadable_share"] != 0.0 {
		t.Fatalf("exit code %d: %v", code, v)
	}
	judged := filepath.Join(dir, "judged.jsonl")
	command(t, append([]string{"judge", "--config", "editscore", "--in", table, "--out", judged}, judge[2:]...)...)
	for i, row := range lines(t, judged) {
		got := lines(t, out)[i]
		if fmt.Sprint(got["score"]) != fmt.Sprint(row["score"]) {
			t.Errorf("row %d: score %v, score judge says %v", i, got["score"], row["score"])
		}
		if d, ok := row["dimensions"].(map[string]any); ok && got["score_semantic"] != d["semantic"] {
			t.Errorf("row %d: %v, score judge says %v", i, got, d)
		}
	}
	for _, args := range [][]string{{"best", "--in", table},
		{"condition", "--in", table, "--out", filepath.Join(dir, "c")},
		{"drift", "--before", table, "--after", table}} {
		code, v := command(t, append(args, judge...)...)
		if code != 1 || v["unreadable"] != 0.0 { // two pictures are missing
			t.Errorf("%v: exit code %d: %v", args[0], code, v)
		}
	}
	// answers that cannot be read
	bad := answering(t, func(string) string { return "20 and 15 out of 25" })
	judge[3], judge[7] = bad, filepath.Join(dir, "others")
	code, v = command(t, append([]string{"batch", "--in", table, "--out", out}, judge...)...)
	if code != 1 || v["unreadable"] != 4.0 || v["unreadable_share"] != 1.0 {
		t.Errorf("exit code %d: %v", code, v)
	}
	if row := lines(t, out)[0]; row["score"] != nil || !strings.Contains(fmt.Sprint(row["error"]), "20 and 15 out of 25") {
		t.Errorf("the text is not kept: %v", row)
	}
	code, v = command(t, append([]string{"batch", "--in", table, "--out", out, "--scorer", "x"}, judge...)...)
	if code != 2 || !strings.Contains(fmt.Sprint(v["error"]), "replaces --scorer") {
		t.Errorf("exit code %d: %v", code, v)
	}
}

// auroraFolder is AURORA-Bench's pairs over the oracle's pictures.
func auroraFolder(t *testing.T) string {
	pictures := filepath.Join(oracle.Folders(t)[0], "images")
	dir := t.TempDir()
	for _, name := range []string{"coffee", "coffee_blur", "chelsea_mirror"} {
		raw, err := os.ReadFile(filepath.Join(pictures, name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var ratings []map[string]any
	for i, winner := range []string{"A", "B", "tie", "A"} {
		ratings = append(ratings, map[string]any{"input": "coffee.png", "gens": []string{"coffee_blur.png",
			"chelsea_mirror.png"},
			"prompt": fmt.Sprintf("edit number %d", i), "winner": winner, "models": []string{"A", "B"}})
	}
	raw, err := json.Marshal(ratings)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "human_ratings_pairwise.json"), raw, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBenchJudges: judges of pairs and of single edits are run on a benchmark; both orders are asked, and an
// unreadable answer has no prediction.
func TestBenchJudges(t *testing.T) {
	data, dir := auroraFolder(t), t.TempDir()
	url := answering(t, func(body string) string {
		switch {
		case strings.Contains(body, "edit number 3"):
			return "I cannot tell"
		case strings.Contains(body, "edit number 2"):
			return "Both are equally good"
		}
		return "Image 1 is better" // whichever is shown first
	})
	args := []string{"aurora-pair", "--ratings", data, "--judge", "unifiedreward-edit/pair", "--url", url, "--model", "m",
		"--store", filepath.Join(dir, "answers"), "--out", filepath.Join(dir, "run"), "--resamples", "20"}
	for range 2 { // the second run finds everything
		code, stdout, stderr := bench(append(args, "--json")...)
		var v struct {
			N     int
			Asked struct {
				Judged, Failed, Unreadable int
				Share                      float64 `json:"unreadable_share"`
				Orders                     struct {
					Agree, Disagree int
					First           int `json:"first_shown"`
				}
			}
		}
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 1 {
			t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
		}
		a := v.Asked
		if v.N != 3 || a.Judged != 6 || a.Failed != 2 || a.Unreadable != 2 || a.Share != 0.25 || a.Orders.Agree != 1 ||
			a.Orders.Disagree != 2 || a.Orders.First != 2 {
			t.Errorf("%s", stdout)
		}
	}
	if rows := lines(t, filepath.Join(dir, "run", "failed.jsonl")); len(rows) != 2 || rows[0]["unreadable"] != true {
		t.Errorf("%v", rows)
	}
	url = answering(t, func(body string) string { return `{"score": [8, 6], "reasoning": "so"}` })
	args[4], args[6], args[12] = "viescore", url, filepath.Join(dir, "single")
	code, stdout, stderr := bench(args...)
	if code != 0 || !strings.Contains(stdout, "answers that could not be read: 0 items") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, row := range lines(t, filepath.Join(dir, "single", "predictions.jsonl")) {
		if row["score"] != 6.0 {
			t.Errorf("%v", row)
		}
	}
}

// TestMVEIJudges: MVEI is run from its published folder with a VLM judge, and with the choices of a checkpoint. The
// judge's text is saved and parsed by the benchmark's own rule.
func TestMVEIJudges(t *testing.T) {
	data, dir := auroraFolder(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "images"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(data, "coffee.png"), filepath.Join(data, "images", "coffee.png")); err != nil {
		t.Fatal(err)
	}
	meta := `[{"image_id": "coffee.png", "ov_emotion": ["joy"], "statement_list": [
		{"statement": "s0", "label": "correct", "class": "scene context", "subclass": "none"},
		{"statement": "s1", "label": "incorrect", "class": "scene context", "subclass": "none"},
		{"statement": "s2", "label": "correct", "class": "sentiment polarity", "subclass": "none"},
		{"statement": "s3", "label": "incorrect", "class": "sentiment polarity", "subclass": "none"}]}]`
	if err := os.WriteFile(filepath.Join(data, "MVEI_metadata.json"), []byte(meta), 0o666); err != nil {
		t.Fatal(err)
	}
	url := answering(t, func(body string) string {
		for statement, answer := range map[string]string{"s1": "This is incorrect.", "s2": "maybe"} {
			if strings.Contains(body, "Statement: "+statement) {
				return answer
			}
		}
		return "Correct"
	})
	v := benchJSON(t, "mvei", "--ratings", data, "--judge", "esj", "--url", url, "--model", "m", "--store",
		filepath.Join(dir, "answers"), "--out", filepath.Join(dir, "run"), "--resamples", "20")
	class := v["per_class"].(map[string]any)["sentiment polarity"].(map[string]any)
	if v["accuracy"] != 0.5 || v["give_up_ratio"] != 0.25 || class["accuracy"] != 0.0 || class["give_up_ratio"] != 0.5 {
		t.Errorf("%v", v)
	}
	prompt := filepath.Join(dir, "statement.txt")
	if err := os.WriteFile(prompt, []byte("Does this fit the picture? [INSTRUCTION]"), 0o666); err != nil {
		t.Fatal(err)
	}
	scorer := filepath.Join(dir, "choices")
	code, w := command(t, "import", "choices", "--base", "../../../backbones/tiny", "--prompts", prompt, "--choices",
		"Y,N", "--values", "1,0", "--pictures", "edit", "--out", scorer)
	if code != 0 {
		t.Fatalf("exit code %d: %v", code, w)
	}
	v = benchJSON(t, "mvei", "--ratings", data, "--scorer", scorer, "--out", filepath.Join(dir, "c"), "--resamples", "20")
	if v["n"] != 4.0 || v["give_up_ratio"] != 0.0 {
		t.Errorf("%v", v)
	}
	clip := filepath.Join(oracle.Folders(t)[0], "clip", "model")
	if clip, err := filepath.Abs(clip); err == nil { // a cosine and one more, or one less, has one sign
		for answer, shift := range map[string]string{"Correct": "2", "Incorrect": "-2"} {
			file := filepath.Join(dir, answer+".yaml")
			if err := os.WriteFile(file, []byte("format: 1\nname: clip\nencoder: "+clip+"\nof: [edit, instruction]\noutput: "+
				"{scale: ["+shift+", 1]}\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			v := benchJSON(
				t,
				"mvei",
				"--ratings",
				data,
				"--component",
				file,
				"--out",
				filepath.Join(dir, answer),
				"--resamples",
				"20",
			)
			if v["accuracy"] != 0.5 || v["positive_ratio"] != map[string]float64{"Correct": 1}[answer] || v["n"] != 4.0 {
				t.Errorf("%s: %v", answer, v)
			}
		}
	}
	for _, row := range lines(t, filepath.Join(dir, "c", "predictions.jsonl")) {
		code, one := command(t, "pair", "--scorer", scorer, "--edit", filepath.Join(data, "images", "coffee.png"),
			"--instruction",
			"s"+strings.TrimPrefix(row["id"].(string), "coffee.png#"))
		if want := map[bool]string{true: "Correct", false: "Incorrect"}[one["score"].(float64) > 0.5]; code != 0 ||
			row["answer"] != want {
			t.Errorf("%v, where the score is %v", row, one["score"])
		}
	}
}

// TestMVEIExamples: the conversations made from MVEI's statements have exactly the parts that the judge sends to a
// server, and the answer that the benchmark's rule parses as the truth.
func TestMVEIExamples(t *testing.T) {
	data, dir := auroraFolder(t), t.TempDir()
	meta := `[{"image_id": "coffee.png", "ov_emotion": ["joy"], "statement_list": [
		{"statement": "It is <calm> & \"café\".\n", "label": "Correct", "class": "scene context", "subclass": "none"},
		{"statement": "s1", "label": "incorrect", "class": "scene context", "subclass": "none"}]}]`
	if err := os.WriteFile(filepath.Join(data, "MVEI_metadata.json"), []byte(meta), 0o666); err != nil {
		t.Fatal(err)
	}
	type part struct{ Type, Text, Image string }
	type message struct {
		Role    string
		Content json.RawMessage
	}
	parse := func(raw []byte) (p []part) {
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Error(err)
		}
		return p
	}
	sent := map[string][]part{} // by the text
	url := answering(t, func(body string) string {
		var q struct{ Messages []message }
		if err := json.Unmarshal([]byte(body), &q); err != nil || len(q.Messages) != 1 || q.Messages[0].Role != "user" {
			t.Errorf("%v: %s", err, body)
			return ""
		}
		parts := parse(q.Messages[0].Content)
		sent[parts[len(parts)-1].Text] = parts
		return "Correct"
	})
	benchJSON(t, "mvei", "--ratings", data, "--images", data, "--judge", "esj", "--url", url, "--model", "m",
		"--concurrency", "1", "--store", filepath.Join(dir, "answers"), "--out", filepath.Join(dir, "run"),
		"--resamples", "0")
	out := filepath.Join(dir, "conversations.jsonl")
	args := []string{"mvei", "--ratings", data, "--images", data, "--judge", "esj", "--examples", out}
	if v := benchJSON(t, args...); v["written"] != 2.0 || len(sent) != 2 {
		t.Fatalf("%v, %d were sent", v, len(sent))
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var row struct {
			ID       string
			Messages []message
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || len(row.Messages) != 2 {
			t.Fatalf("%v: %s", err, line)
		}
		got := parse(row.Messages[0].Content)
		want, ok := sent[got[len(got)-1].Text]
		if !ok || len(got) != 2 || len(want) != 2 || want[0].Type != "image_url" || got[0].Type != "image" ||
			want[1].Type != got[1].Type {
			t.Errorf("%+v, the judge sends %+v", got, sent)
		}
		if path := filepath.Join(dir, filepath.FromSlash(got[0].Image)); path != filepath.Join(data, "coffee.png") {
			t.Errorf("the picture is %s", path)
		}
		answer := []string{`"Correct"`, `"Incorrect"`}[i]
		if id := fmt.Sprintf("coffee.png#%d", i); row.ID != id || row.Messages[0].Role != "user" ||
			row.Messages[1].Role != "assistant" || string(row.Messages[1].Content) != answer {
			t.Errorf("%s", line)
		}
	}
	for text, more := range map[string][]string{
		"--seed: --examples asks nothing":        {"--seed", "2"},
		"coffee.png: the picture does not exist": {"--images", dir},
		"one question":                           {"--judge", "viescore"},
		".jsonl":                                 {"--examples", "x.json"},
	} {
		if code, _, stderr := bench(append(args, more...)...); code != 2 || !strings.Contains(stderr, text) {
			t.Errorf("%v: exit code %d: %s", more, code, stderr)
		}
	}
	bad := strings.Replace(meta, `"Correct"`, `""`, 1)
	if err := os.WriteFile(filepath.Join(data, "MVEI_metadata.json"), []byte(bad), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := bench(args...); code != 2 || !strings.Contains(stderr, "statement 0") {
		t.Errorf("without a truth: exit code %d: %s", code, stderr)
	}
}

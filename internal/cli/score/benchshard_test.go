package score

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/oracle"
)

// TestBenchShards: the shards of a VLM judge, in any order, merge into the report of one run, including unreadable
// answers.
func TestBenchShards(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	picture, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", "coffee.png"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "coffee.png", picture)
	var table strings.Builder
	for i := range 9 {
		key, task := fmt.Sprint("k", i), []string{"subject-add", "style_change"}[i%2]
		line, _ := json.Marshal(map[string]any{"task_type": task, "key": key, "instruction": "do " + key,
			"instruction_language": "en", "input_image_raw": "coffee.png", "Intersection_exist": true})
		table.Write(append(line, '\n'))
		put(t, dir, filepath.Join("M", "fullset", task, "en", key+".png"), picture)
	}
	put(t, dir, "gedit.jsonl", []byte(table.String()))
	url := answering(t, func(body string) string {
		switch {
		case strings.Contains(body, "do k4"):
			return "no idea"
		case strings.Contains(body, "do k2"):
			return `{"score": [3, 6], "reasoning": "so"}`
		}
		return `{"score": [8, 6], "reasoning": "so"}`
	})
	judge := func(out string, code int, more ...string) string {
		t.Helper()
		got, stdout, stderr := bench(append([]string{"gedit-bench", "--ratings", filepath.Join(dir, "gedit.jsonl"),
			"--editors", filepath.Join(dir, "M"), "--judge", "viescore", "--url", url, "--model", "m", "--store",
			filepath.Join(dir, "answers"), "--out", filepath.Join(dir, out), "--resamples", "20", "--json"}, more...)...)
		if got != code {
			t.Fatalf("%v: exit code %d, want %d: %s%s", more, got, code, stdout, stderr)
		}
		return strings.ReplaceAll(stdout+stderr, filepath.Join(dir, out), "OUT")
	}
	want := judge("whole", exit.Failed)
	failed := 0
	for _, shard := range []string{"3/4", "1/4", "any/4"} {
		code := exit.Done
		if _, err := os.Stat(filepath.Join(dir, "parts", "predictions.jsonl.shards")); err == nil {
			if text := judge("parts", exit.Failed, "--merge"); !strings.Contains(text, "shards are not done") {
				t.Errorf("merged too early: %s", text)
			}
		}
		got, stdout, stderr := bench("gedit-bench", "--ratings", filepath.Join(dir, "gedit.jsonl"), "--editors",
			filepath.Join(dir, "M"), "--judge", "viescore", "--url", url, "--model", "m", "--store",
			filepath.Join(dir, "answers"), "--out", filepath.Join(dir, "parts"), "--shard", shard, "--json")
		var r struct{ Failed int }
		if err := json.Unmarshal([]byte(strings.SplitAfter(stdout, "}\n")[0]), &r); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		if failed += r.Failed; r.Failed > 0 {
			code = exit.Failed
		}
		if got != code {
			t.Errorf("--shard %s: exit code %d, want %d: %s", shard, got, code, stderr)
		}
	}
	if failed != 1 {
		t.Errorf("%d items failed in shards, want 1", failed)
	}
	if got := judge("parts", exit.Failed, "--merge"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, name := range []string{"predictions.jsonl", "failed.jsonl", "run.json"} {
		a, errA := os.ReadFile(filepath.Join(dir, "whole", name))
		b, errB := os.ReadFile(filepath.Join(dir, "parts", name))
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s: %v %v\n%s\nwant %s", name, errA, errB, b, a)
		}
	}
	code, _, stderr := bench("gedit-bench", "--ratings", filepath.Join(dir, "gedit.jsonl"), "--editors",
		filepath.Join(dir, "M"), "--shard", "1/2")
	if code != exit.Wrong || !strings.Contains(stderr, "--shard and --merge split the work") {
		t.Errorf("--shard without a model: exit code %d: %s", code, stderr)
	}
}

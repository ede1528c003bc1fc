package score

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/curate"
	"assay/internal/exit"
	"assay/internal/oracle"
)

// command runs one command line with --json and returns its exit code and what it printed.
func command(t *testing.T, args ...string) (int, map[string]any) {
	t.Helper()
	var stdout, stderr strings.Builder
	code := App.Run(context.Background(), append(args, "--json"), &stdout, &stderr)
	v := map[string]any{}
	if err := json.Unmarshal([]byte(stdout.String()), &v); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return code, v
}

// edits writes a table: two sources with three edits each, one of which is missing.
func edits(t *testing.T, dir string) (path, scorer string) {
	t.Helper()
	folder := oracle.Folders(t)[0]
	var b strings.Builder
	for _, source := range []string{"coffee", "chelsea"} {
		for _, edit := range []string{"coffee_blur", "chelsea_mirror", "missing"} {
			fmt.Fprintf(&b, "{\"id\": %q, \"source\": %q, \"edit\": %q, \"instruction\": \"blur it.\"}\n", source+edit,
				filepath.Join(folder, "images", source+".png"), filepath.Join(folder, "images", edit+".png"))
		}
	}
	path = filepath.Join(dir, "edits.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path, filepath.Join(folder, "llavanext", "scorer")
}

func lines(t *testing.T, path string) (rows []map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		row := map[string]any{}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestConditionBestAndPairs(t *testing.T) {
	dir := t.TempDir()
	table, scorer := edits(t, dir)
	labels := filepath.Join(dir, "labels")
	code, v := command(t, "condition", "--in", table, "--scorer", scorer, "--out", labels, "--layouts",
		strings.Join(curate.LayoutNames(), ","), "--copy")
	if code != exit.Failed || v["labelled"] != 4.0 || v["failed"] != 2.0 {
		t.Fatalf("exit code %d, %v", code, v)
	}
	rows := lines(t, filepath.Join(labels, "metadata.jsonl"))
	for _, row := range rows {
		if want := curate.Presets["adiee"].Text("blur it.", row["score"].(float64)); row["prompt"] != want ||
			strings.Contains(want, "..") {
			t.Errorf("prompt %q, want %q", row["prompt"], want)
		}
		for _, field := range []string{"image", "edit_image"} {
			if _, err := data.Open(filepath.Join(labels, row[field].(string)), data.Limits{}); err != nil {
				t.Error(err)
			}
		}
	}
	for _, path := range []string{"metadata.csv", "metadata.json", "data.parquet", "instructpix2pix/seeds.json",
		"instructpix2pix/0000003/0_1.jpg",
		"instructpix2pix/0000000/prompt.json", "magicbrush/edit_turns.json",
		"magicbrush/images/0000003/0000003-output1.png"} {
		if _, err := os.Stat(filepath.Join(labels, path)); err != nil {
			t.Error(err)
		}
	}
	if failed := lines(t, filepath.Join(labels, "failed.jsonl")); len(failed) != 2 ||
		!strings.Contains(failed[0]["error"].(string), "missing.png") {
		t.Errorf("failed: %v", failed)
	}

	scores, pairs := filepath.Join(dir, "scores.jsonl"), filepath.Join(dir, "pairs.jsonl")
	if code, v = command(t, "batch", "--in", table, "--scorer", scorer, "--out", scores, "--pairs",
		pairs); code != exit.Failed ||
		v["pairs"] != 2.0 {
		t.Fatalf("exit code %d, %v", code, v)
	}
	for _, p := range lines(t, pairs) {
		if p["margin"].(float64) != p["score_chosen"].(float64)-p["score_rejected"].(float64) || p["margin"].(float64) <= 0 ||
			p["chosen"] == p["rejected"] {
			t.Errorf("%v", p)
		}
	}
	code, v = command(t, "best", "--in", scores, "--keep", "2") // the scores are in the table
	list := v["best"].([]any)
	if code != exit.Failed || len(list) != 4 {
		t.Fatalf("exit code %d, %v", code, v)
	}
	first, second := list[0].(map[string]any), list[1].(map[string]any)
	if lead := first["score"].(float64) - second["score"].(float64); lead < 0 || second["margin"] != nil ||
		!(math.Abs(first["margin"].(float64)-lead) <= 1e-9) {
		t.Errorf("%v", list)
	}
	if code, v = command(t, "drift", "--before", scores, "--after",
		scores); code != exit.Failed || v["rows_after"] != 4.0 ||
		v["failed_after"] != 2.0 {
		t.Errorf("exit code %d, %v", code, v)
	}
}

func TestAIM(t *testing.T) {
	dir := t.TempDir()
	folder := oracle.Folders(t)[0]
	var b strings.Builder
	for i, emotion := range append(slices.Clone(curate.Emotions), "awe", "fear") {
		clip := 0.9
		if i == 9 {
			clip = 0.8
		}
		fmt.Fprintf(
			&b,
			"{\"input\": %q, \"target\": %q, \"instruction\": \"evoke %s\", \"emotion\": %q, \"clip_i\": %g, \"sc\": %d, "+
				"\"pq\": 6, \"clip_t\": 0.25, \"aesthetic\": 5, \"score01\": 0.7}\n",
			filepath.Join(folder, "images", "coffee.png"),
			filepath.Join(folder, "images", []string{"chelsea.png", "rocket.png"}[i%2]),
			emotion,
			emotion,
			clip,
			i,
		)
	}
	if err := os.WriteFile(filepath.Join(dir, "metadata.jsonl"), []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	code, v := command(t, "aim", "--in", dir, "--out", out, "--top", "0")
	if code != exit.Done || v["chosen"] != 8.0 || v["dropped"] != 2.0 {
		t.Fatalf("exit code %d, %v", code, v)
	}
	rows := lines(t, filepath.Join(out, "metadata.jsonl"))
	if len(rows) != 8 || rows[0]["prompt"] != "evoke amusement" || rows[0]["score"] != 7.0 {
		t.Errorf("%v", rows)
	}
	dropped := lines(t, filepath.Join(out, "dropped.jsonl"))
	if dropped[0]["row"] != 2.0 ||
		dropped[1]["row"] != 9.0 { // awe's better triplet is the later one; fear's is below the threshold
		t.Errorf("%v", dropped)
	}
	for rule, want := range map[string]map[string]any{
		curate.AIM40k:   {"chosen": 8.0, "dropped": 2.0, "rule": "aim-40k"},
		curate.AIMBench: {"chosen": 5.0, "dropped": 5.0, "rule": "aim-bench", "sources": 1.0, "normalise": "source"},
	} {
		t.Run(rule, func(t *testing.T) {
			code, v := command(t, "aim", "--rule", rule, "--in", dir, "--out", filepath.Join(t.TempDir(), "out"))
			if code != exit.Done {
				t.Fatalf("exit code %d (%v), want %d", code, v["error"], exit.Done)
			}
			for key, value := range want {
				if v[key] != value {
					t.Errorf("%s = %v, want %v", key, v[key], value)
				}
			}
		})
	}
}

func TestServeRefusesBadFlags(t *testing.T) {
	t.Setenv("ASSAY_TOKEN", "")
	_, scorer := edits(t, t.TempDir())
	clients := filepath.Join(t.TempDir(), "clients.yaml")
	if err := os.WriteFile(clients, []byte("clients:\n  - {name: a, token: x}\n  - {name: b, token: x, rate: 3}\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"--scorer", scorer, "--addr", "0.0.0.0:0"}, {"--scorer", scorer, "--addr", ":0"},
		{"--scorer", scorer, "--addr", "x"},
		{"--scorer", scorer, "--batch", "0"}, {"--scorer", scorer, "--wait", "-1s"}, {"--scorer", scorer, "--cert", "x"},
		{"--scorer", scorer, "--cert", "x", "--key", "y"}, {"--scorer", scorer, "--clients", clients},
		{"--scorer", "a=" + scorer, "--scorer", "a=" + scorer}} {
		if code, v := command(t, append([]string{"serve"}, args...)...); code != exit.Wrong || v["error"] == nil {
			t.Errorf("%v: exit code %d, %v", args, code, v)
		}
	}
}

// TestBatchRefusesBadNumbers: a margin that no pair can be compared with would write ties as preferences.
func TestBatchRefusesBadNumbers(t *testing.T) {
	dir := t.TempDir()
	table, scorer := edits(t, dir)
	for _, more := range [][]string{{"--margin", "NaN"}, {"--margin", "-1"}, {"--threads", "-1"}} {
		args := []string{"batch", "--scorer", scorer, "--in", table, "--out", filepath.Join(dir, "o.jsonl"),
			"--pairs", filepath.Join(dir, "p.jsonl")}
		if code, v := command(t, append(args, more...)...); code != exit.Wrong || v["error"] == nil {
			t.Errorf("%v: exit code %d, %v", more, code, v)
		}
	}
}

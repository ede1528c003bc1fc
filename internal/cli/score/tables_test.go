package score

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/oracle"
)

// writeEdits writes a table and its pictures: one source with two edits, and one of its own.
func writeEdits(t *testing.T, folder, name string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(folder, "img"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"coffee", "chelsea", "coffee_blur", "chelsea_mirror"} {
		from := filepath.Join(oracle.Folders(t)[0], "images", p+".png")
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "img", p+".png"), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	rows := [][2]string{{"coffee", "coffee_blur"}, {"chelsea", "chelsea_mirror"}, {"coffee", "coffee"}}
	if strings.HasSuffix(name, ".csv") {
		b.WriteString("source,edit,instruction\n")
	}
	for _, r := range rows {
		format := `{"source": "img/%s.png", "edit": "img/%s.png", "instruction": "blur it"}` + "\n"
		if strings.HasSuffix(name, ".csv") {
			format = "img/%s.png,img/%s.png,blur it\n"
		}
		fmt.Fprintf(&b, format, r[0], r[1])
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScoredElsewhere: commands that read a scored table find its pictures wherever it was written.
func TestScoredElsewhere(t *testing.T) {
	dir := t.TempDir()
	scorer := filepath.Join(oracle.Folders(t)[0], "llavanext", "scorer")
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for _, folder := range []string{"out", "in/below"} {
		if err := os.MkdirAll(at(folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	pairs := at("out", "pairs.jsonl")
	for in, out := range map[string]string{
		writeEdits(t, at("in"), "t.csv"):   at("out", "csv.jsonl"),
		writeEdits(t, at("in"), "t.jsonl"): at("in", "below", "jsonl.parquet"),
	} {
		if code, v := command(t, "batch", "--scorer", scorer, "--in", in, "--out", out, "--pairs", pairs); code != 0 {
			t.Fatalf("batch: exit code %d, want 0: %v", code, v)
		}
		labels := out + ".labels"
		if code, v := command(t, "condition", "--in", out, "--out", labels); code != 0 || v["labelled"] != 3.0 {
			t.Fatalf("condition: exit code %d, want 0: %v", code, v)
		}
		for _, row := range lines(t, filepath.Join(labels, "metadata.jsonl")) {
			checkPictures(t, labels, row["image"], row["edit_image"])
		}
		if code, v := command(t, "drift", "--before", out, "--after", out); code != 0 {
			t.Errorf("drift: exit code %d, want 0: %v", code, v)
		}
		best := at("best.jsonl")
		if code, v := command(t, "best", "--in", out, "--out", best); code != 0 {
			t.Errorf("best: exit code %d, want 0: %v", code, v)
		}
		for _, row := range lines(t, best) {
			checkPictures(t, dir, row["source"], row["edit"])
		}
		for _, row := range lines(t, pairs) {
			checkPictures(t, at("out"), row["source"], row["chosen"], row["rejected"])
		}
	}
}

func checkPictures(t *testing.T, folder string, names ...any) {
	t.Helper()
	for _, name := range names {
		if _, err := (data.Image{Path: name.(string)}).Open(folder, data.Limits{}); err != nil {
			t.Error(err)
		}
	}
}

// TestMissingPictures: a missing picture is named by row and file, and condition leaves no link to it.
func TestMissingPictures(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "scores.jsonl")
	in := writeEdits(t, dir, "t.jsonl")
	scorer := filepath.Join(oracle.Folders(t)[0], "llavanext", "scorer")
	if code, v := command(t, "batch", "--scorer", scorer, "--in", in, "--out", table); code != 0 {
		t.Fatalf("batch: exit code %d, want 0: %v", code, v)
	}
	labels := filepath.Join(dir, "labels")
	if err := os.Remove(filepath.Join(dir, "img", "chelsea_mirror.png")); err != nil {
		t.Fatal(err)
	}
	code, v := command(t, "condition", "--in", table, "--out", labels)
	if code != exit.Failed || v["labelled"] != 2.0 || v["failed"] != 1.0 {
		t.Fatalf("condition: exit code %d, want %d: %v", code, exit.Failed, v)
	}
	failed := lines(t, filepath.Join(labels, "failed.jsonl"))
	for _, want := range []string{table + ":2: edit: ", filepath.Join("img", "chelsea_mirror.png")} {
		if got := failed[0]["error"].(string); !strings.Contains(got, want) {
			t.Errorf("failed.jsonl says %q, want %q in it", got, want)
		}
	}
	links, err := os.ReadDir(filepath.Join(labels, "images"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(labels, "images", link.Name())); err != nil {
			t.Error(err)
		}
	}
	if len(links) != 3 { // two edits of one source; the other row's source comes before its edit
		t.Errorf("%d pictures, want 3: %v", len(links), links)
	}
	if err := os.RemoveAll(filepath.Join(dir, "img")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"condition", "--in", table, "--out", filepath.Join(dir, "none")},
		{"drift", "--before", table, "--after", table},
	} {
		code, v := command(t, args...)
		said, _ := v["error"].(string)
		for _, want := range []string{"none of 3 rows", table + ":1: source: ", filepath.Join("img", "coffee.png")} {
			if code != exit.Failed || !strings.Contains(said, want) {
				t.Errorf("%s: exit code %d, %q, want %d and %q", args[0], code, said, exit.Failed, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("condition made a folder of no labels")
	}
}

// TestOutIsIn: no command replaces the table that it reads.
func TestOutIsIn(t *testing.T) {
	dir := t.TempDir()
	table, scorer := edits(t, dir)
	before, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"batch", "--scorer", scorer, "--in", table, "--out", table},
		{"batch", "--scorer", scorer, "--in", table, "--out", table, "--shard", "1/2"},
		{"best", "--scorer", scorer, "--in", table, "--out", table},
		{"judge", "--config", "viescore", "--url", "http://127.0.0.1:9/v1", "--model", "x", "--in", table, "--out", table},
	} {
		code, v := command(t, args...)
		if said, _ := v["error"].(string); code != exit.Wrong || !strings.Contains(said, "is also the file of --in") {
			t.Errorf("%s: exit code %d, %v, want %d: it is also the file of --in", args[0], code, v, exit.Wrong)
		}
	}
	for _, pairs := range []string{table, filepath.Join(dir, "scores.jsonl")} {
		code, v := command(t, "batch", "--scorer", scorer, "--in", table, "--out", filepath.Join(dir, "scores.jsonl"),
			"--pairs", pairs)
		if said, _ := v["error"].(string); code != exit.Wrong || !strings.Contains(said, "would replace it") {
			t.Errorf("--pairs %s: exit code %d, %v, want %d: a table would be replaced", pairs, code, v, exit.Wrong)
		}
	}
	if after, err := os.ReadFile(table); err != nil || string(after) != string(before) {
		t.Errorf("the table is %q, want it as it was (%v)", after, err)
	}
}

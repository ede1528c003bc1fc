package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/cli"
	"assay/internal/oracle"
)

// TestJudgeShards: likewise for judges that answer in words.
func TestJudgeShards(t *testing.T) {
	dir := t.TempDir()
	images := filepath.Join(oracle.Folders(t)[0], "images")
	var table strings.Builder
	for _, instruction := range []string{"blur it", "make it red", "turn it", "", "light it"} {
		row, _ := json.Marshal(map[string]string{"source": filepath.Join(images, "coffee.png"),
			"edit": filepath.Join(images, "coffee_blur.png"), "instruction": instruction})
		table.Write(append(row, '\n'))
	}
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	url, _ := judgeServer(t, `{"score": [20, 10], "reasoning": "so"}`)
	judge := func(name string, more ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		code, _, stderr := run(t, append([]string{"judge", "--config", "editscore", "--url", url, "--model", "m", "--store",
			filepath.Join(dir, "answers"), "--in", in, "--out", out}, more...)...)
		if code != cli.Done {
			t.Fatalf("%v: exit code %d: %s", more, code, stderr)
		}
		text, _ := os.ReadFile(out)
		return string(text)
	}
	want := judge("whole.jsonl")
	for _, shard := range []string{"2/3", "any/3"} {
		judge("parts.jsonl", "--shard", shard)
	}
	if got := judge("parts.jsonl", "--merge"); got != want || want == "" {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBatchShards: what shards in any order and --merge write is what one run writes, byte for byte, bad rows and
// preferences included; before all are done nothing is written.
func TestBatchShards(t *testing.T) {
	dir := t.TempDir()
	table, scorer, _ := writeBatch(t, dir)
	out := func(name string) string { return filepath.Join(dir, name) }
	batch := func(name string, more ...string) (int, string, string) {
		return run(t, append([]string{"batch", "--scorer", scorer, "--in", table, "--out", out(name + ".jsonl"),
			"--pairs", out(name + "-pairs.jsonl")}, more...)...)
	}
	if code, _, stderr := batch("whole"); code != cli.Failed { // there are bad rows
		t.Fatal(code, stderr)
	}
	code, _, stderr := batch("parts", "--merge")
	if code == cli.Done || !strings.Contains(stderr, "no shards to merge") {
		t.Error(code, stderr)
	}
	for _, shard := range []string{"3/3", "1/3", "3/3"} {
		if code, _, stderr := batch("parts", "--shard", shard); code != cli.Done {
			t.Fatal(shard, code, stderr)
		}
	}
	code, _, stderr = batch("parts", "--merge")
	if code == cli.Done || !strings.Contains(stderr, "1 of 3 shards are not done: 2") {
		t.Error(code, stderr)
	}
	if _, err := os.Stat(out("parts.jsonl")); err == nil {
		t.Error("an incomplete table was written")
	}
	if code, _, stderr := batch("parts", "--shard", "1/4"); code == cli.Done || !strings.Contains(stderr, "not 4") {
		t.Error(code, stderr)
	}
	if code, stdout, stderr := batch("parts", "--shard", "any/3", "--json"); code != cli.Done ||
		!strings.Contains(stdout, `"shards":[2],"before":2`) {
		t.Fatal(code, stdout, stderr)
	}
	if code, _, stderr := batch("parts", "--merge"); code != cli.Failed || !strings.Contains(stderr, "could not be scored") {
		t.Fatal(code, stderr)
	}
	for _, name := range []string{".jsonl", "-pairs.jsonl"} {
		want, err := os.ReadFile(out("whole" + name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out("parts" + name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	text, err := os.ReadFile(table)
	if err != nil || os.WriteFile(table, bytes.Replace(text, []byte("label"), []byte("lebal"), 1), 0o666) != nil {
		t.Fatal(err)
	}
	if code, _, stderr := batch("parts", "--merge"); code == cli.Done || !strings.Contains(stderr, "other work") {
		t.Errorf("a table that was changed: %d %s", code, stderr)
	}
	for _, bad := range []string{"0/3", "4/3", "x", "auto/0"} {
		if code, _, stderr := batch("bad", "--shard", bad); code != cli.Wrong || !strings.Contains(stderr, "--shard") {
			t.Error(bad, code, stderr)
		}
	}
}

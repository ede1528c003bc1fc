package score

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/oracle"
)

// TestJudgeShards: the same for VLM judges.
func TestJudgeShards(t *testing.T) {
	dir := t.TempDir()
	images := filepath.Join(oracle.Folders(t)[0], "images")
	picture, err := os.ReadFile(filepath.Join(images, "coffee_blur.png"))
	if err != nil || os.WriteFile(filepath.Join(dir, "edit.png"), picture, 0o666) != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, instruction := range []string{"blur it", "make it red", "turn it", "", "light it"} {
		row, _ := json.Marshal(map[string]string{"source": filepath.Join(images, "coffee.png"),
			"edit": filepath.Join(dir, "edit.png"), "instruction": instruction})
		table.Write(append(row, '\n'))
	}
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	url, _ := judgeServer(t, `{"score": [20, 10], "reasoning": "so"}`)
	judge := func(want int, name string, more ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		code, _, stderr := run(t, append([]string{"judge", "--config", "editscore", "--url", url, "--model", "m", "--store",
			filepath.Join(dir, "answers"), "--in", in, "--out", out}, more...)...)
		if code != want {
			t.Fatalf("%v: exit code %d: %s", more, code, stderr)
		}
		text, _ := os.ReadFile(out)
		return string(text)
	}
	want := judge(exit.Done, "whole.jsonl")
	for _, shard := range []string{"2/3", "any/3"} {
		judge(exit.Done, "parts.jsonl", "--shard", shard)
	}
	copied := filepath.Join(dir, "edit.png")
	other, err := os.ReadFile(filepath.Join(images, "coffee.png"))
	if err != nil || os.WriteFile(copied, other, 0o666) != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{{"--merge"}, {"--shard", "1/3", "--columns", "edit=source"}} {
		judge(map[string]int{"--merge": exit.Failed, "--shard": exit.Wrong}[more[0]], "parts.jsonl", more...)
	}
	if os.WriteFile(copied, picture, 0o666) != nil {
		t.Fatal("the picture was not put back")
	}
	if got := judge(exit.Done, "parts.jsonl", "--merge"); got != want || want == "" {
		t.Errorf("%s, want %s", got, want)
	}
}

// sharded is a table with bad rows that is scored repeatedly.
type sharded struct {
	t             *testing.T
	dir           string
	table, scorer string
}

func newSharded(t *testing.T) *sharded {
	t.Helper()
	s := &sharded{t: t, dir: t.TempDir()}
	s.table, s.scorer, _ = writeBatch(t, s.dir)
	return s
}

// batch scores it into a table of that name, and checks the exit code and the message.
func (s *sharded) batch(code int, said, name string, more ...string) {
	s.t.Helper()
	got, stdout, stderr := run(s.t, append([]string{"batch", "--scorer", s.scorer, "--in", s.table,
		"--out", filepath.Join(s.dir, name+".jsonl"), "--pairs", filepath.Join(s.dir, name+"-pairs.jsonl")}, more...)...)
	if got != code || !strings.Contains(stdout+stderr, said) {
		s.t.Errorf("%v: exit code %d, want %d: %s%s, want %q", more, got, code, stdout, stderr, said)
	}
}

// shard scores a shard, whose exit code is 1 if rows failed, and returns their number.
func (s *sharded) shard(ref string, said ...string) (failed int) {
	s.t.Helper()
	code, stdout, stderr := run(s.t, "batch", "--scorer", s.scorer, "--in", s.table, "--out",
		filepath.Join(s.dir, "parts.jsonl"), "--pairs", filepath.Join(s.dir, "parts-pairs.jsonl"), "--shard", ref, "--json")
	var r struct{ Failed int }
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		s.t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	if want := min(r.Failed, 1) * exit.Failed; code != want {
		s.t.Errorf("--shard %s: exit code %d with %d failed rows: %s", ref, code, r.Failed, stderr)
	}
	for _, part := range said {
		if !strings.Contains(stdout, part) {
			s.t.Errorf("--shard %s: %s, want %q", ref, stdout, part)
		}
	}
	return r.Failed
}

// TestBatchShards: shards in any order and --merge write the same as one run, byte for byte, including bad rows and
// preferences; nothing is written before all are done.
func TestBatchShards(t *testing.T) {
	s := newSharded(t)
	s.batch(exit.Failed, "could not be scored", "whole") // there are bad rows
	bad := 0
	for _, shard := range []string{"3/3", "1/3", "3/3"} {
		bad += s.shard(shard)
	}
	s.batch(exit.Failed, "1 of 3 shards are not done: 2", "parts", "--merge")
	if _, err := os.Stat(filepath.Join(s.dir, "parts.jsonl")); err == nil {
		t.Error("an incomplete table was written")
	}
	if bad += s.shard("any/3", `"shards":[2],"before":2`); bad == 0 {
		t.Error("no shard has the rows that cannot be scored")
	}
	s.batch(exit.Failed, "could not be scored", "parts", "--merge")
	for _, name := range []string{".jsonl", "-pairs.jsonl"} {
		want, err := os.ReadFile(filepath.Join(s.dir, "whole"+name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(s.dir, "parts"+name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
}

// TestBatchShardsChanged: if a picture was replaced after its shard was done, the merge does not write the old
// picture's score.
func TestBatchShardsChanged(t *testing.T) {
	s := newSharded(t)
	s.batch(exit.Failed, "could not be scored", "whole")
	s.shard("any/3")
	broken := filepath.Join(s.dir, "broken.png")
	if err := os.WriteFile(broken, []byte("\x89PNG\r\n\x1a\nnot the same"), 0o666); err != nil {
		t.Fatal(err)
	}
	s.batch(exit.Failed, "row 2 has changed since its shard was done", "parts", "--merge")
	if _, err := os.Stat(filepath.Join(s.dir, "parts.jsonl")); err == nil {
		t.Error("a table was written")
	}
	s.batch(exit.Failed, "could not be scored", "parts", "--merge", "--assume-unchanged")
	want, errA := os.ReadFile(filepath.Join(s.dir, "whole.jsonl"))
	got, errB := os.ReadFile(filepath.Join(s.dir, "parts.jsonl"))
	if errA != nil || errB != nil || !bytes.Equal(got, want) {
		t.Errorf("as they were scored: other bytes (%v, %v)", errA, errB)
	}
}

// TestBatchShardsRefuse: shards of other work, of another number, or that do not exist are refused.
func TestBatchShardsRefuse(t *testing.T) {
	s := newSharded(t)
	s.batch(exit.Failed, "no shards to merge", "parts", "--merge")
	s.shard("3/3")
	s.batch(exit.Wrong, "not 4", "parts", "--shard", "1/4")
	s.batch(exit.Wrong, "other work", "parts", "--shard", "1/3", "--columns", "edit=source") // other pictures
	s.batch(exit.Wrong, "requires --merge", "parts", "--shard", "1/3", "--assume-unchanged")
	text, err := os.ReadFile(s.table)
	if err != nil || os.WriteFile(s.table, bytes.Replace(text, []byte("label"), []byte("lebal"), 1), 0o666) != nil {
		t.Fatal(err)
	}
	s.batch(exit.Wrong, "other work", "parts", "--merge")
	for _, bad := range []string{"0/3", "4/3", "x", "auto/0"} {
		s.batch(exit.Wrong, "--shard", "bad", "--shard", bad)
	}
}

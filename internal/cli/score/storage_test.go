//go:build cloud

package score

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/exit"
	"assay/internal/oracle"
	"assay/internal/remote"
	"assay/internal/remote/s3test"
)

// TestJudgeS3Pictures: a judge sees pictures that a table names by S3 URLs, just as pictures in files. It answers
// with a number computed from what it was shown.
func TestJudgeS3Pictures(t *testing.T) {
	client, _ := s3test.Start(t, "pictures")
	dir, images := t.TempDir(), filepath.Join(oracle.Folders(t)[0], "images")
	for _, name := range []string{"coffee", "coffee_blur", "rocket", "rocket_grey"} {
		s3test.Put(t, client, "pictures", "some folder", filepath.Join(images, name+".png"))
	}
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sum := sha256.Sum256(body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"model": "m", "choices": [{"message": {"role": "assistant", "content":
			"{\"score\": [%d, %d], \"reasoning\": \"so\"}"}, "finish_reason": "stop"}],
			"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}`, sum[0]%26, sum[1]%26)
	}))
	t.Cleanup(judge.Close)
	tables := onBoth(t, images) // of files, of objects
	var scores [2][]any
	for i := range tables {
		in, out := filepath.Join(dir, fmt.Sprint(i, ".jsonl")), filepath.Join(dir, fmt.Sprint(i, "-out.jsonl"))
		if err := os.WriteFile(in, []byte(tables[i].String()), 0o666); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := run(t, "judge", "--config", "editscore", "--url", judge.URL, "--model", "m", "--store",
			filepath.Join(dir, fmt.Sprint("answers", i)), "--in", in, "--out", out)
		if code != exit.Failed {
			t.Fatalf("exit code %d, want %d for the picture that is not there: %s", code, exit.Failed, stderr)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var r struct {
				Score any
				Error string
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Error != "" && !strings.Contains(r.Error, "none.png") {
				t.Error(r.Error)
			}
			scores[i] = append(scores[i], r.Score)
		}
	}
	if got, want := fmt.Sprint(scores[1]), fmt.Sprint(scores[0]); got != want || len(scores[0]) != 4 ||
		scores[0][0] == nil || scores[0][3] != nil || scores[0][0] == scores[0][1] && scores[0][1] == scores[0][2] {
		t.Errorf("by address %s, by path %s", got, want)
	}
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer failing.Close()
	pause := remote.FirstPause
	remote.FirstPause = time.Millisecond
	defer func() { remote.FirstPause = pause }()
	t.Setenv("AWS_ENDPOINT_URL", failing.URL)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	in, out := filepath.Join(dir, "1.jsonl"), filepath.Join(dir, "failing.jsonl")
	again := []byte(strings.ReplaceAll(tables[1].String(), "s3://pictures/", "s3://another/")) // a bucket not open yet
	if err := os.WriteFile(in, again, 0o666); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run(t, "judge", "--config", "editscore", "--url", judge.URL, "--model", "m", "--store",
		filepath.Join(dir, "answers"), "--in", in, "--out", out)
	if _, err := os.Stat(out); code != exit.Failed || !strings.Contains(stderr, "rerun the same command to resume") ||
		err == nil {
		t.Errorf("storage that fails: exit code %d, %v: %s", code, err, stderr)
	}
}

// TestS3NoBucket: a missing bucket is reported before a scorer is opened, and nothing is computed.
func TestS3NoBucket(t *testing.T) {
	client, _ := s3test.Start(t, "there")
	table := filepath.Join(t.TempDir(), "table.jsonl")
	if err := os.WriteFile(table, []byte("{}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s3test.Put(t, client, "there", "", table)
	for out, want := range map[string]string{"s3://nobody/x.jsonl": "there is no bucket s3://nobody",
		"s3://there/x.jsonl": "no-scorer"} {
		code, _, stderr := run(t, "batch", "--scorer", "no-scorer", "--in", "s3://there/table.jsonl", "--out", out)
		if code != exit.Wrong || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", out, code, exit.Wrong, want, stderr)
		}
	}
}

// onBoth writes a table of pictures in files, and one of the same pictures as objects. One picture is missing.
func onBoth(t *testing.T, images string) (tables [2]strings.Builder) {
	t.Helper()
	for _, names := range [][2]string{{"coffee", "coffee_blur"}, {"rocket", "rocket_grey"}, {"coffee", "rocket"},
		{"coffee", "none"}} {
		row := [2]map[string]string{}
		for i := range row {
			row[i] = map[string]string{"id": names[0] + names[1], "instruction": "make it so"}
		}
		for k, column := range []string{"source", "edit"} {
			row[0][column] = filepath.Join(images, names[k]+".png")
			row[1][column] = "s3://pictures/some folder/" + names[k] + ".png"
		}
		for i := range tables {
			line, err := json.Marshal(row[i])
			if err != nil {
				t.Fatal(err)
			}
			tables[i].Write(append(line, '\n'))
		}
	}
	return tables
}

package house

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// judge starts a server that returns one answer to every question of VIEScore, and another to all other questions.
func judge(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		answer := "7.5"
		if strings.Contains(string(body), "reasoning") {
			answer = `{"score": [8, 6], "reasoning": "so"}`
		}
		said, err := json.Marshal(answer)
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

const bookEnv = "ASSAY_TEST_BOOK"

// TestBook dry-runs every chapter of the reproduction book. Its commands run on data of the miniature world in the
// published layouts, and its configurations are planned. Each chapter must say what to expect and what remains
// different. It takes minutes and few changes affect it: `make book` runs it, and so does .ci/run in parallel with
// other steps.
func TestBook(t *testing.T) {
	if os.Getenv(bookEnv) == "" {
		t.Skipf("takes minutes: run make book (%s=1)", bookEnv)
	}
	t.Parallel()
	commands(t)
	bin := t.TempDir()
	build := exec.Command("go", "-C", "lab", "build", "-o", bin, "./reproduce", "./miniature")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: got error %v, want none\n%s", err, out)
	}
	for _, name := range []string{"train", "score", "label"} {
		to, err := filepath.Abs(filepath.Join(root, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	list := exec.Command("reproduce/run.sh", "--list")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var chapters []string
	for _, name := range strings.Fields(string(out)) {
		page := string(read(t, "reproduce/"+name+"/README.md"))
		for _, part := range []string{"\n```sh\n", "\n## Expected\n", "\n## What remains different\n"} {
			if strings.Count(page, part) != 1 {
				t.Errorf("reproduce/%s/README.md: got %q %d times, want it once", name, part, strings.Count(page, part))
			}
		}
		if name == "adiee/full" { // other chapters compare with it
			chapters = append([]string{name}, chapters...)
		} else {
			chapters = append(chapters, name)
		}
	}
	if len(chapters) < 19 {
		t.Errorf("got %d chapters, want at least 19: %v", len(chapters), chapters)
	}
	dir := t.TempDir()
	run := exec.CommandContext(t.Context(), "reproduce/run.sh", append([]string{"--check"}, chapters...)...)
	run.Dir = root
	run.Env = append(os.Environ(), "REPRODUCE_BIN="+bin, "REPRODUCE_OUT="+filepath.Join(dir, "book"), "URL="+judge(t),
		"MODEL=m", "ASSAY_STORE="+filepath.Join(dir, "store"))
	if out, err := run.CombinedOutput(); err != nil {
		lines := strings.Split(string(out), "\n")
		t.Errorf("got error %v, want none\n%s", err, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

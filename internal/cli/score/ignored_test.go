package score

import (
	"strings"
	"testing"

	"assay/internal/exit"
)

// TestIgnoredFlags: flags that would have no effect together are refused.
func TestIgnoredFlags(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"judge --config viescore --url http://localhost:1/v1 --model m --in a.jsonl --out b.jsonl --instruction x",
			"--instruction is for one edit"},
		{"bench gedit-bench --scorer none --component sc=none --ratings a.jsonl --editors b --out c --shard 1/2",
			"--component is not measured by the workers"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.line)...)
		if code != exit.Wrong || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: got exit code %d and %s%s, want %d and %q", c.line, code, stdout, stderr, exit.Wrong, c.want)
		}
	}
}

package score

import (
	"strings"
	"testing"

	"assay/internal/exit"
)

// TestChatCacheAndType: --cache takes sizes with a unit and refuses other values; a dtype that the CPU does not
// compute in gets a warning, and changes no answer.
func TestChatCacheAndType(t *testing.T) {
	ask := func(args ...string) (code int, stdout, stderr string) {
		return run(t, append([]string{"chat", "--backbone", "../../../backbones/tiny", "--text", "What is this?",
			"--max-new-tokens", "4", "--temperature", "0", "--device", "cpu"}, args...)...)
	}
	code, want, stderr := ask("--cache", "33554432")
	if code != exit.Done || want == "" || stderr != "" {
		t.Fatal(code, want, stderr)
	}
	code, got, stderr := ask("--cache", "32MiB", "--dtype", "bfloat16")
	if code != exit.Done || got != want || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "float32") {
		t.Errorf("%d %q, want %q; stderr %q", code, got, want, stderr)
	}
	if code, _, stderr = ask("--cache", "1KiB"); code != exit.Wrong || !strings.Contains(stderr, "larger cache") {
		t.Errorf("a cache of a kilobyte: %d %s", code, stderr)
	}
	for _, bad := range []string{"-1", "much", "2GiBs", "disk"} {
		code, _, stderr = ask("--cache", bad)
		if code != exit.Wrong || !strings.Contains(stderr, "--cache") || !strings.Contains(stderr, "10GiB") {
			t.Errorf("--cache %s: %d %s", bad, code, stderr)
		}
	}
}
